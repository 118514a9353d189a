"""Keys are never shown: not by objects, errors, frames, logs and files, however a server or a proxy repeats them."""

import base64
import copy
import html
import json
import pickle
import re
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeAlias
from urllib.parse import quote

import httpx
import pytest
from pydantic import SecretStr

from graphexec.errors import AuthenticationError, InputError, ModelError, SecretError
from graphexec.models import Anthropic, OpenAICompatible, OpenAIResponses, Secret, create_model
from graphexec.models.http.endpoint import Address, Endpoint
from graphexec.models.http.remote import RemoteModel
from graphexec.models.secret import redact
from tests.models import actors
from tests.models.call_modes import Ask, all_modes, call_blocking, stream_blocking
from tests.models.leaks import Search, record_log
from tests.models.recorded import CHAT, CHAT_REPLY
from tests.parameters import cases

KEY = "sk-Qx7/vR2+zT9uLmN4pW8y"
CLASSES = (OpenAICompatible, OpenAIResponses, Anthropic)


@contextmanager
def nothing_leaks(*secrets: str) -> Generator[Search, None, None]:
    """Search for the key in what the block gives and in the log; nothing may be found."""
    search = Search(KEY, *secrets)
    with record_log() as log:
        yield search
    search.in_text(log.getvalue(), "log")
    assert search.hits == []


Act: TypeAlias = httpx.Response | Exception | actors.Answer


def answer(status: int, body: bytes | str, kind: str = "application/json", **headers: str) -> httpx.Response:
    return httpx.Response(status, content=body, headers={"content-type": kind} | headers)


def echo_headers(request: httpx.Request) -> httpx.Response:
    return httpx.Response(401, json={"error": {"message": f"refused: {dict(request.headers)}"}})


RAISED = [
    *(httpx.ConnectError(words) for words in ("refused", "Name or service not known", "certificate verify failed")),
    *(kind("slow") for kind in (httpx.ReadTimeout, httpx.ConnectTimeout)),
    httpx.RemoteProtocolError(f"Server disconnected, {KEY}"),
    httpx.LocalProtocolError(f"Illegal header value b'Bearer {KEY}'"),
    httpx.ProxyError("407 Proxy Authentication Required"),
    httpx.DecodingError("not gzip"),
    ValueError("a bug in a transport"),
]
ECHO = f'{{"error": {{"message": "Incorrect API key provided: {KEY}"}}}}'
EVENTS = "text/event-stream"
STATUSES = (400, 401, 403, 404, 408, 413, 422, 429, 500, 529, 201)
FAILURES: dict[str, Act] = {
    **{repr(error): error for error in RAISED},
    **{str(status): answer(status, ECHO) for status in STATUSES},
    "401 with headers": echo_headers,
    "302": answer(302, "", location=f"https://elsewhere.example/?key={KEY}"),
    "200 with an error": answer(200, ECHO),
    "not JSON": answer(200, f"Incorrect API key {KEY}"),
    "long, not JSON": answer(200, f"{'x' * 5_000} {KEY}"),
    "not UTF-8": answer(200, b"\xff" + KEY.encode()),
    "HTML": answer(500, f"<html>{KEY}</html>", "text/html"),
    "empty": answer(200, ""),
    "other JSON": answer(200, f'["{KEY}"]'),
    "wrong types": answer(200, f'{{"choices": "{KEY}", "content": ["{KEY}"], "output": "{KEY}"}}'),
    "error in a stream": answer(200, f"data: {ECHO}\n\n", EVENTS),
    "event that is not JSON": answer(200, f"data: {KEY}\n\n", EVENTS),
    "Anthropic's error": answer(200, f'event: error\ndata: {{"type": "error", {ECHO[1:]}\n\n', EVENTS),
    "stream without events": answer(200, "", EVENTS),
    "cut stream": actors.sse(
        b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n', error=httpx.ReadError(f"cut, {KEY}")
    ),
}


def make(kind: type[RemoteModel], act: Act) -> RemoteModel:
    """Make a model of a server that does the same for each request."""
    clients = actors.clients_of(actors.Script(*[act] * 99).transport)
    return kind("tiny", base_url="https://models.example/v1", api_key=KEY, clock=actors.FakeTime().clock, **clients)


