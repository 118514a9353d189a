"""The live page: a run's page while the run happens, served to this computer only, for those who have its token.

    recorder = Recorder(executor.verify(), inputs=question)
    with serving(recorder) as url:
        print(f"watch it at {url}")
        for event in executor.stream(question):
            recorder(event)

With `executor=`, the page can go on from a step of the run with another reply, as `graphexec.draw.fork` does. The
server has these addresses; those of a fork begin with `/forks/NUMBER/` instead of `/`:

- `GET /`: the page of the run. In its data, `live` is the address of the events, and `fork` that of forks, or null; of
  a fork, `parent` is that of its parent's page, and `comparison` that of a page with both runs side by side.
- `GET /events`: the records as server-sent events; the id of each is its index in the run. `end` follows the result,
  `gone` the last record of a server that closes, and `again` says that another run has replaced this one.
- `POST /fork`: go on from a step. The body is a JSON object of at most a mebibyte, with `step` (from 1); `call` (the
  index in the step, needed if it has several calls); and `reply` or `observation` or neither. A `reply` is the text of
  a model, or `{"content": ..., "tool_calls": [{"name": ..., "arguments": ...}]}`, or what else answers the call. The
  answer has the status 201, and `page` (the address of the new run's page), `trace` (the name of its file, beside the
  file of the parent, or null) and `changed_request` (the first step whose request to the model differs from the
  recorded one, or null). A refusal has `error`, its message, and the status 400, 403 (another site sent it), 404, 409
  (a fork is running, or another run has replaced this one), 413 or 415.

It needs the extras `live` and `draw`: `pip install 'graphexec-agents[live,draw]'`.
"""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from graphexec.errors import InputError
from graphexec.live.application import make_application, missing_extra
from graphexec.live.feeds import Source
from graphexec.live.forks import ExecutorSource, LiveRuns
from graphexec.live.tokens import TOKEN_BYTES, Access, validate_token

if TYPE_CHECKING:
    from starlette.applications import Starlette

# Seconds for sending the remaining records when the server closes, and for the end of a fork.
_GRACE = 3


def live_page(source: Source, *, token: str, executor: ExecutorSource | None = None) -> Starlette:
    """Return the ASGI application that serves the page of the run at `source`, from its first record on.

    Every request needs the token: in the address (`/?token=...`), which sets a cookie for the next ones, or in the
    header `Authorization: Bearer ...`. Make it with `secrets.token_urlsafe()`, and print the address where its reader
    sees it. The application accepts only the host names of this computer.

    With an `executor`, or a function that returns one for a `Recording`, who has the token can go on from a step of the
    run: the executor's model and tools are called in this process. Raises `InputError` for a token of fewer than 16
    characters or with characters that an address must escape, and without starlette.
    """
    validate_token(token)
    return make_application(LiveRuns(source, executor), Access(token))


@contextmanager
def serving(source: Source, *, port: int = 0, executor: ExecutorSource | None = None) -> Generator[str]:
    """Serve the page of the run at `source` from a thread, and yield its address, with a new random token.

    Who has the address can read the run, and with an `executor` go on from its steps, as in `live_page`. Readers
    receive every record made before the block ends; a fork that is running then is interrupted. Port 0 selects a free
    port. Raises `InputError` without uvicorn, and for a port in use.
    """
    runs = LiveRuns(source, executor)
    token = secrets.token_urlsafe(TOKEN_BYTES)
    application = make_application(runs, Access(token))
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
        runs.close(_GRACE)
        server.should_exit = True
        thread.join()


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        raise InputError(f"port {port} cannot be opened: {error}; pass another, or 0 for a free one") from error
