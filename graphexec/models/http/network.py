"""The network backends of the HTTP clients: a blocking call ends at its deadline, and a cancelled one leaves no socket.

httpx bounds each wait by itself: a server that sends one byte in time, again and again, would never be late. Here each
wait for a byte has what is left of the call, and so have the search for an address, and each of several addresses.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import httpcore

from graphexec.models.http.attempts import bound_seconds
from graphexec.runtime.calls import reset_after_fork
from graphexec.runtime.threads import NotDone, wait_for

# Bytes. A single write may wait once for each of its parts, so a large body is written in pieces.
_PIECE = 8_192


class _Stream(httpcore.NetworkStream):
    """A connection whose waits are bounded."""

    def __init__(self, inner: httpcore.NetworkStream) -> None:
        self._inner = inner
        reset_after_fork(self)

    def reset_after_fork(self) -> None:
        """Close the socket in a forked process, which does not use it; the connection stays open in the parent."""
        self._inner.get_extra_info("socket").close()

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _time_left(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        view = memoryview(buffer)
        for start in range(0, len(view), _PIECE):
            self._inner.write(bytes(view[start : start + _PIECE]), _time_left(timeout, httpcore.WriteTimeout))

    def close(self) -> None:
        # Wakes a thread that reads: to close the socket would leave it waiting until its timeout.
        with suppress(OSError):
            socket.socket.shutdown(self._inner.get_extra_info("socket"), socket.SHUT_RDWR)
        self._inner.close()

    # Any: ssl is loaded by the first connection that needs it.
    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        try:
            left = _time_left(timeout, httpcore.ConnectTimeout)
        except httpcore.ConnectTimeout:
            # httpcore's own streams close themselves when this fails, and the pool does not.
            self.close()
            raise
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, left))

    # Any: httpcore has a different class for each name.
    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class DeadlineBackend(httpcore.NetworkBackend):
    """A network backend of httpcore whose waits end at the deadline of the current call, if there is one."""

    def __init__(self, inner: httpcore.NetworkBackend) -> None:
        self._inner = inner

    # Any: further options, which the inner backend takes.
    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, *args: Any, **options: Any
    ) -> httpcore.NetworkStream:
        """Connect to the first address of a host that accepts, within `timeout` for all of them."""
        limit = _time_left(timeout, httpcore.ConnectTimeout)
        ends = None if limit is None else time.monotonic() + limit
        addresses = _resolve(host, port, limit)
        failure: Exception = httpcore.ConnectError(f"{host} has no address")
        for position, address in enumerate(addresses):
            share = None if ends is None else max(ends - time.monotonic(), 0.001) / (len(addresses) - position)
            try:
                return _Stream(self._inner.connect_tcp(address, port, share, *args, **options))
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure


class _AsyncStream:
    """A connection that a cancelled handshake closes; httpcore's own leaves it open."""

    def __init__(self, inner: httpcore.AsyncNetworkStream) -> None:
        self._inner = inner

    # Any: everything else is that of the connection.
    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    # Any: as above.
    async def start_tls(self, *args: Any, **options: Any) -> httpcore.AsyncNetworkStream:
        try:
            return await self._inner.start_tls(*args, **options)
        except BaseException:
            await self._inner.aclose()
            raise


class _AsyncBackend:
    """A network backend of httpcore for an event loop. It needs no deadlines: the loop cancels a call in any wait."""

    def __init__(self, inner: httpcore.AsyncNetworkBackend) -> None:
        self._inner = inner

    async def connect_tcp(self, *args: Any, **options: Any) -> _AsyncStream:
        return _AsyncStream(await self._inner.connect_tcp(*args, **options))


def set_backends(client: Any) -> None:
    """Let a new client of httpx use the backends of this module, also for its proxies.

    Neither httpx nor its transports have an option for the backend, so this sets httpcore's own in their pools.
    """
    for pool in _pools(client):
        is_async = isinstance(pool, httpcore.AsyncConnectionPool)
        pool._network_backend = (_AsyncBackend if is_async else DeadlineBackend)(pool._network_backend)


def close_idle(client: Any) -> None:
    """Close the connections of a blocking client of httpx that no call is using; a later call opens new ones."""
    for pool in _pools(client):
        for connection in pool.connections:
            if connection.is_idle():
                connection.close()


# Any: httpx does not expose the pools of its transports.
def _pools(client: Any) -> list[Any]:
    transports = (client._transport, *client._mounts.values())
    return [transport._pool for transport in transports if getattr(transport, "_pool", None) is not None]


def _time_left(timeout: float | None, late: type[Exception]) -> float | None:
    """Return the time for the next wait in seconds. Raises `late` if there is none: a socket would not wait at all."""
    left = bound_seconds(timeout)
    if left is not None and left <= 0:
        raise late("the call has no time left")
    return left


def _resolve(host: str, port: int, timeout: float | None) -> Sequence[str]:
    """Return the addresses of a host, in a thread, because nothing interrupts the search."""
    try:
        found = wait_for(partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM), timeout)
    except OSError as error:
        raise httpcore.ConnectError(str(error)) from error
    if isinstance(found, NotDone):
        raise httpcore.ConnectTimeout(f"no address of {host} was found in time")
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
