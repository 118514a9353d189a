"""Readers of an event stream, and recorded runs for them."""

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import httpx
from httpx_sse import ServerSentEvent, connect_sse
from starlette.testclient import TestClient

from graphexec.live.application import make_application
from graphexec.live.feeds import Source, feed_of

# Seconds. Far longer than any operation here; a test that reaches it fails.
PATIENCE = 30.0

# The token of the applications under test.
TOKEN = "0123456789-abcdef_~."


def client_of(source: Source, **headers: str) -> TestClient:
    """Return a client of a page that has its token, as a program has it."""
    return TestClient(
        make_application(feed_of(source), TOKEN),
        base_url="http://127.0.0.1",
        headers=headers or {"Authorization": f"Bearer {TOKEN}"},
    )


@dataclass
class Reader:
    """A connection to the stream."""

    events: Iterator[ServerSentEvent]

    def take(self, count: int) -> list[tuple[str, Any]]:
        taken = [*islice(self.events, count)]
        assert {event.event for event in taken} == {"message"}, taken
        return [(event.id, json.loads(event.data)) for event in taken]

    def rest(self) -> tuple[list[tuple[str, Any]], ServerSentEvent]:
        """Return the records until the stream ends, and the event that ends it."""
        taken: list[tuple[str, Any]] = []
        for event in self.events:
            if event.event != "message":
                assert list(self.events) == []
                return taken, event
            taken.append((event.id, json.loads(event.data)))
        raise AssertionError(f"the stream broke off after {len(taken)} records")


def credentials(url: str) -> tuple[str, dict[str, str]]:
    """Return the address of a live page without its token, and the header that carries it."""
    address, _, token = url.partition("?token=")
    return address, {"Authorization": f"Bearer {token}"}


def fetch(url: str) -> httpx.Response:
    return httpx.get(url, trust_env=False, timeout=PATIENCE, follow_redirects=True)


@contextmanager
def reading(url: str, last: str | None = None, run: str | None = None, path: str = "events") -> Generator[Reader]:
    url, headers = credentials(url)
    if last is not None:
        headers["Last-Event-ID"] = last
    address = httpx.URL(f"{url}{path}").copy_merge_params({} if run is None else {"run": run})
    with (
        httpx.Client(timeout=PATIENCE, trust_env=False) as client,
        connect_sse(client, "GET", str(address), headers=headers) as source,
    ):
        yield Reader(source.iter_sse())
