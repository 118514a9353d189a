"""The pytest plugin: `@pytest.mark.graphexec` on a function that returns an executor or a graph makes tests of it.

The marker takes the options of `verify_termination`; `--graphexec-cov` reports the edges that no test takes. pytest
always loads this module, so it imports heavy packages where they are used.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias, cast

import pytest

from graphexec.errors import an, did_you_mean, format_number

if TYPE_CHECKING:
    from graphexec.testing.edge_coverage import EdgeCoverage
    from graphexec.testing.setup import Verifiable
    from graphexec.verify import Bound, Verdict

MARK: Final = "graphexec"

# The tests of a marked function.
CHECKS: Final = ("proof", "certificate", "exhaustive", "adversarial")

# The options of the marker, which are those of `verify_termination`.
OPTIONS: Final = ("start", "limits", "replies", "raises", "examples", "stateful", "context", "patience", "ignore")

# The key of a summary line in a report's user properties, which pytest-xdist forwards.
_LINE: Final = "graphexec_verdict"

# The attribute in which a test stores its graph for edge coverage.
_GRAPH: Final = "graphexec_graph"

# Any: users write the options of the marker.
Options: TypeAlias = Mapping[str, Any]

# The failures of one function's tests, with the test that reported each, so that others do not repeat it.
Failures: TypeAlias = dict[str, str]

_coverage: pytest.StashKey[EdgeCoverage] = pytest.StashKey()
# True for the tests that this module makes.
_made: pytest.StashKey[bool] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--graphexec-cov`."""
    group = parser.getgroup("graphexec", "graphexec: machines that end")
    group.addoption(
        "--graphexec-cov",
        nargs="?",
        const="",
        default=None,
        metavar="FILE",
        help="report the edges of each graph that no test took; FILE.mmd or FILE.dot shows them grey, and a "
        "directory gets a drawing of each graph",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker, and record edges if `--graphexec-cov` is set."""
    config.addinivalue_line(
        "markers",
        f"{MARK}({', '.join(f'{name}=' for name in OPTIONS)}): the function returns an executor or a graph; prove "
        "that every run of it ends, and attack it",
    )
    if config.getoption("--graphexec-cov") is not None:
        from graphexec.testing.edge_coverage import EdgeCoverage

        config.stash[_coverage] = EdgeCoverage()
        config.stash[_coverage].begin()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop recording edges."""
    if recorded := config.stash.get(_coverage, None):
        recorded.end()


def pytest_pycollect_makeitem(collector: Any, name: str, obj: object) -> list[pytest.Item] | None:
    """Make the tests of a marked function or method, even if its name does not start with `test`."""
    marks = _marks_of(obj)
    # Not imported here: a program that has such a class has imported it.
    cases: Any = getattr(sys.modules.get("unittest"), "TestCase", ())
    if isinstance(obj, type) and issubclass(obj, cases):
        # pytest leaves the methods of such a class to unittest, which does not know the mark.
        marks += [mark for one in obj.__mro__ for member in vars(one).values() for mark in _marks_of(member)]
    if not marks:
        return None
    options = {key: value for mark in marks for key, value in mark.kwargs.items()}
    faults = [
        *(f"takes keyword arguments only, not {one!r}" for mark in marks for one in mark.args),
        *_unknown(options),
    ]
    if isinstance(obj, type):
        faults.append("marks a class, or a method of a unittest.TestCase; mark functions, or methods of other classes")
    elif inspect.iscoroutinefunction(obj):
        faults.append(f"marks an async function; write def {name} that returns an executor or a graph")
    elif not inspect.isfunction(obj):
        faults.append(f"marks {an(type(obj).__name__)}; mark a function, or a method that takes self")
    if faults:
        raise collector.CollectError("\n".join(f"{name}: @pytest.mark.{MARK} {fault}" for fault in faults))
    # Any: pytest does not type these arguments.
    function: Any = pytest.Function
    failed: Failures = {}
    items: list[pytest.Item] = []
    for check in CHECKS:
        # A function, as checked above.
        test: Any = _test(cast("Any", obj), check, options, failed)
        if isinstance(collector, pytest.Class):
            test = _bind(test, cast("Any", collector).newinstance())
        items.append(function.from_parent(collector, name=f"{name}[{check}]", callobj=test))
        items[-1].stash[_made] = True
    return items


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


def _unknown(options: Options) -> list[str]:
    known = f"its options are {', '.join(OPTIONS)}"
    return [
        f"has no option {name}; {known}{did_you_mean(name, OPTIONS, before='; ')}"
        for name in options
        if name not in OPTIONS
    ]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Separate the plugin's own runs from the user's, and store the verdict for the summary."""
    recorded = item.config.stash.get(_coverage, None)
    own = item.stash.get(_made, False)
    if not own and item.get_closest_marker(MARK) is not None:
        _fail(f"{item.name} has @pytest.mark.{MARK} from its class or module; mark functions that return a machine")
    if recorded is not None:
        recorded.own = own
    try:
        return (yield)
    finally:
        # `_test` stores these attributes.
        left: dict[str, Any] = getattr(getattr(item, "obj", None), "__dict__", {})
        if own and _LINE in left:
            item.user_properties.append((_LINE, left[_LINE]))
        if own and recorded is not None and _GRAPH in left:
            recorded.register(getattr(item, "name", "").partition("[")[0], left[_GRAPH])


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Write the verdicts, and the edges that were never taken."""
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, ())]
    lines = [value for report in reports for key, value in getattr(report, "user_properties", ()) if key == _LINE]
    recorded = config.stash.get(_coverage, None)
    if lines or recorded is not None:
        terminalreporter.section("graphexec")
    for line in sorted(set(lines)):
        terminalreporter.write_line(line)
    if recorded is not None:
        for line in recorded.report(str(config.getoption("--graphexec-cov"))):
            terminalreporter.write_line(line)


