"""Configuration of all tests: the number of examples, the number of processes, timeouts, bytecode, and the last line.

Hypothesis tries few examples of each property, and always the same ones, so that `pytest` and the gate see the same
everywhere; `.ci/full` tries many, drawn anew (`--hypothesis-profile=full`). It measures no time, since a busy machine
is not a bug.
"""

import gc
import importlib
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.parameters import GATE, QUICK

if TYPE_CHECKING:
    from playwright.sync_api import Browser

EVERYWHERE: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow],
    "print_blob": True,
    "database": None,
}
settings.register_profile("full", **EVERYWHERE, derandomize=False)
# `examples` in tests/parameters.py reads the number.
settings.register_profile("gate", **EVERYWHERE, derandomize=True, max_examples=GATE)
settings.register_profile("quick", **EVERYWHERE, derandomize=True, max_examples=QUICK, stateful_step_count=25)
# For the package with a seeded defect: no shrinking.
settings.register_profile(
    "seeded",
    settings.get_profile("full"),
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    report_multiple_bugs=False,
    print_blob=False,
)
settings.load_profile("quick")

# Hundreds of tests start a Python process, each of which would compile the package again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A process that a shell starts in the background ignores Ctrl-C, and so would the programs that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The longest string that is used in a test's id.
LONGEST_ID = 200

# Seconds that a test marked slow may take.
LONG = 900

# Each worker takes some seconds to collect the tests.
MOST_WORKERS = 8

# The marks of tests that a session leaves out, the strongest reason first, and how many it has left out.
REASONS = ("local_model", "browser", "full", "slow", "medium")
LEFT_OUT: Counter[str] = Counter()

# Seconds after which a test that ignored its timeout is interrupted again.
AGAIN = 10.0


class TestTimeoutError(BaseException):
    """A test has taken too long. Not an Exception, because Hypothesis would repeat an example that raises one."""

    __test__ = False


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Run all tests on all processors; tests chosen by path, printed, debugged or covered stay in this process."""
    option: Any = config.option
    chosen = config.args_source is pytest.Config.ArgsSource.ARGS
    watched = option.usepdb or option.trace or option.capture == "no" or getattr(option, "cov_source", None)
    # A worker does not start workers.
    serial = "PYTEST_XDIST_WORKER" in os.environ or not config.pluginmanager.hasplugin("xdist")
    if not serial and option.numprocesses is None and not (chosen or watched):
        option.numprocesses = min(os.cpu_count() or 1, MOST_WORKERS)
        option.dist = "worksteal"


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Use the argument's name as the id of a long string, which may contain times that differ between processes."""
    return argname if isinstance(val, str) and len(val) > LONGEST_ID else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give slow tests more time: they try many examples, or run other tests in a separate process.

    The slowest begin first, so that the other processes have something to do until they end.
    """
    for item in items:
        if item.get_closest_marker("slow") is not None and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LONG))
    items.sort(key=lambda item: item.get_closest_marker("slowest") is None)


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Count the items that are left out, by the mark that says why."""
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        LEFT_OUT[next((mark for mark in REASONS if mark in marks), "other")] += 1


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Give the report of a table of cases their number; a test with cases of another kind records it itself."""
    report = yield
    if report.when == "call" and "cases" not in dict(report.user_properties):
        report.user_properties.append(("cases", getattr(getattr(item, "function", None), "cases", 1)))
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    """After pytest's last line, print the number of cases and what was left out, which a worker sends."""
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        # Each worker leaves out the same.
        output["left_out"] = dict(LEFT_OUT)
    yield
    reporter: pytest.TerminalReporter | None = session.config.pluginmanager.get_plugin("terminalreporter")
    if output is not None or reporter is None:
        return
    passed = [dict(report.user_properties) for report in reporter.getreports("passed")]
    count = sum(int(str(properties.get("cases", 1))) for properties in passed)
    left_out = ", ".join(f"{LEFT_OUT[mark]:,} {mark}" for mark in (*REASONS, "other") if LEFT_OUT[mark])
    reporter.write_line(
        f"{count:,} cases in {len(passed):,} tests"
        + (f"; left out: {left_out} tests, most of which .ci/run adds, and .ci/full all" if left_out else "")
    )


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Receive from a worker what was left out."""
    left_out: dict[str, int] = getattr(node, "workeroutput", {}).get("left_out", {})
    LEFT_OUT.update(Counter(left_out) - LEFT_OUT)


def pytest_collection_finish() -> None:
    """Exclude imported and collected objects from garbage collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _collected_garbage() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    """Collect the garbage of a module, and exclude what is left from later collections, which many tests make."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """An event that blocked calls wait for; it is set when the test is over."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture(scope="module")
def browser() -> "Browser":
    """Return Chromium, which the tests of a process share."""
    from tests.draw.browser import shared_browser

    return shared_browser()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Close the browser before a module of other tests: Playwright's event loop allows no other in its thread."""
    known = sys.modules.get("tests.draw.browser")
    if known is None or (nextitem is not None and nextitem.path == item.path):
        return
    if nextitem is None or nextitem.get_closest_marker("browser") is None:
        known.close_shared_browser()


@pytest.hookimpl(optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool:
    """Interrupt a test after its time, and again until it ends."""
    # pytest_timeout has no type annotations.
    is_debugging = importlib.import_module("pytest_timeout").is_debugging

    def expire(number: int, frame: FrameType | None) -> None:
        if not is_debugging(frame):
            raise TestTimeoutError(f"{item.nodeid} has taken more than {settings.timeout:g} seconds")

    signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, settings.timeout, AGAIN)
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> bool:
    """Stop the timer when the test has ended."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    return True
