"""Run tests against the package with a seeded defect, each time in a process of its own.

The process changes the source of the modules while it imports them, so that no file is copied or written.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING

from tests.defects.defect import Defect, changed_sources
from tests.forks import warm_context

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "graphexec"
FILES = ("tests/defects/test_promises.py", "tests/defects/test_promises_of_time.py")

# Exit codes of pytest.
PASSED, FAILED = 0, 1

# Seconds for all tests of a trial, and for each. A timeout is an error and does not count as a broken promise, because
# promises have their own bounds.
PATIENCE = 400
PATIENCE_FOR_EACH = 90


@dataclass(frozen=True)
class Trial:
    """The result of a trial: pytest's exit code, the message of each broken test by its name, and the output."""

    code: int
    broken: Mapping[str, str]
    text: str


def run_tests(defect: Defect | None, *arguments: str, patience: float = PATIENCE) -> Trial:
    """Run pytest with the arguments against the package with this defect (default: none), until one test fails.

    Raises `TimeoutError` if it takes longer than `patience` seconds.
    """
    context = warm_context()
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_try, args=(defect, arguments, sender))
    process.start()
    sender.close()
    try:
        if not receiver.poll(patience):
            raise TimeoutError(
                f"{defect and defect.name}: {' '.join(arguments)} takes longer than {patience:g} seconds"
            )
        trial: Trial = receiver.recv()
        return trial
    finally:
        process.kill()
        process.join()


def run_promises(defect: Defect | None, *promises: str) -> Trial:
    """Test the package with a defect against these promises (default: all)."""
    return run_tests(
        defect, *(map(pytest_id, promises) if promises else FILES), "-n0", "--hypothesis-profile=seeded", "-m", ""
    )


def pytest_id(promise: str) -> str:
    """Return the pytest id of a promise; an id of another test is returned unchanged."""
    if "::" in promise:
        return promise
    (file,) = [file for file in FILES if f"def {promise}(" in (ROOT / file).read_text()]
    return f"{file}::{promise}"


class _Collector:
    """A plugin of pytest that keeps the message of each failure by the name of its test."""

    def __init__(self) -> None:
        self.broken: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            name = report.nodeid.split("::")[-1].split("[")[0]
            self.broken[name] = crash.message if crash is not None else str(report.longrepr)

    # A module may prove or run a machine while it is imported.
    pytest_collectreport = pytest_runtest_logreport


class _ChangedLoader(SourceFileLoader):
    """A loader that compiles a changed source in the place of the file's."""

    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self._source.encode(), self.path)


class _ChangedFinder(MetaPathFinder):
    """A finder of modules with a changed source."""

    def __init__(self, sources: Mapping[str, tuple[Path, str]]) -> None:
        self._sources = sources

    def find_spec(self, name: str, path: Sequence[str] | None, _: ModuleType | None = None, /) -> ModuleSpec | None:
        if name not in self._sources:
            return None
        file, source = self._sources[name]
        return importlib.util.spec_from_file_location(name, file, loader=_ChangedLoader(name, str(file), source))


def _import_with(defect: Defect) -> None:
    """Import the modules that the defect changes, before pytest, whose own finder would rewrite their assertions."""
    sources = {
        ".".join((PACKAGE.name, *Path(file).with_suffix("").parts)): (PACKAGE / file, source)
        for file, source in changed_sources(defect, PACKAGE).items()
    }
    sys.meta_path.insert(0, _ChangedFinder(sources))
    for name in sources:
        assert isinstance(importlib.import_module(name).__loader__, _ChangedLoader), name


def _try(defect: Defect | None, arguments: Sequence[str], sender: Connection) -> None:
    """Run pytest in this process, which has not imported the package."""
    import pytest

    assert PACKAGE.name not in sys.modules
    os.chdir(ROOT)
    # A failure message stands on one line.
    os.environ["COLUMNS"] = "400"
    for name in [name for name in os.environ if name.startswith("PYTEST_")]:
        del os.environ[name]
    if defect is not None:
        _import_with(defect)
    collector = _Collector()
    output = io.StringIO()
    options = ["-x", "-q", "-p", "no:cacheprovider", "--tb=short", f"--timeout={PATIENCE_FOR_EACH}"]
    # Of what is imported already, whose assertions are not explained.
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        code = pytest.main([*arguments, *options], plugins=[collector])
    sender.send(Trial(int(code), collector.broken, output.getvalue()))
