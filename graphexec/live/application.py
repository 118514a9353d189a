"""The application of a live page: the page of a run and its events, for those who have the token of the server."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Sequence
from functools import lru_cache
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlencode

from graphexec.draw.page import html
from graphexec.draw.runs.records import Recording
from graphexec.errors import InputError
from graphexec.live.feeds import Feed

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Records per message, so that a long run does not delay other readers.
_AT_ONCE = 500
# The maximum length of a record's number: Python refuses to parse thousands of digits.
_DIGITS = 12

# A request for another host name may come from DNS rebinding.
_HOSTS = ("127.0.0.1", "localhost", "[::1]")
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
PRIVATE = {"Cache-Control": "no-store"}

# The parameter of the address that holds the token, and the answer to a request without it.
_PARAMETER = "token"
_REFUSAL = (
    "403: this page needs its token.\n"
    "Open the address that the server printed when it began; it ends with ?token=... A new server has a new token.\n"
)


def missing_extra(error: ImportError) -> InputError:
    """Return the error for a package of the extra `live` that is not installed."""
    return InputError(f"the live page needs {error.name}, which is missing; pip install 'graphexec-agents[live]'")


def require_extra() -> None:
    """Raise `InputError` if a package that the applications need is not installed."""
    try:
        for name in ("sse_starlette", "starlette.applications"):
            import_module(name)
    except ImportError as error:
        raise missing_extra(error) from error


def make_application(feed: Feed, token: str) -> Starlette:
    """Return the application that serves a run to those who have the token. Raises `InputError` without starlette."""
    require_extra()
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import HTMLResponse, PlainTextResponse
    from starlette.routing import Route

    async def page(_: Request) -> Response:
        feed.refresh()
        if not feed.lines and feed.error:
            return PlainTextResponse(f"{feed.error}\n", 500)
        if not feed.lines:
            return PlainTextResponse("The run has not begun.\n", headers={"Refresh": "1", **PRIVATE})
        try:
            # The layout takes a while, during which other readers still receive events.
            text = await run_in_threadpool(page_of, feed.lines[0], f"events?run={feed.run}")
        except InputError as error:
            return PlainTextResponse(f"{error}\n", 500)
        return HTMLResponse(text, headers=PRIVATE)

    async def events(request: Request) -> Response:
        return send_events(feed, request)

    return make_guarded([Route("/", page), Route("/events", events)], token)


def make_guarded(routes: Sequence[Route], token: str) -> Starlette:
    """Return an application of these routes for those who have the token, with security headers."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.responses import PlainTextResponse

    def with_token(app: ASGIApp) -> ASGIApp:
        # A middleware shows its arguments in its repr.
        return guarded(app, token)

    known = Middleware(TrustedHostMiddleware, allowed_hosts=_HOSTS, www_redirect=False)
    middleware = [Middleware(_with_headers), known, Middleware(with_token)]

    async def not_found(_: Request, error: Exception) -> Response:
        return PlainTextResponse(f"{error}\n", 404)

    return Starlette(routes=routes, middleware=middleware, exception_handlers={InputError: not_found})


@lru_cache(maxsize=4)
def page_of(start: str, events: str, nav: str = "") -> str:
    """Return the page of a run without its records, which it requests itself from the address of the `events`."""
    recording = Recording((json.loads(start),))
    return html(recording.machine, recording, live=events, nav=f'<nav id="runs">{nav}</nav>' if nav else "")


def send_events(feed: Feed, request: Request) -> Response:
    """Answer a request for the events of a feed."""
    from sse_starlette import EventSourceResponse

    last = request.headers.get("last-event-id", "")
    return EventSourceResponse(_events(feed, request.query_params.get("run"), last))


async def _events(feed: Feed, run: str | None, last: str) -> AsyncIterator[bytes]:
    """Yield the records after the one with the id `last`; the id of each is its index in the run.

    `end` follows the result, `gone` the last record of a server that closes. A reader of an earlier run, which the
    source no longer has, receives `again`.
    """
    from sse_starlette import ServerSentEvent
    from starlette.concurrency import run_in_threadpool

    position = int(last) + 1 if last.isdecimal() and len(last) <= _DIGITS else 0
    while True:
        if feed.blocks:
            await run_in_threadpool(feed.refresh)
        else:
            feed.refresh()
        run = run or feed.run
        lines = feed.lines[position : position + _AT_ONCE]
        if run != feed.run:
            yield ServerSentEvent(data="", event="again").encode()
            return
        if lines:
            yield b"".join(ServerSentEvent(data=line, id=str(one)).encode() for one, line in enumerate(lines, position))
            position += len(lines)
        elif feed.over:
            yield ServerSentEvent(data=feed.error, event="end").encode()
            return
        elif feed.closed:
            yield ServerSentEvent(data="", event="gone").encode()
            return
        else:
            await asyncio.sleep(feed.pause)


def _with_headers(app: ASGIApp) -> ASGIApp:
    """Return the application with security headers on every response, errors included."""

    async def with_headers(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        await app(scope, receive, send_with_headers)

    return with_headers


def page_leading_to(address: str) -> str:
    """Return a page that leads to an address by itself."""
    refresh = f'<meta http-equiv="refresh" content="0;url={escape(address)}">'
    return f'<!doctype html><meta charset="utf-8">{refresh}<title>graphexec</title>\n'


def guarded(app: ASGIApp, token: str) -> ASGIApp:
    """Return the application for those who have the token; others get the status 403.

    The token is in the address, in the header `Authorization`, or in a cookie; the first of the three that a request
    has decides. A right address sets the cookie and leads to the same address without the token. The cookie holds a
    hash that is good for this token and this port alone.
    """
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse

    def is_token(given: str) -> bool:
        return hmac.compare_digest(given.encode(), token.encode())

    def admits(request: Request, given: list[str], cookie: str) -> bool:
        if given:
            return all(map(is_token, given))
        scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() in ("token", "bearer"):
            return is_token(credentials.strip())
        return hmac.compare_digest(request.cookies.get(_cookie_name(request), "").encode(), cookie.encode())

    async def guarded_app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        request = Request(scope)
        parameters = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in parameters if name == _PARAMETER]
        cookie = hmac.new(token.encode(), _cookie_name(request).encode(), hashlib.sha256).hexdigest()
        if not admits(request, given, cookie):
            await PlainTextResponse(_REFUSAL, 403, headers=PRIVATE)(scope, receive, send)
            return
        if not given or request.method not in ("GET", "HEAD"):
            await app(scope, receive, send)
            return
        other = [(name, value) for name, value in parameters if name != _PARAMETER]
        # One slash: `//name` would be another host.
        address = quote("/" + scope["path"].lstrip("/")) + (f"?{urlencode(other)}" if other else "")
        if request.headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
            answer: HTMLResponse | RedirectResponse = RedirectResponse(address, 303, headers=PRIVATE)
        else:
            # A page that another site or a file opens receives no strict cookie after a redirect. From this page, the
            # next request is one of the page's own site.
            answer = HTMLResponse(page_leading_to(address), headers=PRIVATE)
        answer.set_cookie(_cookie_name(request), cookie, httponly=True, samesite="strict")
        await answer(scope, receive, send)

    return guarded_app


def _cookie_name(request: Request) -> str:
    """Return the name of this server's cookie: browsers send a host's cookies to all of its ports."""
    return f"graphexec-live-{request.scope['server'][1]}"
