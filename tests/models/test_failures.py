"""Error responses of a server become typed errors with a remedy."""

import json
import re

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import errors
from graphexec.models import OpenAICompatible, Secret
from graphexec.models.http import failures
from graphexec.models.http.endpoint import Endpoint
from graphexec.models.providers.anthropic import ANTHROPIC
from tests.models.actors import HELLO, Script, scripted_server
from tests.models.recorded import CHAT, CHAT_REPLY, OVERFLOW
from tests.parameters import cases, read_tables

TEXTS = read_tables(__file__)

PEER = Endpoint("gpt-9", "https://api.example/v1", Secret("sk-secret"))
CLAUDE = Endpoint("claude-9", "https://api.example", provider=ANTHROPIC)


def failure_for(status: int, body: bytes = b"", peer: Endpoint = PEER, **headers: str) -> failures.CallFailure:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return failures.classify_response(peer, status, httpx.Headers(named), body, now=0.0)


def error_for(status: int, body: bytes = b"", peer: Endpoint = PEER, **headers: str) -> errors.ModelError:
    return failure_for(status, body, peer, **headers).error


CHECK_KEY = "check that the API key (given, or in OPENAI_API_KEY) is one of this server's"
CHECK_ADDRESS = "check the model's name, and the base URL (given, or in OPENAI_BASE_URL), which usually"


@cases(
    ("status", "kind", "remedy"),
    *((status, errors.BadRequestError, "change what it names") for status in (400, 422)),
    (402, errors.QuotaError, "look at your account's plan and billing"),
    *((status, errors.AuthenticationError, CHECK_KEY) for status in (401, 403)),
    (404, errors.ModelNotFoundError, CHECK_ADDRESS),
    (429, errors.RateLimitError, "try again later, or ask less often"),
    *((status, errors.ServerError, "look at the server's log") for status in (500, 503)),
    (529, errors.OverloadedError, "try again later"),
)
def test_each_status_has_its_error(status: int, kind: type[errors.ModelError], remedy: str) -> None:
    error = error_for(status, b'{"error": {"message": "because", "type": "x", "code": 400}}')
    assert (type(error), error.status) == (kind, status)
    assert str(error).startswith("gpt-9 at https://api.example/v1 ")
    assert f"({status}: because)" in str(error)
    assert remedy in str(error)


def test_errors_have_remedies_for_special_causes() -> None:
    assert "ANTHROPIC_API_KEY" in str(error_for(401, peer=CLAUDE))
    assert "ANTHROPIC_BASE_URL), which ends before /v1/messages" in str(error_for(404, peer=CLAUDE))
    # With any status.
    unknown = error_for(400, b'{"error": {"code": "model_not_found", "message": "x"}}')
    assert isinstance(unknown, errors.ModelNotFoundError)
    redirect = str(error_for(308, location="https://there/v1"))
    assert "redirects to https://there/v1; use that address as the base URL" in redirect
    assert len(str(error_for(500, b"x" * 1_000_000))) < 500


def test_errors_name_neither_parameters_nor_options() -> None:
    statuses = (status for status in range(199, 600) if status != 200)
    found = [error_for(status, location="https://there/v1", retry_after="120") for status in statuses]
    for raised in (httpx.ReadTimeout, httpx.UnsupportedProtocol, httpx.DecodingError, httpx.ConnectError, OSError):
        failure = failures.classify_exception(PEER, raised(""), seconds=3.0)
        assert failure is not None
        found.append(failure.error)
    for error in (*found, failures.missing_key_error(PEER), failures.invalid_key_error(PEER)):
        assert not re.search(r"\w=|base_url|api_key|max_|--", str(error)), str(error)


@cases("short", "k", "now", "sk-1234")
@given(key=st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=8), before=st.text(), after=st.text())
def test_only_a_long_key_is_hidden(short: str, key: str, before: str, after: str) -> None:
    assert key not in Endpoint("gpt-9", "https://api.example/v1", Secret(key)).quote(before + key + after)
    words = f"Name or service not known, {short}"
    assert Endpoint("gpt-9", "https://api.example/v1", Secret(short)).quote(words) == words


@cases(
    ("body", "shown"),
    (b"", "without a message"),
    (b"<html>\r\n  <title>Bad\x1b[31m Gateway</title>", "<html> <title>Bad [31m Gateway</title>"),
    (b'{"error": "model not loaded"}', "model not loaded"),
    (b'{"detail": [{"loc": ["body"], "msg": "field required"}]}', "body: field required"),
    (b'{"message": "no such route", "object": "error"}', "no such route"),
    (b'{"error": {"code": 7}}', '{"code": 7}'),
    (b'[{"error": {"message": "listed"}}]', "listed"),
    (b"\xff\xfe", "��"),
    (b'{"error": {"message": "the key sk-secret is wrong"}}', "the key *** is wrong"),
)
def test_server_message_is_one_line_without_key(body: bytes, shown: str) -> None:
    assert f"(400: {shown})" in str(error_for(400, body))


