"""How a call failed: a server's refusal, or an exception of the HTTP client, as one typed error of one line."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, TypeAlias

from graphexec.errors import (
    AuthenticationError,
    BadRequestError,
    ContextOverflowError,
    InvalidReplyError,
    MissingAPIKeyError,
    ModelConnectionError,
    ModelError,
    ModelNotFoundError,
    ModelTimeoutError,
    RateLimitError,
    ServerError,
)
from graphexec.models.http.endpoint import Endpoint

# Seconds. A server that asks for a longer wait is not waited for: the caller is told, and decides.
LONGEST_ADVISED = 60.0

# vLLM, OpenAI and Anthropic say the numbers only in the sentence.
_CONTEXT = re.compile(
    r"(?:maximum context length is|prompt is too long: \d{1,12} tokens >|exceed context limit: [\d +]{1,40}>)"
    r" (\d{1,12})"
)
_PROMPT = re.compile(
    r"(?:resulted in|requested|contains|has|prompt is too long:) (?:at least )?(\d{1,12}) (?:input )?tokens"
    r"|exceed context limit: (\d{1,12})"
)

# What servers say of themselves in a reply or stream that began with status 200, and what may pass.
_LIMITED = {"rate_limit_error", "rate_limit_exceeded"}
_PASSING = {"overloaded_error", "api_error", "timeout_error", "server_error", "server_is_overloaded"}


@dataclass(frozen=True, slots=True)
class CallFailure:
    """Why an attempt failed. `transient`: another one may succeed, after `advised` seconds if the server says.

    `dropped`: the connection broke, as one does that lay idle for too long.
    """

    error: ModelError
    transient: bool = False
    advised: float | None = None
    dropped: bool = False


# Any: a parsed body's values are arbitrary JSON.
_Parsed: TypeAlias = dict[str, Any] | list[Any] | str | float | None


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """What a server says went wrong, as far as its body can be read. `code`, `kind`: its own words for it, if any."""

    message: str
    code: str = ""
    kind: str = ""
    # Any: an error's other members are arbitrary JSON.
    members: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def of(cls, body: _Parsed) -> ErrorReport:
        """Read a parsed body of any shape: OpenAI's, Ollama's `{"error": "text"}`, FastAPI's `{"detail": ...}`."""
        inner = _first(_first(body, "error", "detail", "message"))
        within = inner if isinstance(inner, dict) else {}
        said = _first(inner, "message", "msg", "error")
        code, kind = (word if isinstance(word, str) else "" for word in (within.get("code"), within.get("type")))
        return cls(said if isinstance(said, str) else json.dumps(said, default=repr), code, kind, within)

    @classmethod
    def read(cls, body: bytes) -> ErrorReport:
        """Read a raw body: JSON if it is any, else its text."""
        text = body.decode("utf-8", "replace")
        try:
            return cls.of(json.loads(text))
        except (ValueError, RecursionError):
            return cls(text)


def classify_response(
    endpoint: Endpoint, status: int, headers: Mapping[str, str], body: bytes, *, now: float
) -> CallFailure:
    """Return why a server did not answer 200. `now` is the wall clock's time, for a `Retry-After` that is a date."""
    complaint = ErrorReport.read(body)
    advised = parse_retry_after(headers.get("retry-after"), now=now)
    said = f"{status}: {endpoint.quote(complaint.message) or 'without a word'}"
    overflowed = overflow_error(endpoint, complaint, status=status)
    if overflowed is not None:
        return CallFailure(overflowed)
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        # A quota does not come back by waiting.
        spent = complaint.code == "insufficient_quota"
        fact = (
            f"has no quota left for you ({said}); look at your account's plan and billing there"
            if spent
            else f"has had too many requests ({said}); {_advice(advised)}, or ask less often"
        )
        limited = RateLimitError(f"{endpoint} {fact}", status=status, retry_after=advised)
        return CallFailure(limited) if spent else _transient_failure(limited, advised)
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        kind: type[ModelError] = AuthenticationError
        fact = f"refuses the API key ({said}); check that {_key(endpoint)} is one of this server's"
    elif status == HTTPStatus.NOT_FOUND or complaint.code == "model_not_found":
        kind = ModelNotFoundError
        fact = f"was not found ({said}); check the model's name, and {_base_url(endpoint)}, {endpoint.provider.hint}"
    elif status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        fact = f"failed ({said}); {_advice(advised)}, or look at the server's log"
        return _transient_failure(ServerError(f"{endpoint} {fact}", status=status), advised)
    elif status >= HTTPStatus.BAD_REQUEST:
        kind = BadRequestError
        fact = f"refuses the request ({said}); change what it names"
    elif status >= HTTPStatus.MULTIPLE_CHOICES:
        kind = BadRequestError
        there = endpoint.quote(headers.get("location", "")) or "elsewhere"
        fact = f"redirects to {there}; use that address as the base URL"
    else:
        kind = InvalidReplyError
        fact = f"answered neither 200 nor an error ({said}); check {_base_url(endpoint)}"
    return CallFailure(kind(f"{endpoint} {fact}", status=status))


def _transient_failure(error: ModelError, advised: float | None) -> CallFailure:
    return CallFailure(error, transient=advised is None or advised <= LONGEST_ADVISED, advised=advised)