@pytest.mark.medium
@all_modes
@cases("kind", *CLASSES)
def test_no_failure_shows_the_key(kind: type[RemoteModel], ask: Ask) -> None:
    with nothing_leaks() as search:
        for name, act in FAILURES.items():
            model = make(kind, act)
            with pytest.raises((ModelError, ValueError)) as caught:
                ask(model)
            search.in_error(caught.value, name)
            search.in_object(model, name)


def test_secret_shows_nothing_and_cannot_be_pickled() -> None:
    secret = Secret(KEY)
    assert [repr(secret), str(secret), f"{secret}", f"{secret:>5}", f"{secret!r}"] == ["***"] * 3 + ["  ***", "***"]
    assert secret.get_secret_value() == KEY
    # They are compared by their strings.
    assert Secret(KEY) == Secret(KEY) != Secret("another")
    assert hash(Secret(KEY)) == hash(Secret(KEY)) != hash(KEY)
    assert Secret(KEY) != KEY
    assert [bool(Secret(KEY)), bool(Secret(""))] == [True, False]
    assert copy.copy(secret) is copy.deepcopy([secret])[0] is secret
    with pytest.raises(SecretError, match="read the key where it is used"):
        pickle.dumps([secret])
    with pytest.raises(InputError, match="Secret was given an object of the class bytes; give a string"):
        Secret(KEY.encode())  # type: ignore[arg-type]  # pyright: ignore


@cases("key", KEY, Secret(KEY), SecretStr(KEY))
def test_key_may_be_hidden(key: object) -> None:
    script = actors.Script(httpx.Response(401))
    with httpx.Client(transport=script.transport) as client, pytest.raises(ModelError):
        OpenAICompatible("tiny", base_url="https://a.example", api_key=key, client=client).complete(actors.HELLO)  # type: ignore[arg-type]  # pyright: ignore
    assert script.requests[0].headers["authorization"] == f"Bearer {KEY}"


@cases("attempt", pickle.dumps, copy.copy, copy.deepcopy)
@cases("kind", *CLASSES)
def test_model_cannot_be_pickled_or_copied(kind: type[RemoteModel], attempt: Callable[[object], object]) -> None:
    with pytest.raises(SecretError, match=f"make the {kind.__name__} where it is used"):
        attempt(kind("tiny", api_key=KEY))


WRONG: list[dict[str, Any]] = [
    {"api_key": KEY, "temperature": "hot"},
    {"api_key": KEY.encode()},
    {"api_key": [KEY]},
    {"api_key": KEY, "unknown": 1},
    {"extra_headers": {"Authorization": f"Bearer {KEY}\n"}},
    {"extra_headers": {"Authorization": KEY.encode()}},
    {"extra_headers": {"X-Api-Key": [KEY]}},
    {"extra_headers": [KEY]},
    {"base_url": f"https://me:{KEY}@host/v1", "timeout": "long"},
]


@cases("options", *WRONG)
@cases("create", *CLASSES, create_model)
def test_wrong_options_show_no_secret(create: Callable[..., object], options: dict[str, Any]) -> None:
    if create is create_model and "base_url" in options:
        return
    with nothing_leaks() as search:
        with pytest.raises(InputError) as caught:
            create("openai:gpt-9" if create is create_model else "tiny", **options)
        search.in_error(caught.value)


@cases("key", f"{KEY}\nX-Evil: 1", f"{KEY}é", f"{KEY} blank", "sk-ключ", "sk with blanks", "sk\x00zero")
def test_invalid_key_is_not_shown(key: str) -> None:
    with nothing_leaks(key) as search:
        with pytest.raises(AuthenticationError) as caught:
            call_blocking(OpenAICompatible("tiny", base_url="https://a.example", api_key=key))
        search.in_error(caught.value)


