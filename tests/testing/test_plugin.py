"""A marked function becomes the tests of its machine; the summary says what is proved, and what no test took."""

import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from graphexec import AgentExecutor
from graphexec.kernel.execution import Execution
from graphexec.testing.edge_coverage import EdgeCoverage
from graphexec.testing.plugin import CHECKS
from tests.executor.actors import act, answer, echo, scripted
from tests.parameters import cases, read_tables

PROGRAMS = read_tables(__file__)

pytest_plugins = ["pytester"]

# Where the package is is_installed with its entry point, pytest has the plugin already.
INSTALLED = any(one.name == "graphexec" for one in importlib.metadata.entry_points(group="pytest11"))
LOADED = [] if INSTALLED else ["-p", "graphexec.testing.plugin"]


MADE = "executor(handle_parsing_errors=True)"
FINISHING = f"def test_mine():\n    assert {MADE}.run('q').output == 'done'\n"


def result_of(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    # In the order of the file, even where the tests of this one are shuffled.
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:randomly", *LOADED, *options)


def run(pytester: pytest.Pytester, *parts: str, options: str = "", lines: Sequence[str] = (), **outcomes: int) -> str:
    """Run a file of these parts; it has these outcomes and lines. Return the output."""
    pytester.makepyfile(test_mine="\n".join([PROGRAMS["machines"], *parts]))
    result = result_of(pytester, *options.split())
    if outcomes:
        result.assert_outcomes(**outcomes)
    result.stdout.fnmatch_lines(lines)
    return result.stdout.str()


@pytest.fixture(autouse=True)
def _without_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    """A file that is written twice in a second leaves no bytecode."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


ONE_CHECK = {"passed": 1, "deselected": 3}
PROVED = "agent_executor PROVED: at most 14 transitions = 4?iterations + 2; 3 model calls; 12 tool calls"


@pytest.mark.medium
def test_marked_function_becomes_tests(pytester: pytest.Pytester) -> None:
    output = run(pytester, PROGRAMS["agent"], options="-v", passed=4)
    assert re.findall(r"::(\S+) PASSED", output) == [f"agent_executor[{check}]" for check in CHECKS]
    run(pytester, PROGRAMS["agent"], options="--strict-markers -k proof", lines=[PROVED], **ONE_CHECK)
    assert not re.search("= graphexec =", run(pytester, FINISHING, passed=1))
    before = Execution.run
    for sign, options in (("==", ""), ("!=", "--graphexec-cov")):
        asserted = f"    assert Execution.run.__module__ {sign} Execution.__module__"
        text = f"from graphexec.kernel.execution import Execution\ndef test_path():\n{asserted}"
        run(pytester, text, options=options, passed=1)
    assert Execution.run is before


MARK = "@pytest.mark.graphexec"
UNKNOWN = f"{MARK}(3, limit=Limits())\ndef agent():\n    return executor()\n"
OPTIONS = "its options are start, limits, replies, raises, examples, *, ignore; did you mean limits?"
ASYNC = "marks an async function; write def agent that returns an executor or a graph"
POSITIONAL = f"agent: {MARK} takes keyword arguments only, not 3"
LOOP = "clock REFUTED: GX010 at tick: the table alone does not end this loop: tick --Tick-*"
# A file, options, lines of the report, and the outcomes.
REPORTS: list[tuple[str, str, list[str], dict[str, int]]] = [
    (PROGRAMS["tick"] + PROGRAMS["clock"], "", [LOOP], {"failed": 4}),
    (PROGRAMS["looking_up"], "", ["looking_up PROVED: at most 12 transitions*"], {"passed": 4}),
    (PROGRAMS["with_fixture"], "-k proof", ["test_agent PROVED: at most 10 transitions*2,000 tool calls*"], ONE_CHECK),
    # Mistakes are reported once, in the user's terms.
    (UNKNOWN, "", [POSITIONAL, f"agent: {MARK} has no option limit; {OPTIONS}"], {"errors": 1}),
    (f"{MARK}\nasync def agent():\n    return executor()\n", "", [f"agent: {MARK} {ASYNC}"], {"errors": 1}),
]


@pytest.mark.medium
@cases(("text", "options", "lines", "outcomes"), *REPORTS)
def test_machine_or_mistake_is_reported(
    pytester: pytest.Pytester, text: str, options: str, lines: list[str], outcomes: dict[str, int]
) -> None:
    run(pytester, text, options=options, lines=lines, **outcomes)


@pytest.mark.medium
@pytest.mark.parametrize(("returned", "message"), [("None", "None"), ("7", "7, of int")])
def test_non_machine_is_reported_once(pytester: pytest.Pytester, returned: str, message: str) -> None:
    output = run(pytester, f"{MARK}\ndef agent():\n    return {returned}\n", options="-r N", failed=4)
    lines = output.splitlines()
    assert lines.count(f"agent returns {message}; return an executor or a graph") == 1
    assert lines.count("agent does not return a machine: see agent[proof]") == 3


@pytest.mark.slow
def test_build_error_is_reported_once_with_its_line(pytester: pytest.Pytester) -> None:
    lines = run(pytester, PROGRAMS["looping"], options="-r N", failed=4).splitlines()
    assert sum("UnprovedError: GX010 at parse: the table alone does not end this loop" in line for line in lines) == 1
    assert lines.count("agent raises UnprovedError: see agent[proof]") == 3
    assert ">       return made.with_graph(splice(made.graph, rows, after=parse, on=AgentFinish))" in lines
    # None of graphexec's own.
    assert not [line for line in lines if "surgery.py" in line or "plugin.py" in line or "def splice" in line]


@pytest.mark.medium
def test_raising_node_fails_without_traceback(pytester: pytest.Pytester) -> None:
    path = "plan --Replied--> parse, parse --Acted--> approve; the world replies calls *, replies no"
    remedy = "raised at *test_mine.py:*; let no node raise it, or pass raises=(KeyError,)"
    line = f"approve raises KeyError('bug'): {path}; {remedy}"
    output = run(pytester, PROGRAMS["crashing"], options="-k exhaustive -r N", lines=[line], failed=1, deselected=3)
    assert "properties.py" not in output
    assert output.count("approve raises") == 1


# ---- which edges are taken

TAKEN = "AGENT_EXECUTOR: 2 of 10 edges taken"


@pytest.mark.medium
def test_untaken_edges_are_reported(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    # As if a script had been run in this process: what README blocks leave behind, say.
    left_over = AgentExecutor(agent=print, tools=[], handle_parsing_errors=True)
    monkeypatch.setattr(sys.modules["__main__"], "left_over", left_over, raising=False)
    edges = ("plan --Stopped--> stopped_response", "parse --Acted--> dispatch_tools")
    lines = [TAKEN, *(f"  never taken: {edge}" for edge in edges)]
    output = run(pytester, FINISHING, f"MINE = {MADE}\n", options="--graphexec-cov", lines=lines)
    assert "never taken: plan --Replied--> parse" not in output
    run(pytester, FINISHING, options="--graphexec-cov", lines=[TAKEN])


@pytest.mark.medium
def test_edges_taken_only_by_checks_are_listed(pytester: pytest.Pytester) -> None:
    marked = f"{MARK}(examples=30)\ndef agent():\n    return {MADE}\n"
    lines = ["agent: * of 10 edges taken", "  taken by no test of yours: parse --Acted--> dispatch_tools"]
    run(pytester, FINISHING, marked, options="--graphexec-cov", lines=lines)


@pytest.mark.medium
def test_untaken_edges_are_drawn_grey(pytester: pytest.Pytester) -> None:
    lines = ["no run of any graph was seen"]
    run(pytester, "def test_nothing(): pass", options="--graphexec-cov", lines=lines)
    for name in ("edges.mmd", "edges.dot"):
        run(pytester, FINISHING, options=f"--graphexec-cov={name}", lines=[f"  drawn in {name}"])
        assert "#b0b0b0" in (pytester.path / name).read_text()
    result_of(pytester, "--graphexec-cov=drawings")
    (drawing,) = (pytester.path / "drawings").iterdir()
    assert drawing.name == "AGENT_EXECUTOR.mmd"


# ---- what it costs, and the README's own test


def output_of(program: str) -> list[str]:
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return ended.stdout.splitlines()


@pytest.mark.medium
def test_imports_are_few() -> None:
    program = "import sys, pytest, graphexec; before = {*sys.modules}; import graphexec.testing.plugin; "
    loaded = output_of(f"{program}print(*sorted({{*sys.modules}} - before))")
    assert loaded == ["graphexec.testing graphexec.testing.plugin"]
    (error,) = output_of(PROGRAMS["without_hypothesis"])
    assert error == "module 'graphexec.testing' has no attribute 'nothing'"


# ---- observers


def run_observed() -> list[type]:
    seen: list[Any] = []
    turns = [act("echo", text="a"), answer()]
    AgentExecutor(agent=scripted(*turns), tools=[echo], observers=[seen.append]).run("q")
    return [type(event) for event in seen]


def test_observers_hear_the_same_beside_coverage() -> None:
    coverage = EdgeCoverage()
    coverage.begin()
    try:
        covered = run_observed()
    finally:
        coverage.end()
    assert covered == run_observed()
    assert next(coverage.report("")).endswith("5 of 9 edges taken")


@pytest.mark.medium
def test_marked_method_becomes_tests(pytester: pytest.Pytester) -> None:
    output = run(pytester, PROGRAMS["methods"], options="-v", passed=4)
    assert re.findall(r"::(\S+) PASSED", output) == [f"TestMachines::agent_executor[{check}]" for check in CHECKS]
    run(pytester, PROGRAMS["tick"], PROGRAMS["clock_method"], failed=4, lines=["*GX010 at tick*"])


IN_CLASSES = {
    "class TestMachine:\n    pytestmark = pytest.mark.graphexec\n    def test_machine(self): pass": "marks a class",
    "@pytest.mark.graphexec\nclass TestMachine:\n    def test_machine(self): pass": "marks a class",
    "from unittest import TestCase as T\nclass My(T):\n    @pytest.mark.graphexec\n    def me(self): pass": "TestCase",
    "class TestMachine:\n    @staticmethod\n    @pytest.mark.graphexec\n    def test_machine(): pass": "a staticmethod",
    "class TestMachine:\n    @pytest.mark.graphexec\n    async def test_machine(self): pass": "an async function",
    "class TestMachine:\n    @pytest.mark.graphexec(start)\n    def test_machine(self): pass": "start",
}


def test_marks_that_prove_nothing_are_errors(pytester: pytest.Pytester) -> None:
    for text, says in IN_CLASSES.items():
        assert says in run(pytester, text, errors=1), text
    whole_module = "pytestmark = pytest.mark.graphexec\ndef test_machine(): pass"
    run(pytester, whole_module, failed=1, lines=["*test_machine has @pytest.mark.graphexec from its class or module*"])