TOO_LONG = b'{"error": {"code": "context_length_exceeded", "message": "%s"}}'
LONGEST = b"This model's maximum context length is"
CLAUDES = b'{"type": "error", "error": {"type": "invalid_request_error", "message": "%s"}, "request_id": "req_1"}'
DECREASE = b"input length and `max_tokens` exceed context limit: 199658 + 21333 > 200000, decrease input"


@cases(
    ("peer", "body", "prompt", "context"),
    (PEER, OVERFLOW, 5031, 4096),
    (PEER, TOO_LONG % b"too long", None, None),
    (PEER, TOO_LONG % (LONGEST + b" 8192 tokens. However, your messages resulted in 9001 tokens."), 9001, 8192),
    (PEER, b'{"message": "%s 2048 tokens. However, you requested 2100 tokens", "code": 400}' % LONGEST, 2100, 2048),
    (CLAUDE, CLAUDES % b"prompt is too long: 205351 tokens > 200000 maximum", 205351, 200000),
    (CLAUDE, CLAUDES % DECREASE, 199658, 200000),
)
def test_overflow_error_has_token_counts(peer: Endpoint, body: bytes, prompt: int | None, context: int | None) -> None:
    error = error_for(400, body, peer)
    assert isinstance(error, errors.ContextOverflowError)
    assert (error.prompt_tokens, error.context_tokens) == (prompt, context)


@cases(
    ("header", "seconds"),
    *(("2", 2.0), ("0.5", 0.5), ("0", 0.0)),
    *(("Thu, 01 Jan 1970 00:01:00 GMT", 60.0), ("Wed, 31 Dec 1969 23:00:00 GMT", 0.0)),
    *((header, None) for header in (None, "soon", "-3", "nan", "inf", "Thu, 99 Jan 1970 00:01:00 GMT")),
)
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    assert failures.parse_retry_after(header, now=0.0) == seconds


PAY = b'{"error": {"code": "insufficient_quota", "message": "pay"}}'
LONG_WAIT = "the server asks for 120 s, more than this client waits (60 s): try again in 120 s"


@cases(
    ("status", "body", "wait", "fact", "transient"),
    (429, b"", "7", "try again in 7 s", True),
    (429, b"busy", "120", LONG_WAIT, False),
    (503, b"busy", "120", LONG_WAIT, False),
    (429, PAY, "", "(429: pay); look at your account's plan and billing", False),
)
def test_error_has_the_wait(status: int, body: bytes, wait: str, fact: str, transient: bool) -> None:
    assert f"more than {failures.LONGEST_ADVISED:g} s" in (OpenAICompatible.__doc__ or "")
    failure = failure_for(status, body, PEER, **({"retry_after": wait} if wait else {}))
    assert failure.transient is transient
    assert fact in str(failure.error)
    assert ("try again" in str(failure.error)) == bool(wait)
    if status == 429:
        assert isinstance(failure.error, errors.RateLimitError)
        assert failure.error.retry_after == (float(wait) if wait else None)


@cases(("sizes", "message"), *[line.split(" | ") for line in TEXTS["overflows"].splitlines()])
def test_overflow_is_known_by_its_sentence(sizes: str, message: str) -> None:
    prompt, context = (None if size == "-" else int(size) for size in sizes.split())
    for status in (200, 400, 500):
        error = failures.error_in_body(PEER, failures.ErrorReport(message))
        if status != 200:
            error = error_for(status, json.dumps({"error": {"message": message}}).encode())
        assert isinstance(error, errors.ContextOverflowError), message
        assert (error.prompt_tokens, error.context_tokens) == (prompt, context)


@cases(
    ("status", "message", "kind"),
    (429, "Too many tokens, please wait before trying again.", errors.RateLimitError),
    (400, "Request too large on tokens per minute (TPM): Limit 6000, Requested 7000", errors.BadRequestError),
    (400, "max_tokens is too large: 9000. This model supports at most 8192 tokens", errors.BadRequestError),
    (500, "Jinja Exception: System message must be at the beginning.", errors.BadRequestError),
    (403, "Your team does not have any credits", errors.QuotaError),
    (400, "API key not valid. Please pass a valid API key.", errors.AuthenticationError),
    (503, "The model is overloaded.", errors.OverloadedError),
    (403, "Your input was flagged", errors.RefusalError),
)
def test_sentence_tells_the_class(status: int, message: str, kind: type[errors.ModelError]) -> None:
    assert type(error_for(status, json.dumps({"error": {"message": message}}).encode())) is kind