def summary(name: str, verdict: Verdict) -> str:
    """Return a verdict as a line: `agent PROVED: at most 14 transitions = 4*iterations + 2; 3 model calls`."""
    if verdict.bounds is None:
        errors = [finding for finding in verdict.findings if finding.severity == "error"]
        return f"{name} {verdict.status.upper()}: {'; '.join(map(str, errors))}"
    bounds, steps = verdict.bounds, verdict.bounds.transitions
    parts = [_format_bound(bound, name.removesuffix("s").replace("_", " ")) for name, bound in bounds.rows()[1:-1]]
    if steps.number is not None:
        number, form = format_number(steps.number), f" = {steps.form}"
        if steps.value is not None and steps.value != steps.number:
            # For these limits a smaller bound is known than the form gives.
            form = f" ({steps.form} is {format_number(steps.value)})"
        parts.insert(0, f"at most {number} transitions{'' if steps.form in (None, number) else form}")
    elif steps.form is not None:
        # Measures end the run.
        parts.insert(0, f"at most {steps.form} transitions")
    if bounds.seconds.number is not None:
        parts.append(_format_bound(bounds.seconds, "second") + bounds.seconds.condition)
    return f"{name} PROVED: {'; '.join(parts)}"


def _format_bound(bound: Bound, unit: str) -> str:
    if bound.number is None:
        return f"any number of {unit}s" if bound.form is None else f"{bound.form} {unit}s"
    return f"{format_number(bound.number)} {unit}{'' if bound.number == 1 else 's'}"


def _test(function: Callable[..., Verifiable], check: str, options: Options, failed: Failures) -> Callable[..., None]:
    name = function.__name__

    # With the function's signature, so that pytest passes the function's fixtures.
    @functools.wraps(function)
    def test(*args: Any, **kwargs: Any) -> None:
        __tracebackhide__ = True
        from graphexec.testing.failures import with_own_frames

        own = f"{name}[{check}]"
        machine: Any = None
        raised: Exception | None = None
        try:
            machine = function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the user's function may raise any exception
            raised = error
        if raised is not None:
            first = failed.setdefault(repr(raised), own)
            if first != own:
                _fail(f"{name} raises {type(raised).__name__}: see {first}")
            # Raised here, so that the traceback has only the user's lines.
            raise with_own_frames(raised)
        if fault := _describe_non_machine(name, machine):
            _fail_once(fault, f"{name} does not return a machine", own, failed)
        setattr(test, _GRAPH, getattr(machine, "graph", machine))
        if check == "proof":
            from graphexec.testing.setup import graph_of, limits_of
            from graphexec.verify import verify

            verdict = verify(graph_of(machine), limits_of(machine, options.get("limits")))
            setattr(test, _LINE, summary(name, verdict))
        # An unproved machine fails every check, but only one reports why.
        for short, one in ((f"{name} is not proved to end", "proof"), ("it is the same failure", check)):
            if failure := _failure(one, machine, options):
                _fail_once(failure, short, own, failed)

    return test


def _failure(check: str, machine: Verifiable, options: Options) -> str | None:
    from graphexec.errors import CertificateError, InputError

    try:
        _run_check(check, machine, options)
    except (AssertionError, CertificateError, InputError) as error:
        return "\n".join((str(error), *getattr(error, "__notes__", ())))
    return None


def _describe_non_machine(name: str, machine: object) -> str | None:
    from graphexec.executor.executor import AgentExecutor
    from graphexec.kernel.graph import Graph

    if isinstance(machine, (AgentExecutor, Graph)):
        return None
    given = "None" if machine is None else f"{machine!r}, of {type(machine).__name__}"
    return f"{name} returns {given}; return an executor or a graph"


def _fail_once(text: str, short: str, own: str, failed: Failures) -> NoReturn:
    __tracebackhide__ = True
    first = failed.setdefault(text, own)
    _fail(text if first == own else f"{short}: see {first}")


def _fail(text: str) -> NoReturn:
    __tracebackhide__ = True
    # The text is complete: a traceback would add forty lines of graphexec.
    pytest.fail(text, pytrace=False)


def _run_check(check: str, machine: Verifiable, options: Options) -> None:
    from graphexec.testing import properties
    from graphexec.testing.setup import graph_of, limits_of

    limits = options.get("limits")
    ignore, own = options.get("ignore", ()), {name: one for name, one in options.items() if name != "ignore"}
    graph, within = graph_of(machine), limits_of(machine, limits)
    match check:
        case "proof":
            properties.check_guards(properties.require_proof(machine, limits), ignore)
        case "certificate":
            properties.check_certificates(properties.require_proof(machine, limits))
        case "exhaustive":
            properties.check_table_runs(graph, within)
            properties.check_own_code(machine, ("exhaustive",), **own)
        case _:
            properties.check_own_code(machine, ("adversarial",), **own)
