"""The token of a live page: who has none reads nothing, by any path and method."""

import logging
import re
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection
from itertools import product
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from graphexec import InputError, live
from graphexec.live.application import make_application
from graphexec.live.feeds import feed_of
from tests.cli.traced import recorder_of
from tests.live.readers import PATIENCE, TOKEN, credentials
from tests.parameters import cases

WRONG = TOKEN[:-1] + "X"
PATHS = ("/", "/events", "/events?run=1", "/nowhere", "//events", "/%2e%2e/events")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")


def make_page() -> Starlette:
    return make_application(feed_of(recorder_of()), TOKEN)


def open_client(port: int = 80) -> TestClient:
    return TestClient(make_page(), base_url=f"http://127.0.0.1:{port}", follow_redirects=False)


def other_cookies() -> list[dict[str, str]]:
    """Return headers with cookies of another port, another token, another name, and no hash."""
    with open_client(80) as one, open_client(81) as other:
        for client in (one, other):
            client.get("/", params={"token": TOKEN})
        [(name, value)], [(elsewhere, of_port)] = one.cookies.items(), other.cookies.items()
    cookies = [(elsewhere, of_port), (name, of_port), (elsewhere, value), (name, ""), (name, TOKEN), (name, value[:-1])]
    return [{"Cookie": f"{key}={one}"} for key, one in cookies]


REFUSED_HEADERS = [
    {},
    *({"Authorization": one} for one in ("", "Bearer", "Bearer ", f"Bearer {WRONG}", f"token {TOKEN[:-1]}", TOKEN)),
    {"Authorization": f"Basic {TOKEN}"},
    {"Authorization": "Bearer \xe9\xff"},
    {"X-Token": TOKEN},
    {"Referer": f"http://127.0.0.1/?token={TOKEN}"},
    *other_cookies(),
]
REFUSED_TOKENS = ["", WRONG, TOKEN[:-1], f"{TOKEN} ", TOKEN.upper(), "\N{SNOWMAN}", "x" * 10_000]
REFUSAL = (
    "403: this page needs its token.\n"
    "Open the address that the server printed when it began; it ends with ?token=... A new server has a new token.\n"
)


def refused_requests(path: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the address and the headers of each request for a path that is refused."""
    yield from ((path, headers) for headers in REFUSED_HEADERS)
    for token in REFUSED_TOKENS:
        address = f"{path}{'&' if '?' in path else '?'}{httpx.QueryParams({'token': token})}"
        yield address, {}
        yield f"{address}&token={TOKEN}", {"Authorization": f"Bearer {TOKEN}"}


@pytest.mark.medium
@cases("path, method", *product(PATHS, METHODS))
def test_no_route_answers_without_the_token(path: str, method: str) -> None:
    with open_client() as client:
        for address, headers in refused_requests(path):
            encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
            answer = client.request(method, address, headers=encoded)
            assert (answer.status_code, answer.text) == (403, "" if method == "HEAD" else REFUSAL)
            assert "set-cookie" not in answer.headers
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert TOKEN not in str(answer.headers)


@pytest.mark.medium
@cases("scheme", "Bearer", "token", "bearer", "Token")
def test_header_opens_every_route(scheme: str) -> None:
    with open_client() as client:
        client.headers["Authorization"] = f"{scheme} {TOKEN}"
        assert "plan --Replied--&gt; parse" in client.get("/").text
        assert client.get("/events").text.count("id: ") == len(recorder_of().records)
        assert client.get("/nowhere").status_code == 404
        assert client.post("/").status_code == 405


@cases("path", "/", "/events", "/nowhere?a=1&b=%26")
def test_first_visit_sets_a_cookie_and_drops_the_token(path: str) -> None:
    with open_client() as client:
        answer = client.get(f"{path}{'&' if '?' in path else '?'}token={TOKEN}")
        assert (answer.status_code, answer.headers["location"], answer.text) == (303, path, "")
        cookie = answer.headers["set-cookie"]
        assert re.fullmatch(r"graphexec-live-80=[0-9a-f]{64}; HttpOnly; Path=/; SameSite=strict", cookie)
        assert TOKEN not in str(answer.headers)
        assert client.get(path).status_code == (404 if "nowhere" in path else 200)


def test_visits_with_a_token_from_and_to_other_sites() -> None:
    with open_client() as client:
        answer = client.get(f"/?run=%22%3E&x=1&token={TOKEN}", headers={"Sec-Fetch-Site": "cross-site"})
        assert answer.status_code == 200
        assert 'content="0;url=/?run=%22%3E&amp;x=1"' in answer.text
        assert TOKEN not in answer.text + str(answer.headers)
        assert "graphexec-live-80=" in answer.headers["set-cookie"]
        assert client.get("/", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200
    # The token leads to no other host.
    with open_client() as client:
        answer = client.get(f"http://127.0.0.1//evil.example/%22?token={TOKEN}")
        assert answer.headers["location"] == "/evil.example/%22"
        client.cookies.clear()
        answer = client.post("/", params={"token": TOKEN})
        assert (answer.status_code, "set-cookie" in answer.headers) == (405, False)


@pytest.mark.medium
def test_token_is_in_no_log_nor_repr(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    caplog.set_level(logging.DEBUG)
    app = make_page()
    assert TOKEN not in f"{app!r} {app.user_middleware!r} {vars(app)!r}"
    with live.serving(recorder_of()) as url:
        token = url.partition("?token=")[2]
        address, headers = credentials(url)
        # Unlike httpx, this client logs no addresses of its own.
        connection = HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE)
        connection.request("GET", f"/?token={token}")
        assert connection.getresponse().status == 303
        connection.close()
        assert token not in caplog.text
        for path in ("", "events", "nowhere"):
            with httpx.Client(trust_env=False, timeout=PATIENCE) as client:
                answer = client.get(f"{address}{path}", headers=headers)
                assert token not in answer.text + str(answer.headers)
                assert token not in caplog.text
        port = urlsplit(url).port
        assert port is not None
        with pytest.raises(InputError) as refused:
            live.serving(recorder_of(), port=port).__enter__()
        assert token not in str(refused.value)
    assert token not in "".join(capfd.readouterr())


def test_each_server_has_a_token_of_its_own() -> None:
    with live.serving(recorder_of()) as one, live.serving(recorder_of()) as other:
        (here, mine), (there, theirs) = credentials(one), credentials(other)
        assert mine != theirs
        # 256 random bits.
        assert len(mine["Authorization"].removeprefix("Bearer ")) == 43
        with httpx.Client(trust_env=False, timeout=PATIENCE, follow_redirects=True) as client:
            # The browser sends the cookies of a host to all of its ports.
            for url, status in ((one, 200), (there, 403), (here, 200), (other, 200), (here, 200)):
                assert client.get(url).status_code == status
                assert url != there or client.get(there, headers=mine).status_code == 403


def test_tokens_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return one == other

    monkeypatch.setattr("graphexec.live.application.hmac.compare_digest", compare)
    with open_client() as client:
        for headers in ({}, {"Authorization": f"Bearer {WRONG}"}, {"Cookie": "graphexec-live-80=0"}):
            assert client.get("/", headers=headers).status_code == 403
        assert client.get("/", params={"token": WRONG}).status_code == 403
    assert len(compared) == 4
    assert {type(one) for pair in compared for one in pair} == {bytes}
