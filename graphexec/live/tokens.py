"""The token of a live page: who has it may read the run."""

from __future__ import annotations

import hashlib
import hmac
from html import escape
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlencode

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

# Random bytes of a server's own token.
TOKEN_BYTES = 32
_PARAMETER = "token"
_REFUSAL = (
    "403: this page needs its token.\n"
    "Open the address that the server printed when it began; it ends with ?token=... A new server has a new token.\n"
)
_PRIVATE = {"Cache-Control": "no-store"}


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
            await PlainTextResponse(_REFUSAL, 403, headers=_PRIVATE)(scope, receive, send)
            return
        if not given or request.method not in ("GET", "HEAD"):
            await app(scope, receive, send)
            return
        other = [(name, value) for name, value in parameters if name != _PARAMETER]
        # One slash: `//name` would be another host.
        address = quote("/" + scope["path"].lstrip("/")) + (f"?{urlencode(other)}" if other else "")
        if request.headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
            answer: HTMLResponse | RedirectResponse = RedirectResponse(address, 303, headers=_PRIVATE)
        else:
            # A page that another site or a file opens receives no strict cookie after a redirect. From this page, the
            # next request is one of the page's own site.
            answer = HTMLResponse(page_leading_to(address), headers=_PRIVATE)
        answer.set_cookie(_cookie_name(request), cookie, httponly=True, samesite="strict")
        await answer(scope, receive, send)

    return guarded_app


def _cookie_name(request: Request) -> str:
    """Return the name of this server's cookie: browsers send a host's cookies to all of its ports."""
    return f"graphexec-live-{request.scope['server'][1]}"
