"""Configuration of all tests: the number of examples, the number of processes, timeouts, and bytecode.

By default few examples of each property are tried, so that the tests are quick; with
`pytest --hypothesis-profile=thorough` a hundred, as CI does. Hypothesis measures no time, since a busy machine is not a
bug.
"""

import gc
import importlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.defects.copies import COPY, NOT_THE_COPY

if TYPE_CHECKING:
    from playwright.sync_api import Browser

settings.register_profile("thorough", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("house", settings.get_profile("thorough"), max_examples=20, stateful_step_count=25)
# For other versions of the same packages.
settings.register_profile("quick", settings.get_profile("house"), max_examples=5)
# For a copy of the package with a seeded defect: the same examples each time, so that the defect does not survive by
# chance, and no shrinking.
settings.register_profile(
    "seeded",
    settings.get_profile("thorough"),
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),
    report_multiple_bugs=False,
    print_blob=False,
)
settings.load_profile("house")

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

# Seconds after which a test that ignored its timeout is interrupted again.
AGAIN = 10.0


class TestTimeoutError(BaseException):
    """A test has taken too long. Not an Exception, because Hypothesis would repeat an example that raises one."""

    __test__ = False


def pytest_sessionstart() -> None:
    """If a copy of the package is tested, check that it is imported."""
    copy = os.environ.get(COPY)
    if copy is None:
        return
    import graphexec

    if not Path(graphexec.__file__).is_relative_to(copy):
        pytest.exit(f"graphexec is imported from {graphexec.__file__}, which is not in {copy}", NOT_THE_COPY)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Run all tests on all processors; tests chosen by path, printed, debugged or covered stay in this process."""
    option: Any = config.option
    chosen = config.args_source is pytest.Config.ArgsSource.ARGS
    watched = option.usepdb or option.trace or option.capture == "no" or getattr(option, "cov_source", None)
    # A worker does not start workers.
    serial = "PYTEST_XDIST_WORKER" in os.environ or not config.pluginmanager.hasplugin("xdist")
    if not serial and option.numprocesses is None and not (chosen or watched):
        # Some tests wait.
        option.numprocesses = min((os.cpu_count() or 1) + 1, MOST_WORKERS)
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
