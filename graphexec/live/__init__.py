"""The live page: a run's page while the run happens, served to this computer only, for those who have its token.

    recorder = Recorder(executor.verify(), inputs=question)
    with serving(recorder) as url:
        print(f"watch it at {url}")
        for event in executor.stream(question):
            recorder(event)

The server has two addresses:

- `GET /`: the page of the run. In its data, `live` is the address of the events.
- `GET /events`: the records as server-sent events; the id of each is its index in the run. `end` follows the result,
  `gone` the last record of a server that closes, and `again` says that another run has replaced this one.

Of a store of runs, such as `SQLiteRuns`, `GET /` is a page of all runs, with forms for their open questions, and
`GET /run?id=...` the page of one, which shows what other processes add to it.

It needs the extras `live` and `draw`: `pip install 'graphexec-agents[live,draw]'`.
"""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from graphexec._mistakes import explain_names
from graphexec.errors import InputError
from graphexec.live.application import make_application, missing_extra
from graphexec.live.feeds import Feed, Source, feed_of
from graphexec.live.stored import StoredRuns, make_store_application
from graphexec.runs.store import Runs

# Seconds for sending the remaining records when the server closes.
_GRACE = 3


@contextmanager
def serving(source: Source | Runs, *, port: int = 0) -> Generator[str]:
    """Serve the page of the run at `source`, or a store of runs, from a thread; yield its address, with a new token.

    Who has the address can read the run: every request needs the token, in the address (`/?token=...`), which sets a
    cookie for the next ones, or in the header `Authorization: Bearer ...`. Readers receive every record made before the
    block ends. Port 0 selects a free port. Raises `InputError` without uvicorn, and for a port in use.
    """
    token = secrets.token_urlsafe(nbytes=32)
    feed: Feed | StoredRuns
    if isinstance(source, Runs):
        feed = StoredRuns(source)
        application = make_store_application(feed, token)
    else:
        feed = feed_of(source)
        application = make_application(feed, token)
    try:
        import uvicorn
    except ImportError as error:
        raise missing_extra(error) from error
    listening = _listen(port)
    config = uvicorn.Config(
        application,
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [listening]}, name="graphexec-live-page", daemon=True
    )
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/?token={token}"
    finally:
        feed.close()
        server.should_exit = True
        thread.join()


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        raise InputError(f"port {port} cannot be opened: {error}; pass another, or 0 for a free one") from error


if not TYPE_CHECKING:
    __getattr__ = explain_names(__name__)