def classify_exception(endpoint: Endpoint, error: Exception, *, seconds: float) -> CallFailure | None:
    """Return what an exception of the HTTP client means, or `None` where it is none of the client's.

    By the classes' names: httpx and httpx2 are different packages with the same ones. `seconds` is how long the attempt
    had.
    """
    names = {base.__name__ for base in type(error).__mro__ if base.__module__.partition(".")[0] in {"httpx", "httpx2"}}
    fact = endpoint.quote(str(error)) or type(error).__name__
    if isinstance(error, TimeoutError) or names & {"ReadTimeout", "WriteTimeout", "PoolTimeout"}:
        return CallFailure(timeout_error(endpoint, seconds))
    if names & {"UnsupportedProtocol", "InvalidURL", "LocalProtocolError"}:
        return CallFailure(invalid_address_error(endpoint, fact))
    if names & {"DecodingError", "TooManyRedirects"}:
        unreadable = f"{endpoint} sent what cannot be read ({fact}); check {_base_url(endpoint)}, or try again"
        return CallFailure(InvalidReplyError(unreadable))
    if names & {"ConnectError", "ConnectTimeout", "ProxyError"}:
        absent = (
            f"no connection to {endpoint} ({fact}); is the server running at {endpoint.shown_url}? "
            f"Start it, or change {_base_url(endpoint)}"
        )
        return CallFailure(ModelConnectionError(absent), transient=True)
    if names & {"TransportError", "StreamError"} or isinstance(error, OSError):
        broken = (
            f"the connection to {endpoint} broke ({fact}); try again, and look whether the server is still running "
            f"at {endpoint.shown_url}"
        )
        return CallFailure(ModelConnectionError(broken), transient=True, dropped=True)
    return None


def timeout_error(endpoint: Endpoint, seconds: float) -> ModelTimeoutError:
    """Return the error of a server that took longer than `seconds`."""
    return ModelTimeoutError(
        f"{endpoint} did not answer within {max(seconds, 0):.3g} s; allow a longer timeout, or ask for a shorter reply"
    )


def invalid_address_error(endpoint: Endpoint, fact: str) -> ModelConnectionError:
    """Return the error of a base URL that nothing can be sent to."""
    return ModelConnectionError(
        f"{endpoint} cannot be asked ({fact}); {_base_url(endpoint)} must be an address such as "
        f"{endpoint.provider.example}"
    )


def missing_key_error(endpoint: Endpoint) -> MissingAPIKeyError:
    """Return the error of a request that would go out without a key."""
    return MissingAPIKeyError(
        f"{endpoint} needs an API key; set {endpoint.provider.key_variable} to it, "
        "or to any word where the server asks for none"
    )


def invalid_key_error(endpoint: Endpoint) -> AuthenticationError:
    """Return the error of a key that no HTTP header can carry."""
    return AuthenticationError(
        f"{endpoint} cannot be given the API key, which holds blanks or characters beyond ASCII; "
        f"copy {_key(endpoint)} anew"
    )


def error_in_body(endpoint: Endpoint, complaint: ErrorReport) -> ModelError:
    """Return the error that a server tells of in a body, or an event of a stream, that came with status 200.

    A `ServerError` and a `RateLimitError` may pass.
    """
    overflowed = overflow_error(endpoint, complaint, status=200)
    if overflowed is not None:
        return overflowed
    said = endpoint.quote(complaint.message)
    words = {complaint.code, complaint.kind}
    if words & _LIMITED:
        return RateLimitError(
            f"{endpoint} has had too many requests ({said}); {_advice(None)}, or ask less often", status=200
        )
    if words & _PASSING:
        return ServerError(f"{endpoint} failed ({said}); {_advice(None)}, or look at the server's log", status=200)
    return InvalidReplyError(f"{endpoint} reports an error in its reply: {said}; try again", status=200)


def overflow_error(endpoint: Endpoint, complaint: ErrorReport, *, status: int) -> ContextOverflowError | None:
    """Return the error of a prompt that is too long, where the complaint is about that."""
    prompt = _tokens(complaint.members.get("n_prompt_tokens")) or _number(_PROMPT, complaint.message)
    context = _tokens(complaint.members.get("n_ctx")) or _number(_CONTEXT, complaint.message)
    # llama.cpp tells both numbers; OpenAI has a code; vLLM and Anthropic have only the sentence.
    told = "n_ctx" in complaint.members and "n_prompt_tokens" in complaint.members
    if not (told or complaint.code == "context_length_exceeded" or _CONTEXT.search(complaint.message)):
        return None
    sizes = f"the prompt has {prompt or 'too many'} tokens, the context {context or 'fewer'}"
    return ContextOverflowError(
        f"{endpoint} cannot take so long a prompt: {sizes}; shorten it, or use a model with a longer context",
        status=status,
        prompt_tokens=prompt,
        context_tokens=context,
    )


def parse_retry_after(header: str | None, *, now: float) -> float | None:
    """Return the seconds that a `Retry-After` header asks for: a number, or an HTTP date (RFC 9110, 10.2.3)."""
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(header).timestamp() - now
        except (ValueError, OverflowError, OSError):
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


# Errors are read in Python and on the command line, which name their parameters and options differently. So they name
# the things, and the environment's variables, which are the same for both.
def _base_url(endpoint: Endpoint) -> str:
    return f"the base URL (given, or in {endpoint.provider.base_url_variable})"


def _key(endpoint: Endpoint) -> str:
    return f"the API key (given, or in {endpoint.provider.key_variable})"


def _advice(advised: float | None) -> str:
    if advised is None:
        return "try again later"
    when = f"try again in {advised:g} s"
    if advised <= LONGEST_ADVISED:
        return when
    return f"the server asks for {advised:g} s, more than this client waits ({LONGEST_ADVISED:g} s): {when}"


def _first(value: _Parsed, *names: str) -> _Parsed:
    """Return the first of these members that says something, else the value; of a list's items the first.

    Gemini's errors are a list of one; of several faults, the first stands for all.
    """
    one: _Parsed = (value[0] if value else "") if isinstance(value, list) else value
    members = one if isinstance(one, dict) else {}
    return next((members[name] for name in names if members.get(name)), one)


def _tokens(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return int(found[found.lastindex or 0]) if found else None
