"""Keys that a server or a proxy repeats are not shown, however they are written and wherever they are cut."""

from __future__ import annotations

import base64
import html
import json
import re
import time
from collections.abc import Callable
from urllib.parse import quote

import httpx
import pytest

from graphexec.errors import ModelError
from graphexec.models import OpenAICompatible, Secret
from graphexec.models.http.endpoint import Endpoint
from graphexec.models.secret import redact
from tests.models.actors import LoopbackServer, Script, send_and_drop
from tests.models.call_modes import Ask, all_modes, call_blocking
from tests.models.test_secrets import KEY, nothing_leaks
from tests.parameters import cases

ODD = "k%2F+/=w%20a+b/c==Zq&<x>'\"\\q9"
LONG = "eyJ0" + "Ab0-_%=/" * 250


def to_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode().rstrip("=")


ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "lower case": str.lower,
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON in JSON": lambda text: json.dumps(json.dumps(text))[3:-3],
    "JSON with slashes": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "escapes of JSON": lambda text: "".join(f"\\u{ord(one):04X}" for one in text),
    "escapes of Python": lambda text: "".join(f"\\x{ord(one):02x}" for one in text),
    "URL": lambda text: quote(text, safe=""),
    "URL in a URL": lambda text: quote(quote(text, safe=""), safe=""),
    "URL in lower case": lambda text: "".join(f"%{ord(one):02x}" for one in text),
    "HTML": html.escape,
    "numbers of HTML": lambda text: "".join(f"&#{ord(one)};" for one in text),
    "base64": to_base64,
    "base64 of a URL": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "base64 in JSON": lambda text: to_base64(text).replace("/", "\\/"),
    "digits": lambda text: text.encode().hex(),
}


@cases("encoding", ENCODINGS)
@cases("key", [KEY, ODD, LONG])
def test_encoded_key_is_removed(key: str, encoding: str) -> None:
    shown = redact(f"the key <{ENCODINGS[encoding](key)}> is wrong", [Secret(key)])
    assert re.fullmatch(r"the key <\*\*\*.?> is wrong", shown)


@cases("text", ["\\", "%25", "&amp;", f"{KEY[0]}\\", KEY[:-1], f"{KEY}\\"])
def test_removing_keys_from_a_long_text_is_fast(text: str) -> None:
    endpoint = Endpoint("tiny", "https://models.example/v1", Secret(KEY))
    began = time.thread_time()
    assert KEY not in endpoint.quote(text * 500_000)
    assert time.thread_time() - began < 0.5


@cases("before", range(0, 90, 7))
def test_cut_text_shows_no_part_of_a_key(before: int) -> None:
    key = "sk-" + "Zq" * 40
    endpoint = Endpoint("tiny", "https://models.example/v1", Secret(key))
    assert "Zq" not in endpoint.quote("x" * before + key * 400)


def test_long_name_of_an_encoding_is_not_shown() -> None:
    key = "sk-" + "Zq" * 40
    script = Script(httpx.Response(200, headers={"content-encoding": key}, stream=httpx.ByteStream(b"{}")))
    client = httpx.Client(transport=script.transport)
    with pytest.raises(ModelError, match="Content-Encoding: 83 characters"):
        call_blocking(OpenAICompatible("tiny", base_url="https://a.example", api_key=key, client=client))


@all_modes
@cases("scheme", ["http", "https"])
def test_password_of_a_proxy_is_not_shown(ask: Ask, scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    basic = base64.b64encode(f"me:{KEY}".encode()).decode()
    answer = f"HTTP/1.1 407 {KEY} {basic}\r\nX-Echo: {basic}\r\nContent-Length: {len(KEY)}\r\n\r\n{KEY}".encode()
    with nothing_leaks(f"me:{KEY}") as search, LoopbackServer(*[send_and_drop(answer)] * 4) as proxy:
        for variable in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
            monkeypatch.setenv(variable, proxy.url.replace("//", f"//me:{quote(KEY, safe='')}@"))
        with OpenAICompatible("tiny", base_url=f"{scheme}://a.example/v1", api_key="", max_retries=0) as model:
            with pytest.raises(ModelError) as caught:
                ask(model)
            search.in_error(caught.value)
            search.in_object(model, "model")
    assert proxy.connections == 1


@all_modes
def test_password_of_an_invalid_proxy_is_not_shown(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://me:{KEY}@127.0.0.1:1")
    with nothing_leaks() as search:
        with pytest.raises(ModelError, match="the proxy of the environment cannot be used") as caught:
            ask(OpenAICompatible("tiny", base_url="http://a.example/v1", api_key="", max_retries=0))
        search.in_error(caught.value)
