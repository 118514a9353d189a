"""Requests to fork a run: only from the page itself or from a program with the token, small, and of the right form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final
from urllib.parse import urlsplit

from graphexec.errors import format_value
from graphexec.kernel.serialization import parse_json

if TYPE_CHECKING:
    from starlette.requests import Request

# Bytes: longer than any observation that a person writes.
_MOST = 1 << 20


class ForkRequestError(Exception):
    """The reason why a run is not forked, and the HTTP `status` for it."""

    def __init__(self, text: str, status: int = 400) -> None:
        self.status = status
        super().__init__(text)


@final
@dataclass(frozen=True, slots=True)
class ForkRequest:
    """A request to fork the run with the id `run`, if it says which; `changes` are arguments of `fork`."""

    step: int
    call: int | None
    changes: Mapping[str, Any]
    run: str | None = None


async def read_fork_request(request: Request) -> ForkRequest:
    """Return what a request asks for. Raises `ForkRequestError`, also for a request that another site may have sent."""
    _require_own_site(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    # A form of another site cannot send this type.
    if kind != "application/json":
        raise ForkRequestError(f"the content type is {format_value(kind)}; send application/json", 415)
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _MOST:
            raise ForkRequestError(
                f"the request has more than {_MOST:,} bytes; shorten the reply or the observation", 413
            )
    try:
        data = parse_json(body)
    except ValueError as error:
        raise ForkRequestError(f"the request is not JSON: {error}; send an object with a step") from None
    return _read(data, request.query_params.get("run"))


def _require_own_site(request: Request) -> None:
    """Raise `ForkRequestError` unless the page itself has sent the request.

    Cookies are sent to every port of this computer, so a page of another server on it would have the cookie, too. A
    program that sends the token in the header `Authorization` needs no origin: no other site can do that.
    """
    origin = request.headers.get("origin")
    site = request.headers.get("sec-fetch-site", "same-origin")
    named = "authorization" in request.headers if origin is None else _is_own(origin, request.headers.get("host", ""))
    if site != "same-origin" or not named:
        raise ForkRequestError(
            "the request does not come from this page; a program sends the header Authorization", 403
        )


def _is_own(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host.lower() != ""
    except ValueError:
        return False


# Any: JSON.
def _read(data: Any, run: str | None) -> ForkRequest:
    match data:
        case {**members}:
            pass
        case _:
            raise ForkRequestError(f"the request is {format_value(data)}; send an object with a step")
    unknown = [name for name in members if name not in ("step", "call", "reply", "observation")]
    if unknown:
        raise ForkRequestError(f"the request has {unknown[0]!r}; send step, call, and reply or observation")
    step, call = members.get("step"), members.get("call")
    if type(step) is not int:
        raise ForkRequestError(f"the step is {format_value(step)}; send a whole number, from 1")
    if call is not None and type(call) is not int:
        raise ForkRequestError(f"the call is {format_value(call)}; send its index in the step, from 0")
    changes: Mapping[str, Any] = {name: members[name] for name in ("reply", "observation") if name in members}
    if len(changes) > 1:
        raise ForkRequestError("the request has both a reply and an observation; send the one that the call has")
    return ForkRequest(step, call, changes, run)
