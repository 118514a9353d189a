"""Classify failed calls: error responses of a server and exceptions of the HTTP client become typed errors."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, TypeAlias

from graphexec import errors
from graphexec.models.http import meanings
from graphexec.models.http.endpoint import Endpoint
from graphexec.models.http.json_values import to_number, to_objects, to_word
from graphexec.models.http.receiving import find_excess

# Seconds. If a server asks for a longer wait, the error is raised at once, and the caller decides.
LONGEST_ADVISED = 60.0

# Seconds. A running server accepts a connection quickly, even if its reply takes long.
CONNECT = 10.0

# A refusal of images. llama.cpp sends it with status 500, OpenRouter with 404; another attempt is refused, too. A
# name of a model may contain such words, and so may a refusal of the key.
_IMAGES = re.compile(
    r"image(?: input|_url)|(?<![\w/-])multi-?modal(?![\w-])|mmproj|support (?:images|vision)", re.IGNORECASE
)
_NOT_ABOUT_IMAGES = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS}


@dataclass(frozen=True, slots=True)
class CallFailure:
    """The failure of an attempt. `transient`: another attempt may succeed, after `advised` seconds if the server says.

    `report` is that of a server that refuses the request.
    """

    error: errors.ModelError
    transient: bool = False
    advised: float | None = None
    report: ErrorReport | None = None


def to_failure(error: errors.ModelError, advised: float | None) -> CallFailure:
    """Return the failure with an error that a server reports, by its class; `advised` is the wait that it asks for."""
    passes = isinstance(error, errors.ServerError | errors.RateLimitError | errors.InvalidCallError)
    passes = passes and not isinstance(error, errors.QuotaError) and (advised is None or advised <= LONGEST_ADVISED)
    return CallFailure(error, transient=passes, advised=advised)


# The members in which servers write the sentence of an error.
_TITLE = "title"
_MESSAGES = ("message", "msg", "error", "status_msg", "error_msg", "errorMessage", "errors", "detail", "reason", _TITLE)
# Those that a reply has for errors alone.
ERROR_MEMBERS = frozenset({"error", "errors", "base_resp"})
_CODES = ("code", "error_code", "status_code", "http_code", "status")
# What a member for errors has if there is none.
_NOTHING = frozenset({"", "0", "200", "ok", "success", "none", "null", "false"})

# The most characters of a message in which a meaning is looked for, by many patterns.
_LONGEST = 20_000

# Any: a parsed body's values are arbitrary JSON.
_Parsed: TypeAlias = dict[str, Any] | list[Any] | str | float | None


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """The error that a server reports in a body. `code` and `kind` are the server's codes for it, if any."""

    message: str
    code: str = ""
    kind: str = ""
    # Any: an error's other members are arbitrary JSON.
    members: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", self.message[:_LONGEST])

    @classmethod
    def from_json(cls, body: _Parsed) -> ErrorReport:
        """Read parsed JSON of any shape: OpenAI's, Ollama's `{"error": "text"}`, FastAPI's `{"detail": ...}`."""
        outer = _first(body)
        inner = _first(_first(outer, "error", "errors", "detail", "base_resp", "message"))
        within = inner if isinstance(inner, dict) else outer if isinstance(outer, dict) else {}
        message = _first(inner, *_MESSAGES)
        place = within.get("loc")
        if isinstance(place, list) and isinstance(message, str):
            # FastAPI's message does not name the member that it is about.
            message = f"{'.'.join(map(str, place))}: {message}"  # pyright: ignore[reportUnknownArgumentType]
        match within:
            case {"metadata": {"raw": raw}} if raw:
                # OpenRouter's message does not say what the provider reports.
                before, inner = f"{message}: ", raw  # pyright: ignore[reportUnknownVariableType]
            case {"message": str(text)} if text.startswith("{"):
                before, inner = "", text
            case _:
                before, inner = "", None
        if inner:
            own = cls.from_bytes(inner.encode(errors="replace")) if isinstance(inner, str) else cls.from_json(inner)  # pyright: ignore[reportUnknownArgumentType]
            if own.message != inner or before:
                code = own.code or _word(within.get("code"))
                return replace(own, message=f"{before}{own.message}", code=code)
        # Cerebras and others write the code beside the error, or without one.
        several = (within, outer if isinstance(outer, dict) else {})
        code, kind = (
            next((word for one in several for name in names if (word := _word(one.get(name)))), "")
            for names in (_CODES, ("type", "status"))
        )
        return cls(message if isinstance(message, str) else json.dumps(message, default=repr), code, kind, within)

    @classmethod
    def in_reply(cls, body: Mapping[str, Any], *, answered: bool) -> ErrorReport | None:
        """Return the error in a body with status 200, if it has one.

        An error without a code or a text is none, as servers that always have the member send it. Beside an answer
        only the members for errors count; without one, any sentence or number does, but for a title without a code: in
        a stream, that may be the title of the conversation.
        """
        for name in ERROR_MEMBERS:
            if _has_text(body.get(name)) if answered else not _is_blank(body.get(name)):
                return cls.from_json({name: body[name], **{key: body[key] for key in _CODES if key in body}})
        # Ollama's own protocol has the answer as a message.
        is_answer = isinstance(body.get("message"), dict)
        has_code = any(name in body for name in (*_CODES, "type"))
        names = [name for name in _MESSAGES if has_code or name != _TITLE]
        if answered or is_answer or all(_is_blank(body.get(name)) for name in names):
            return None
        return cls.from_json(dict(body))

    @property
    def codes(self) -> list[str]:
        """All codes, with the name of Google's status."""
        return [code for code in (self.code, self.kind, _word(self.members.get("status"))) if code]

    @classmethod
    def from_bytes(cls, body: bytes) -> ErrorReport:
        """Read a raw body: as JSON if possible, otherwise as text, and so JSON of too many values."""
        text = body.decode("utf-8", "replace")
        if find_excess(text) is not None:
            return cls(text)
        try:
            return cls.from_json(json.loads(text))
        except (ValueError, RecursionError):
            return cls(text)


