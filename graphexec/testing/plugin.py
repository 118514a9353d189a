"""The pytest plugin: `@pytest.mark.graphexec` makes a test of a function that returns an executor or a graph.

The test is `verify_termination`, whose options the marker takes. pytest always loads this module, so it imports heavy
packages where they are used.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

import pytest

from graphexec.errors import an, did_you_mean

if TYPE_CHECKING:
    from graphexec.testing.setup import Verifiable
    from graphexec.verify import Verdict

MARK: Final = "graphexec"

# The options of the marker, which are those of `verify_termination`.
OPTIONS: Final = ("start", "limits", "replies", "raises", "examples", "stateful", "context", "patience", "ignore")

# The key of a summary line in a report's user properties, which pytest-xdist forwards.
_LINE: Final = "graphexec_verdict"

# True for a test that this module makes.
_made: pytest.StashKey[bool] = pytest.StashKey()


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        f"{MARK}({', '.join(f'{name}=' for name in OPTIONS)}): the function returns an executor or a graph; prove "
        "that every run of it ends, and attack it",
    )


def pytest_pycollect_makeitem(collector: Any, name: str, obj: object) -> list[pytest.Item] | None:
    """Make the test of a marked function or method, even if its name does not start with `test`."""
    marks = _marks_of(obj)
    # Not imported here: a program that has such a class has imported it.
    cases: Any = getattr(sys.modules.get("unittest"), "TestCase", ())
    if isinstance(obj, type) and issubclass(obj, cases):
        # pytest leaves the methods of such a class to unittest, which does not know the mark.
        marks += [mark for one in obj.__mro__ for member in vars(one).values() for mark in _marks_of(member)]
    if not marks:
        return None
    options = {key: value for mark in marks for key, value in mark.kwargs.items()}
    faults = [f"takes keyword arguments only, not {one!r}" for mark in marks for one in mark.args]
    faults += [
        f"has no option {key}; its options are {', '.join(OPTIONS)}{did_you_mean(key, OPTIONS, before='; ')}"
        for key in options
        if key not in OPTIONS
    ]
    if isinstance(obj, type):
        faults.append("marks a class, or a method of a unittest.TestCase; mark functions, or methods of other classes")
    elif inspect.iscoroutinefunction(obj):
        faults.append(f"marks an async function; write def {name} that returns an executor or a graph")
    elif not inspect.isfunction(obj):
        faults.append(f"marks {an(type(obj).__name__)}; mark a function, or a method that takes self")
    if faults:
        raise collector.CollectError("\n".join(f"{name}: @pytest.mark.{MARK} {fault}" for fault in faults))
    # A function, as checked above.
    test: Any = _test(cast("Any", obj), options)
    if isinstance(collector, pytest.Class):
        test = _bind(test, cast("Any", collector).newinstance())
    # Any: pytest does not type these arguments.
    function: Any = pytest.Function
    item: pytest.Item = function.from_parent(collector, name=name, callobj=test)
    item.stash[_made] = True
    return [item]


# Any: of a user's class.
def _bind(test: Any, instance: Any) -> Any:
    """Return a test with an instance of its own. Of a method, pytest before version 9 would leave out a fixture."""

    @functools.wraps(test)
    def bound(*args: Any, **kwargs: Any) -> None:
        __tracebackhide__ = True
        test(instance, *args, **kwargs)

    # The verdict is there.
    bound.__dict__ = test.__dict__
    bound.__self__ = instance  # type: ignore[attr-defined]
    return bound


# Any: users write marks, also on what is no function.
def _marks_of(obj: Any) -> list[Any]:
    # Those of a static method are its function's.
    marks: Any = getattr(obj, "pytestmark", None) or getattr(getattr(obj, "__wrapped__", None), "pytestmark", ())
    several = cast("list[Any]", marks if isinstance(marks, (list, tuple)) else [marks])
    return [mark for mark in several if getattr(mark, "name", None) == MARK]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Refuse a mark that makes no test, and store the verdict for the summary."""
    own = item.stash.get(_made, False)
    if not own and item.get_closest_marker(MARK) is not None:
        _fail(f"{item.name} has @pytest.mark.{MARK} from its class or module; mark functions that return a machine")
    try:
        return (yield)
    finally:
        # `_test` stores this attribute.
        left: dict[str, Any] = getattr(getattr(item, "obj", None), "__dict__", {})
        if own and _LINE in left:
            item.user_properties.append((_LINE, left[_LINE]))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Write the verdicts."""
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, ())]
    lines = [value for report in reports for key, value in getattr(report, "user_properties", ()) if key == _LINE]
    if lines:
        terminalreporter.section("graphexec")
    for line in sorted(set(lines)):
        terminalreporter.write_line(line)


def summary(name: str, verdict: Verdict) -> str:
    """Return a verdict as a line: `agent PROVED: transitions: 4*iterations + 2 = 14 (exact); model calls: ...`."""
    bounds = verdict.bounds
    if bounds is None:
        errors = [finding for finding in verdict.findings if finding.severity == "error"]
        return f"{name} {verdict.status.upper()}: {'; '.join(map(str, errors))}"
    # Without a limit, no proof is about time.
    rows = [(what, bound) for what, bound in bounds.rows() if bound is not bounds.seconds or bound.number is not None]
    return f"{name} PROVED: " + "; ".join(f"{what.replace('_', ' ')}: {bound}" for what, bound in rows)


def _test(function: Callable[..., Verifiable], options: Mapping[str, Any]) -> Callable[..., None]:
    name = function.__name__

    # With the function's signature, so that pytest passes the function's fixtures.
    @functools.wraps(function)
    def test(*args: Any, **kwargs: Any) -> None:
        __tracebackhide__ = True
        from graphexec.errors import CertificateError, InputError
        from graphexec.testing.failures import with_own_frames
        from graphexec.testing.properties import verify_termination
        from graphexec.testing.setup import graph_of, limits_of
        from graphexec.verify import verify

        machine: Any = None
        raised: Exception | None = None
        try:
            machine = function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the user's function may raise any exception
            raised = error
        if raised is not None:
            # Raised here, so that the traceback has only the user's lines.
            raise with_own_frames(raised)
        if not _is_machine(machine):
            given = "None" if machine is None else f"{machine!r}, of {type(machine).__name__}"
            _fail(f"{name} returns {given}; return an executor or a graph")
        verdict = verify(graph_of(machine), limits_of(machine, options.get("limits")))
        setattr(test, _LINE, summary(name, verdict))
        try:
            verify_termination(machine, **options)
        except (AssertionError, CertificateError, InputError) as error:
            raised = error
        if raised is not None:
            _fail("\n".join((str(raised), *getattr(raised, "__notes__", ()))))

    return test


def _is_machine(value: object) -> bool:
    from graphexec.executor.executor import AgentExecutor
    from graphexec.kernel.graph import Graph

    return isinstance(value, (AgentExecutor, Graph))


def _fail(text: str) -> NoReturn:
    __tracebackhide__ = True
    # The text is complete: a traceback would add forty lines of graphexec.
    pytest.fail(text, pytrace=False)