QUOTED = quote(KEY, safe="")
EXTRA: dict[str, dict[str, Any]] = {
    "user name and password": {"base_url": f"https://me:{QUOTED}@models.example/v1"},
    "user name": {"base_url": f"https://{QUOTED}@models.example/v1"},
    "parameter": {"base_url": f"https://models.example/v1?api-version=3&api-key={QUOTED}"},
    "another parameter": {"base_url": f"https://models.example/v1/?key={QUOTED}"},
    "header": {"extra_headers": {"Authorization": f"Bearer {KEY}"}},
    "another header": {"extra_headers": {"X-My-Token": KEY, "X-Title": "graphexec"}},
    "member": {"extra_body": {"provider": {"api_key": KEY}, "list": [{"secret": KEY}]}},
}


def echo_request(request: httpx.Request) -> httpx.Response:
    shown = f"{request.url} {dict(request.headers)} {request.content.decode()}"
    return httpx.Response(400, json={"error": {"message": shown}}, headers={"location": str(request.url)})


@pytest.mark.medium
@cases("name", *EXTRA)
@cases("kind", *CLASSES)
def test_keys_in_other_places_are_hidden(kind: type[RemoteModel], name: str) -> None:
    script = actors.Script(echo_request, echo_request)
    options: dict[str, Any] = {"base_url": "https://models.example/v1", "api_key": "unused"} | EXTRA[name]
    model = kind("tiny", client=httpx.Client(transport=script.transport), **options)
    with nothing_leaks() as search:
        for ask in (call_blocking, stream_blocking):
            with pytest.raises(ModelError) as caught:
                ask(model)
            search.in_error(caught.value, name)
        search.in_object(model, name)
        search.in_text(model.identity + model.provider, "identity")
    # It was sent.
    search.in_text(str(echo_request(script.requests[0]).json()), "sent")
    assert search.hits


def test_address_keeps_its_parameters() -> None:
    script = actors.Script(httpx.Response(401))
    url = "https://me:pa%20ss@a.example/v1/?api-version=3&api-key=k"
    model = OpenAICompatible("tiny", base_url=url, api_key="", client=httpx.Client(transport=script.transport))
    with pytest.raises(ModelError, match=r"tiny at https://a\.example/v1\?api-version=3&api-key=\*\*\* "):
        call_blocking(model)
    assert repr(model) == "OpenAICompatible('tiny', base_url='https://a.example/v1?api-version=3&api-key=***')"
    (request,) = script.requests
    assert str(request.url) == "https://a.example/v1/chat/completions?api-version=3&api-key=k"
    assert request.headers["authorization"] == "Basic bWU6cGEgc3M="


@cases(
    ("url", "shown"),
    ("https://me:p@ss@host/v1", "https://host/v1"),
    ("https://me:pa/ss@host/v1", "https://host/v1"),
    ("me:password@host/v1", "host/v1"),
    ("//me@host", "//host"),
    ("https://host/v1/@cf/x", "https://host/v1/@cf/x"),
    ("https://host:port/v1", "https://host:port/v1"),
    ("https://host/v1?key=1&a=b&token=", "https://host/v1?key=***&a=b&token=***"),
    ("https://[::1", "https://[::1"),
)
def test_shown_address_has_no_credentials(url: str, shown: str) -> None:
    assert Address.parse(url).url == shown


@all_modes
def test_key_is_not_sent_to_another_host(ask: Ask) -> None:
    hosts: list[str] = []

    def redirect(request: httpx.Request) -> httpx.Response:
        hosts.append(request.url.host)
        return httpx.Response(307, headers={"location": "https://elsewhere.example/v1/messages"})

    clients = actors.clients_of(httpx.MockTransport(redirect))
    for client in clients.values():
        client.follow_redirects = True
    with pytest.raises(ModelError, match=r"redirects to https://elsewhere\.example/v1/messages; use that address"):
        ask(Anthropic("tiny", api_key=KEY, **clients))
    assert hosts == ["api.anthropic.com"]


@pytest.mark.medium
@all_modes
def test_log_of_a_socket_has_no_key(ask: Ask) -> None:
    # The client logs the URL, and the headers of the response.
    headers = f"Location: http://127.0.0.1/?key={KEY}\r\nX-Echo: Bearer {KEY}\r\nContent-Length: 0"
    found = actors.send(f"HTTP/1.1 302 Found\r\n{headers}\r\n\r\n".encode())
    with nothing_leaks(), record_log() as log, actors.LoopbackServer(found) as server:
        with (
            OpenAICompatible("tiny", base_url=f"{server.url}?api-key={KEY}", api_key=KEY) as model,
            pytest.raises(ModelError),
        ):
            ask(model)
        assert "api-key=***" in log.getvalue()