def classify_response(
    endpoint: Endpoint, status: int, headers: Mapping[str, str], body: bytes, *, now: float
) -> CallFailure:
    """Return the failure for a status other than 200. `now` is the wall-clock time, for a `Retry-After` date."""
    report = ErrorReport.from_bytes(body)
    advised = parse_wait(headers, report, now=now)
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        there = endpoint.quote(headers.get("location", "")) or "elsewhere"
        fact = f"redirects to {there}; use that address as the base URL"
        return CallFailure(errors.BadRequestError(f"{endpoint} {fact}", status=status))
    failure = _classify(endpoint, status, report, advised)
    # The rule of the official clients: the server knows best.
    match headers.get("x-should-retry"):
        case "true":
            return replace(failure, transient=advised is None or advised <= LONGEST_ADVISED)
        case "false":
            return replace(failure, transient=False)
        case _:
            return failure


def error_in_body(endpoint: Endpoint, report: ErrorReport) -> errors.ModelError:
    """Return the error that a server reports in a body or an event of a stream with status 200."""
    return _classify(endpoint, HTTPStatus.OK, report, parse_wait({}, report, now=0.0)).error


def _classify(endpoint: Endpoint, status: int, report: ErrorReport, advised: float | None) -> CallFailure:
    """Return the failure by the meaning of its report, and where that has none, by its status."""

    # Any: the further arguments of the classes.
    def failure(kind: type[errors.ModelError], fact: str, **details: Any) -> CallFailure:
        return to_failure(kind(f"{endpoint} {fact}", status=status, **details), advised)

    text = endpoint.quote(report.message)
    reason = text if status == HTTPStatus.OK else f"{status}: {text or 'without a message'}"
    meant = meanings.find_status(status, report.codes, report.message, waits=advised is not None)
    if meant != HTTPStatus.TOO_MANY_REQUESTS:
        overflowed = overflow_error(endpoint, report, status=status)
        if overflowed is not None:
            return CallFailure(overflowed)
    may_refuse_images = status >= HTTPStatus.BAD_REQUEST and status not in _NOT_ABOUT_IMAGES
    if may_refuse_images and report.code != "model_not_found" and _IMAGES.search(report.message):
        fact = f"refuses the images in the request ({reason}); use a model that accepts such images, or leave them out"
        return failure(errors.BadRequestError, fact)
    # OpenRouter refuses a text as if the key were wrong.
    words = meanings.FILTERED if meant == HTTPStatus.FORBIDDEN else meanings.FILTERED_SENTENCE
    flagged = any([words.search(report.message), *map(meanings.FILTERED.search, report.codes)])
    if flagged and meant < HTTPStatus.INTERNAL_SERVER_ERROR:
        return CallFailure(refusal_error(endpoint, reason, status=status))
    if any(map(meanings.BROKEN_CALL.search, (report.code, report.message))):
        return to_failure(invalid_call_error(endpoint, reason, status=status), advised)
    if meant == HTTPStatus.PAYMENT_REQUIRED:
        # Waiting does not restore a quota.
        fact = f"has no quota left for you ({reason}); look at your account's plan and billing there"
        return failure(errors.QuotaError, fact, retry_after=advised)
    if meant == HTTPStatus.TOO_MANY_REQUESTS:
        fact = f"has had too many requests ({reason}); {_advice(advised)}, or ask less often"
        return failure(errors.RateLimitError, fact, retry_after=advised)
    if meant >= HTTPStatus.INTERNAL_SERVER_ERROR or meant in meanings.PASSING:
        fact = f"failed ({reason}); {_advice(advised)}, or look at the server's log"
        return failure(errors.OverloadedError if meant == meanings.OVERLOADED else errors.ServerError, fact)
    if meant in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        fact = f"refuses the API key ({reason}); check that {_key(endpoint)} is one of this server's"
        return failure(errors.AuthenticationError, fact)
    if meant == HTTPStatus.NOT_FOUND:
        fact = f"was not found ({reason}); check the model's name, and {_base_url(endpoint)}, {endpoint.provider.hint}"
        return failure(errors.ModelNotFoundError, fact)
    if meant >= HTTPStatus.BAD_REQUEST:
        fact = f"refuses the request ({reason}); change what it names"
        return replace(failure(errors.BadRequestError, fact), report=report)
    if status == HTTPStatus.OK:
        return failure(errors.InvalidReplyError, f"reports an error in its reply: {reason}; try again")
    fact = f"answered neither 200 nor an error ({reason}); check {_base_url(endpoint)}"
    return failure(errors.InvalidReplyError, fact)


