#!/usr/bin/env bash
# httpx 0.28.1, httpcore 1.0.9, anyio 4.11.0; Python 3.11 to 3.13.
#
# A task that is cancelled while httpx opens a TLS connection leaves the socket open, even after `aclose()` of the client.
# A good guess is wrong twice: a cancelled connection attempt over plain TCP is closed at once, and `aclose()` is said to
# close every connection. But a connection whose handshake has not ended is in no pool yet: httpcore's stream has the open
# socket, and nothing closes it when the handshake is cancelled. The socket goes when the garbage collector finds it, and
# a server with few places keeps one for each call that was cut by a deadline.
#
# The server here accepts connections and says nothing, as one behind an overloaded proxy does. The script prints whether
# it sees the end of the connection: of one cancelled in its handshake, and of one cancelled while it waits for a reply.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" --quiet --disable-pip-version-check install httpx==0.28.1 httpcore==1.0.9 anyio==4.11.0 h11==0.16.0
"$folder/env/bin/python" - <<'PYTHON'
import asyncio
import contextlib
import gc
import sys

import httpx


async def seen_by_the_server(scheme: str) -> bool:
    """Return whether a silent server sees the end of a connection whose request was cancelled, and its client closed."""
    ended = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            while await reader.read(4096):
                pass
            ended.set()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = httpx.AsyncClient(timeout=30)
    try:
        await asyncio.wait_for(client.get(f"{scheme}://127.0.0.1:{port}/"), 0.3)
    except asyncio.TimeoutError:
        pass
    await client.aclose()
    try:
        await asyncio.wait_for(ended.wait(), 1.5)
        return True
    except asyncio.TimeoutError:
        return False
    finally:
        server.close()


gc.disable()
plain, handshake = (asyncio.run(seen_by_the_server(scheme)) for scheme in ("http", "https"))
print(f"cancelled while it waits for a reply: closed {plain}")
print(f"cancelled in its TLS handshake: closed {handshake}")
sys.exit(0 if (plain, handshake) == (True, False) else 1)
PYTHON
