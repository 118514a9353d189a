"""Fixtures of the tests of the runtime."""

import threading
from collections.abc import Iterator

import pytest


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """An event that blocked calls wait for; it is set when the test is over."""
    event = threading.Event()
    yield event
    event.set()
