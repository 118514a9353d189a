"""Bugs that users write, each given to the plugin: its report names the node or the tool."""

import math
import re
import sys
import threading
import time
import traceback
from pathlib import Path

import pytest

from tests.parameters import mark_except
from tests.stopwatch import Stopwatch
from tests.testing.test_plugin import result_of

pytest_plugins = ["pytester"]

# Real seconds for one call; what hangs takes so long to be found, once in each of two checks. Others have more: on a
# busy machine a call that returns may take as long.
PATIENCE = 0.4
LONG_PATIENCE = 30

BUG = re.compile(r"### (.+)\n\n```python\n#: (.+)\n#> (.+)\n((?:.*\n)+?)```\n")


def read_bugs(programs: str) -> dict[str, tuple[str, str, str]]:
    """Return the code, the machine and the report of each bug, by its name."""
    return {name: (code, machine, report) for name, machine, report, code in BUG.findall(programs)}


_, HEAD, *KINDS = Path(__file__).with_name("user_bugs.md").read_text(encoding="utf-8").split("\n## ")
PROGRAM = HEAD.partition("```python\n")[2].removesuffix("```\n")
# The first have other options; `OPTIONS` are those of the others.
BUGS, OTHERS = map(read_bugs, KINDS)
EVERY = BUGS | OTHERS


@pytest.fixture(autouse=True)
def _without_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setattr("sys.dont_write_bytecode", True)


# Of each kind some, which take a second each; all of them are among the long tests.
QUICK = {
    *("hang in a node, busy", "hang in a tool, asleep", "hang in an agent function", "ask until yes"),
    *("a node that fails at the fifth step", "a tool whose runs are not charged", "a text that is no number"),
    *("a cache of the first answer", "a guard that misses an exit"),
    "a tool that raises for an empty text",
}


# Seconds in which threads that were interrupted come to rest.
SOON = 20.0


def used_by(thread: threading.Thread) -> float:
    """Return the seconds of the processor that a thread has used; infinite if it has ended."""
    assert thread.ident is not None, "it has started"
    if not thread.is_alive():
        return math.inf
    try:
        return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
    except OSError:
        return math.inf


def busy_threads() -> list[str]:
    """Wait until no other thread uses processor time, but not for long; return the stacks of those that still do."""
    deadline = time.monotonic() + SOON
    while True:
        others = [one for one in threading.enumerate() if one is not threading.current_thread()]
        before = [used_by(one) for one in others]
        time.sleep(0.1)
        frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]
        busy = [
            f"{one.name}: {''.join(traceback.format_stack(frames[one.ident]) if one.ident in frames else ())}"
            for one, at in zip(others, before, strict=True)
            if one.is_alive() and used_by(one) - at > 0.01
        ]
        if not busy or time.monotonic() > deadline:
            return busy


@pytest.mark.medium
@pytest.mark.parametrize("bug", mark_except(EVERY, *QUICK, mark=pytest.mark.slow))
def test_a_bug_is_reported_with_its_node(pytester: pytest.Pytester, bug: str) -> None:
    """Each of the last fifteen is reported within ten seconds."""
    assert (len(BUGS), len(OTHERS)) == (20, 15), "there are bugs of every kind"
    if bug.startswith("hang") and sys.gettrace():
        pytest.skip("beside a tracer, code that hangs goes on")
    code, machine, report = EVERY[bug]
    options = f"examples=40, patience={PATIENCE if bug.startswith('hang') else LONG_PATIENCE}"
    # The options are known once the machine has been made.
    marked = f"@pytest.mark.graphexec({options if bug in BUGS else '**OPTIONS'})\ndef machine():\n    return MACHINE\n"
    pytester.makepyfile(test_mine=f"{PROGRAM}\n{code}\nMACHINE = {machine}\n\n{marked}")
    before = {thread for thread in threading.enumerate() if not thread.daemon}
    with Stopwatch() as watch:
        result = result_of(pytester, "-r", "N")
    assert bug in BUGS or watch.elapsed < watch.extend(10)
    assert result.parseoutcomes()["failed"] >= 1
    assert result.ret == 1
    result.stdout.fnmatch_lines([report])
    assert {thread for thread in threading.enumerate() if not thread.daemon} <= before
    assert not busy_threads()