def refusal_error(endpoint: Endpoint, reason: str, *, status: int = 200) -> errors.RefusalError:
    """Return the error for an answer that the model refuses, or that a filter does not let pass."""
    fact = f"refuses to answer ({reason}); change the question, or ask another model"
    return errors.RefusalError(f"{endpoint} {fact}", status=status)


def invalid_call_error(endpoint: Endpoint, reason: str, *, status: int = 200) -> errors.InvalidCallError:
    """Return the error for a call that the model wrote and its provider could not read."""
    fact = f"could not read the model's tool call ({reason}); try again"
    return errors.InvalidCallError(f"{endpoint} {fact}", status=status)


def classify_exception(
    endpoint: Endpoint, error: Exception, *, seconds: float, answered: bool = False
) -> CallFailure | None:
    """Return the failure for an exception of the HTTP client, or `None` for other exceptions.

    Classes are compared by name, because httpx and httpx2 are different packages with the same class names. `seconds`
    is the time that the call had; `answered`: the response has begun.
    """
    names = {base.__name__ for base in type(error).__mro__ if base.__module__.partition(".")[0] in {"httpx", "httpx2"}}
    fact = endpoint.quote(str(error)) or type(error).__name__
    # A call with more time may connect in another attempt.
    late = {"ReadTimeout", "WriteTimeout", "PoolTimeout"} | ({"ConnectTimeout"} if seconds <= CONNECT else set[str]())
    if names & late or isinstance(error, TimeoutError):
        return CallFailure(timeout_error(endpoint, seconds, answered=answered))
    url = endpoint.base_url
    if names & {"UnsupportedProtocol", "InvalidURL", "LocalProtocolError"}:
        return CallFailure(invalid_address_error(endpoint, fact))
    if names & {"DecodingError", "TooManyRedirects"}:
        unreadable = f"sent a response that cannot be read ({fact}); check {_base_url(endpoint)}, or try again"
        return CallFailure(errors.InvalidReplyError(f"{endpoint} {unreadable}"))
    if names & {"ConnectError", "ConnectTimeout", "ProxyError"}:
        absent = f"({fact}); is the server running at {url}? Start it, or change {_base_url(endpoint)}"
        return CallFailure(errors.ModelConnectionError(f"no connection to {endpoint} {absent}"), transient=True)
    if names & {"TransportError", "StreamError"} or isinstance(error, OSError):
        broken = f"broke ({fact}); try again, and check that the server is still running at {url}"
        lost = errors.ModelConnectionError(f"the connection to {endpoint} {broken}")
        return CallFailure(lost, transient=True)
    return None


def timeout_error(endpoint: Endpoint, seconds: float, *, answered: bool = False) -> errors.ModelTimeoutError:
    """Return the error for a server that took longer than `seconds`; `answered`: its response had begun."""
    phase = "finish its reply" if answered else "answer"
    fact = f"did not {phase} within {max(seconds, 0):.3g} s; allow a longer timeout, or ask for a shorter reply"
    return errors.ModelTimeoutError(f"{endpoint} {fact}")