@cases(
    ("code", "kind"),
    *((code, errors.RateLimitError) for code in (429, "429", "rate_limit_exceeded", "Throttling.RateQuota")),
    *((code, errors.QuotaError) for code in (402, "insufficient_quota", "1113")),
    *((code, errors.OverloadedError) for code in (529, "engine_overloaded_error")),
    *((code, errors.ServerError) for code in (408, 500, 502, "503", 524, "InternalServerError")),
    *((code, errors.AuthenticationError) for code in (401, "invalid_api_key", "PermissionDenied")),
    *((code, errors.RefusalError) for code in ("content_filter", "data_inspection_failed")),
    (404, errors.ModelNotFoundError),
    (400, errors.BadRequestError),
    ("tool_use_failed", errors.InvalidCallError),
    (7, errors.InvalidReplyError),
    (True, errors.InvalidReplyError),
)
def test_code_in_a_body_tells_the_class(code: object, kind: type[errors.ModelError]) -> None:
    for body in (
        {"error": {"code": code, "message": "x"}},
        {"error": "x", "code": code},
        {"message": "x", "code": code},
    ):
        error = failures.error_in_body(PEER, failures.ErrorReport.from_json(body))
        assert (type(error), error.status) == (kind, 200)


@cases(("wait", "text"), *[line.split(" | ") for line in TEXTS["waits"].splitlines()])
def test_sentence_tells_the_wait(wait: str, text: str) -> None:
    advised = failure_for(429, json.dumps({"error": {"message": text}}).encode()).advised
    assert advised == (None if wait == "-" else float(wait))


@cases(
    ("code", "said", "transient"), (500, "false", False), (400, "true", True), (429, "maybe", True), (404, "", False)
)
def test_server_decides_on_retries(code: int, said: str, transient: bool) -> None:
    assert failure_for(code, x_should_retry=said).transient is transient


# tests/models/test_timeouts.py has those of a timeout.
BROKEN = errors.ModelConnectionError


@cases(
    ("error", "kind", "text"),
    (httpx.ConnectError("refused"), BROKEN, "is the server running at https://api.example/v1?"),
    (httpx.ConnectTimeout(""), BROKEN, "(ConnectTimeout); is the server running"),
    (httpx.RemoteProtocolError("cut"), BROKEN, "the connection to gpt-9"),
    *((error, BROKEN, "broke (cut); try again") for error in (httpx.ReadError("cut"), ConnectionResetError("cut"))),
    *((wrong("x"), BROKEN, "must be an address") for wrong in (httpx.UnsupportedProtocol, httpx.InvalidURL)),
)
def test_each_client_exception_has_its_error(error: Exception, kind: type[errors.ModelError], text: str) -> None:
    failure = failures.classify_exception(PEER, error, seconds=30.0)
    assert failure is not None
    assert type(failure.error) is kind
    assert text in str(failure.error)


def test_other_exceptions_are_unchanged() -> None:
    class ConnectError(Exception):
        """An exception with the name of an httpx exception that is not from httpx."""

    assert failures.classify_exception(PEER, ConnectError(), seconds=3.0) is None
    with pytest.raises(ZeroDivisionError):
        scripted_server(ZeroDivisionError()).complete(HELLO)


@cases("url", "", "nonsense", "ftp://here/v1", "http://[::1", "http://here:port/v1", "http://")
def test_a_wrong_address_is_a_connection_error(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", url or "nonsense")
    with OpenAICompatible("gpt-9", api_key="", max_retries=0) as model, pytest.raises(errors.ModelConnectionError):
        model.complete(HELLO)


class TestKeys:
    @pytest.fixture(autouse=True)
    def environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        monkeypatch.delenv("OPENAI_BASE_URL", raising=False)

    def ask(self, base_url: str | None, api_key: str | None) -> str | None:
        """Return the Authorization header of the request that is sent."""
        script = Script(httpx.Response(200, content=CHAT))
        with httpx.Client(transport=script.transport) as client:
            model = OpenAICompatible("gpt-9", base_url=base_url, api_key=api_key, client=client)
            assert model.complete(HELLO) == CHAT_REPLY
        sent: str | None = script.requests[0].headers.get("authorization")
        return sent

    @cases("url", "127.0.0.1:9/v1", "localhost:9/v1", "api.example/v1", "ftp://api.example/v1")
    def test_address_is_validated_before_the_key(self, url: str) -> None:
        with pytest.raises(errors.ModelConnectionError, match="begins with neither http:// nor https://") as caught:
            self.ask(url, None)
        assert "key" not in str(caught.value)

    @cases("url", "127.0.0.1:80/v1", "localhost/v1", "[::1]:1/v1", "0.0.0.0", "127.9.9.9")
    def test_local_server_needs_no_key(self, url: str) -> None:
        assert self.ask(f"http://{url}", None) is None

    @cases(("key", "sent"), ("", None), (None, "Bearer of-the-environment"), ("mine", "Bearer mine"))
    def test_environment_provides_a_key(self, monkeypatch: pytest.MonkeyPatch, key: str | None, sent: str) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "of-the-environment\n")
        assert self.ask("http://elsewhere/v1", key) == sent
