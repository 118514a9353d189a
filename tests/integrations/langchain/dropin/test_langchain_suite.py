"""LangChain's own tests of its executor pass with ours in its place, while LangChain's loop raises if entered."""

import os
import subprocess
import sys
import tarfile
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("langchain_classic") is None:
    pytest.skip("needs the extra dev", allow_module_level=True)

from langchain_classic import __version__

HERE = Path(__file__).parent
TOP = HERE.parents[3]
# The source distribution, which has the tests: its version, and the hash of the file.
PINNED = HERE / "suite.txt"
VERSION = PINNED.read_text(encoding="utf-8").split()[0].rpartition("=")[2]
FILES = [f"tests/unit_tests/agents/test_{name}.py" for name in ("agent", "agent_async", "agent_iterator", "initialize")]


def find_suite() -> Path:
    """Return the folder of the source distribution, which is downloaded once for each user and version."""
    folder = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "graphexec-tests"
    name = f"langchain_classic-{VERSION}"
    if not (folder / name).is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        # In a folder beside it, since other processes may be here, too.
        with tempfile.TemporaryDirectory(dir=folder) as new:
            source = ["--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--require-hashes"]
            command = [sys.executable, "-m", "pip", "download", *source, "-r", str(PINNED), "-d", new]
            subprocess.run(command, check=True, capture_output=True, timeout=100)
            with tarfile.open(Path(new) / f"{name}.tar.gz") as archive:
                archive.extractall(new, filter="data")
            # Another process may have come first.
            with suppress(OSError):
                (Path(new) / name).rename(folder / name)
    return folder / name


@pytest.mark.medium
def test_langchains_own_tests_pass() -> None:
    assert __version__ == VERSION
    suite = find_suite()
    path = os.pathsep.join(map(str, (TOP, HERE, suite)))
    options = ["-p", "suite_plugin", "-p", "no:cacheprovider", "--noconftest", "-q", "-c", os.devnull]
    command = [sys.executable, "-m", "pytest", *options, f"--rootdir={suite}", *FILES]
    environment = {**os.environ, "PYTHONPATH": path, "PYTEST_ADDOPTS": ""}
    ended = subprocess.run(
        command, cwd=suite, env=environment, capture_output=True, text=True, check=False, timeout=100
    )
    assert "36 passed" in ended.stdout, ended.stdout
    assert ended.returncode == 0