ODD = "k%2F+/=w%20a+b/c==Zq&<x>'\"\\q9"
LONG = "eyJ0" + "Ab0-_%=/" * 250
ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "lower case": str.lower,
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON in JSON": lambda text: json.dumps(json.dumps(text))[3:-3],
    "JSON with slashes": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "URL": lambda text: quote(text, safe=""),
    "URL in a URL": lambda text: quote(quote(text, safe=""), safe=""),
    "URL in lower case": lambda text: quote(text, safe="").lower(),
    "HTML": html.escape,
    "beginning": lambda text: text if len(text) < 100 else text[:90],
}


@cases("encoding", *ENCODINGS)
@cases("key", KEY, ODD, LONG)
def test_encoded_key_is_removed(key: str, encoding: str) -> None:
    shown = redact(f"the key <{ENCODINGS[encoding](key)}> is wrong", [Secret(key)])
    assert re.fullmatch(r"the key <\*\*\*.?> is wrong", shown)


@cases("text", "\\", "%25", "&amp;", f"{KEY[0]}\\", KEY[:-1], f"{KEY}\\")
def test_removing_keys_from_a_long_text_is_fast(text: str) -> None:
    endpoint = Endpoint("tiny", "https://models.example/v1", Secret(KEY))
    began = time.thread_time()
    assert KEY not in endpoint.quote(text * 500_000)
    assert time.thread_time() - began < 0.5


@cases("before", *range(0, 90, 7))
def test_cut_text_shows_no_part_of_a_key(before: int) -> None:
    key = "sk-" + "Zq" * 40
    endpoint = Endpoint("tiny", "https://models.example/v1", Secret(key))
    assert "Zq" not in endpoint.quote("x" * before + key * 400)
    # Nor does an error show a long name of an encoding.
    script = actors.Script(httpx.Response(200, headers={"content-encoding": key}, stream=httpx.ByteStream(b"{}")))
    client = httpx.Client(transport=script.transport)
    with pytest.raises(ModelError, match=r"Content-Encoding: \*\*\*\)"):
        call_blocking(OpenAICompatible("tiny", base_url="https://a.example", api_key=key, client=client))


@pytest.mark.medium
@all_modes
@cases("scheme", "http", "https")
def test_password_of_a_proxy_is_not_shown(ask: Ask, scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    basic = base64.b64encode(f"me:{KEY}".encode()).decode()
    answer = f"HTTP/1.1 407 {KEY} {basic}\r\nX-Echo: {basic}\r\nContent-Length: {len(KEY)}\r\n\r\n{KEY}".encode()
    with nothing_leaks(f"me:{KEY}") as search, actors.LoopbackServer(*[actors.send_and_drop(answer)] * 4) as proxy:
        for variable in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
            monkeypatch.setenv(variable, proxy.url.replace("//", f"//me:{quote(KEY, safe='')}@"))
        with OpenAICompatible("tiny", base_url=f"{scheme}://a.example/v1", api_key="", max_retries=0) as model:
            with pytest.raises(ModelError) as caught:
                ask(model)
            search.in_error(caught.value)
            search.in_object(model, "model")
    assert proxy.connections == 1


@pytest.mark.medium
@all_modes
@cases("url", f"http://me:{KEY}@127.0.0.1:1", "gopher://me:hunter2-at-home@127.0.0.1:9")
def test_password_of_an_invalid_proxy_is_not_shown(ask: Ask, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, url)
    with nothing_leaks("hunter2") as search:
        with pytest.raises(ModelError, match="the proxy of the environment cannot be used") as caught:
            ask(OpenAICompatible("tiny", base_url="http://a.example/v1", api_key="", max_retries=0))
        search.in_error(caught.value)
    # Servers on this machine are called directly.
    with actors.serve(actors.send(actors.response(CHAT))) as (_, model):
        assert call_blocking(model) == CHAT_REPLY
