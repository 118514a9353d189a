"""The HTTP clients of one model: created at first use, reused, and closed with the model or the event loop.

A server on this machine is called directly, and others through the proxy of the environment, if it has one.

All threads share one blocking client. An async client belongs to the event loop in which it opened its connections, so
there is one for each running loop; it is closed when its loop ends.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import AsyncGenerator
from typing import Any, Protocol

from graphexec.errors import ModelConnectionError
from graphexec.runtime.calls import ForkSafeLock, reset_after_fork
from graphexec.runtime.tasks import require_event_loop


class HTTPClient(Protocol):
    """The methods of an `httpx.Client` or `httpx.AsyncClient` that are used; `send` of the latter is awaited."""

    # Any: the client's own classes of requests and responses, and its options.
    def build_request(self, method: str, url: str, *args: Any, **options: Any) -> Any:
        """Return a request to send."""

    def send(self, request: Any, *args: Any, **options: Any) -> Any:
        """Send a request, and return the response before its body is read."""


# The clients of the processes from which this one was forked. They are kept, because their finalizers would close them.
_inherited: list[object] = []


class Connections:
    """The clients of one model. A client that the user passed is never closed."""

    def __init__(
        self, client: HTTPClient | None = None, async_client: HTTPClient | None = None, *, is_local: bool = False
    ) -> None:
        # Those of blocking and of async calls, and the process that first used each.
        self._given = (client, async_client)
        self._processes: dict[bool, int] = {}
        self._is_local = is_local
        # Any: httpx is imported by the first call only.
        self._blocking: Any = None
        self._finalizer: weakref.finalize[Any, Any] | None = None
        # By the event loop: a client, and the generator that closes it when its loop ends.
        self._async: dict[asyncio.AbstractEventLoop, tuple[Any, AsyncGenerator[Any, None]]] = {}
        self._lock = ForkSafeLock()
        reset_after_fork(self)

    def blocking_client(self) -> Any:
        """Return the blocking client. Raises `ModelConnectionError` if it is the user's, and was used before a fork."""
        given = self._use_given(is_async=False)
        if given is not None:
            return given
        from graphexec.models.http.network import close_idle

        with self._lock:
            if self._blocking is None:
                self._blocking = _make_client(is_async=False, is_local=self._is_local)
                # Closes the connections when the model is garbage collected, which no call uses then, and at the end of
                # the program, where a thread that is still reading must not fail with a broken connection.
                self._finalizer = weakref.finalize(self, close_idle, self._blocking)
            return self._blocking

    async def async_client(self) -> Any:
        """Return the async client of the running event loop. Raises `ModelConnectionError` as `blocking_client`."""
        given = self._use_given(is_async=True)
        if given is not None:
            return given
        require_event_loop()
        loop = asyncio.get_running_loop()
        if loop not in self._async:
            keeper = _keep_client(is_local=self._is_local)
            client = await anext(keeper)
            with self._lock:
                self._forget_ended()
                # Another task may have created a client in the meantime.
                self._async.setdefault(loop, (client, keeper))
        return self._async[loop][0]

    def _use_given(self, *, is_async: bool) -> HTTPClient | None:
        """Return the user's client, if there is one. Raises `ModelConnectionError` if another process used it."""
        given, process = self._given[is_async], os.getpid()
        if given is not None and self._processes.setdefault(is_async, process) != process:
            raise ModelConnectionError(
                "the client that was passed to the model was used before this process was forked, so its connections "
                "belong to another process; make the model and its client in each worker process"
            )
        return given

    def _forget_ended(self) -> None:
        # The clients of closed loops are closed, too.
        for ended in [known for known in self._async if known.is_closed()]:
            del self._async[ended]

    def reset_after_fork(self) -> None:
        """Forget the clients, whose connections belong to the parent process; the next call opens new ones.

        They are not closed: a thread of the parent may have held their locks, and an event loop is shared until then.
        """
        if self._finalizer is not None:
            self._finalizer.detach()
        _inherited.append((self._blocking, self._async))
        self._blocking, self._async, self._finalizer = None, {}, None

    def close(self) -> None:
        """Close the blocking client; a later call creates a new one."""
        with self._lock:
            client, self._blocking = self._blocking, None
            if self._finalizer is not None:
                self._finalizer.detach()
        if client is not None:
            client.close()

    async def aclose(self) -> None:
        """Close the async client of the running loop and the blocking client; a later call creates new ones."""
        require_event_loop()
        with self._lock:
            _, keeper = self._async.pop(asyncio.get_running_loop(), (None, None))
        if keeper is not None:
            await keeper.aclose()
        self.close()


# Any: httpx is imported by the first call only.
def _make_client(*, is_async: bool, is_local: bool) -> Any:
    """Return a new client. Raises `ModelConnectionError` if it cannot be made, which is because of an invalid proxy."""
    import httpx

    from graphexec.models.http.network import set_backends

    try:
        # The certificates of the environment count for a client that trusts nothing else of it, too.
        client = (httpx.AsyncClient if is_async else httpx.Client)(
            trust_env=not is_local, verify=httpx.create_ssl_context()
        )
    except ImportError:
        fact = "SOCKS needs the package socksio"
    # The message of the error may show the proxy with its password.
    except ValueError as error:
        fact = f"{type(error).__name__}: unknown scheme"
    except httpx.InvalidURL as error:
        fact = f"{type(error).__name__}: write / and other signs in a password as %2F"
    else:
        set_backends(client)
        return client
    raise ModelConnectionError(
        f"the proxy of the environment cannot be used ({fact}); set ALL_PROXY, HTTP_PROXY and HTTPS_PROXY to an "
        "address such as http://127.0.0.1:3128, or remove them"
    )


async def _keep_client(*, is_local: bool) -> AsyncGenerator[Any, None]:
    """Yield an async client, and close it when this generator is closed.

    An event loop closes its async generators before it ends, and so the connections that belong to the loop.
    """
    async with _make_client(is_async=True, is_local=is_local) as client:
        yield client