def invalid_address_error(endpoint: Endpoint, fact: str) -> errors.ModelConnectionError:
    """Return the error for an invalid base URL."""
    remedy = f"{_base_url(endpoint)} must be an address such as {endpoint.provider.example}"
    return errors.ModelConnectionError(f"{endpoint} cannot be called ({fact}); {remedy}")


def missing_key_error(endpoint: Endpoint) -> errors.MissingAPIKeyError:
    """Return the error for a request without an API key."""
    remedy = f"set {endpoint.provider.key_variable} to it, or to any word if the server needs none"
    return errors.MissingAPIKeyError(f"{endpoint} needs an API key; {remedy}")


def invalid_key_error(endpoint: Endpoint) -> errors.AuthenticationError:
    """Return the error for an API key that is not valid in an HTTP header."""
    fact = "cannot be sent the API key, which contains blanks or characters beyond ASCII"
    return errors.AuthenticationError(f"{endpoint} {fact}; copy {_key(endpoint)} again")


def overflow_error(endpoint: Endpoint, report: ErrorReport, *, status: int) -> errors.ContextOverflowError | None:
    """Return the error for a prompt that is too long, or `None` if the report is about something else."""
    # llama.cpp sends both numbers, others a code or a sentence.
    has_numbers = "n_ctx" in report.members and "n_prompt_tokens" in report.members
    text = f"{report.code} {report.kind} {report.message}"
    if not (has_numbers or status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE or meanings.is_overflow(text)):
        return None
    prompt = to_number(report.members.get("n_prompt_tokens")) or meanings.find_tokens(meanings.PROMPT, report.message)
    context = to_number(report.members.get("n_ctx")) or meanings.find_tokens(meanings.CONTEXT, report.message)
    sizes = f"the prompt has {prompt or 'too many'} tokens, the context {context or 'fewer'}"
    said = endpoint.quote(report.message) or "without a message"
    fact = f"cannot accept a prompt of this length ({said}): {sizes}; shorten it, or use a model with a longer context"
    text = f"{endpoint} {fact}"
    return errors.ContextOverflowError(text, status=status, prompt_tokens=prompt, context_tokens=context)


def parse_wait(headers: Mapping[str, str], report: ErrorReport, *, now: float) -> float | None:
    """Return the seconds that a server asks for: in headers, in details of Google's form, or in its sentence."""
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        if (advised := parse_retry_after(headers.get(name), now=now)) is not None:
            return advised / unit
    for detail in to_objects(report.members.get("details")):
        delay = to_word(detail.get("retryDelay")).removesuffix("s")
        if (advised := parse_retry_after(delay or None, now=now)) is not None:
            return advised
    return meanings.find_wait(report.message)


def parse_retry_after(header: str | None, *, now: float) -> float | None:
    """Return the seconds that a `Retry-After` header asks for: a number, or an HTTP date (RFC 9110, 10.2.3).

    It is `None` for another text, and for a negative number; a date in the past is 0.
    """
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            return max(parsedate_to_datetime(header).timestamp() - now, 0.0)
        except (ValueError, OverflowError, OSError):
            return None
    return seconds if seconds >= 0 and math.isfinite(seconds) else None


# Parameters in Python and options of the command line have different names, so errors name neither, but the environment
# variables, which are the same for both.
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
    """Return the first of these members that is not empty, otherwise the value. Of a list, only the first item counts.

    Gemini sends errors as a list with one item.
    """
    one: _Parsed = (value[0] if value else "") if isinstance(value, list) else value
    members = one if isinstance(one, dict) else {}
    return next((members[name] for name in names if members.get(name)), one)


def _is_blank(value: object) -> bool:
    """Return whether a member for errors says nothing, or that all is well."""
    if isinstance(value, dict | list):
        return all(map(_is_blank, value.values() if isinstance(value, dict) else value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
    return value is None or (_word(value) or str(value)).strip().lower() in _NOTHING


def _has_text(value: object) -> bool:
    """Return whether a member for errors has a text or a code; a number alone, or `true`, is none."""
    if isinstance(value, dict):
        members: dict[str, object] = value  # pyright: ignore[reportUnknownVariableType]
        return any(map(_has_text, members.values())) or not all(_is_blank(members.get(name)) for name in _CODES)
    return any(map(_has_text, value)) if isinstance(value, list) else isinstance(value, str) and not _is_blank(value)  # pyright: ignore[reportUnknownArgumentType]


def _word(value: object) -> str:
    """Return a code as a string; servers send strings and numbers, also as `429.0`."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    number = to_number(value)
    return str(value) if number is None else str(number)
