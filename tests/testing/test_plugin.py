"""A marked function becomes the tests of its machine; the summary says what is proved, and what no test took."""

import importlib.metadata
import re
import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]

# Where the package is is_installed with its entry point, pytest has the plugin already.
INSTALLED = any(one.name == "graphexec" for one in importlib.metadata.entry_points(group="pytest11"))
LOADED = [] if INSTALLED else ["-p", "graphexec.testing.plugin"]

MACHINES = """
    import pytest
    from graphexec import *
    from graphexec.effects import CallModel, CallTool
    from graphexec.executor import *
    from graphexec.testing import ScriptedModel

    @tool
    def echo(text: str) -> str:
        "Say it again."
        return text

    class Fetch(Effect[str]):
        pass

    @charged(when_spent=limit_reached)
    @node
    def look_up(acted: Acted) -> Asks[Fetch, Acted | AgentFinish]:
        page = yield from ask(Fetch())
        return acted if page else AgentFinish({"output": page})

    def executor(**settings) -> AgentExecutor:
        agent = create_tool_calling_agent(ScriptedModel(["done"]), [echo])
        return AgentExecutor(agent=agent, tools=[echo], max_iterations=3, max_tool_calls=12, **settings)
"""

AGENT = """
    @pytest.mark.graphexec(examples=5)
    def agent_executor():
        return executor(handle_parsing_errors=True)
"""


def write(pytester: pytest.Pytester, *parts: str) -> None:
    import textwrap

    pytester.makepyfile(test_mine="\n".join(textwrap.dedent(part) for part in (MACHINES, *parts)))


def result_of(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    # In the order of the file, even where the tests of this one are shuffled.
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:randomly", *LOADED, *options)


@pytest.fixture(autouse=True)
def _without_spin(  # pyright: ignore[reportUnusedFunction]
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """SPIN compiles for a second; one test is enough. A file that is written twice in a second leaves no bytecode."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    if "spin" not in request.node.name:
        monkeypatch.setattr("graphexec.testing.spin_checker.is_installed", lambda: False)


def test_marked_function_becomes_tests(pytester: pytest.Pytester) -> None:
    write(pytester, AGENT)
    result = result_of(pytester, "-v")
    result.assert_outcomes(passed=4)
    names = re.findall(r"::(\S+) PASSED", result.stdout.str())
    assert names == [f"agent_executor[{check}]" for check in ("proof", "certificate", "exhaustive", "adversarial")]


def test_summary_shows_the_proof(pytester: pytest.Pytester) -> None:
    write(pytester, AGENT)
    result = result_of(pytester, "-k", "proof")
    result.stdout.fnmatch_lines(
        ["agent_executor PROVED: at most 14 transitions = 4?iterations + 2; 3 model calls; 12 tool calls"]
    )


def test_unproved_machine_fails_with_reason(pytester: pytest.Pytester) -> None:
    graph = """
        from dataclasses import dataclass
        from typing import final

        @final
        @dataclass(frozen=True)
        class Tick: pass

        @final
        @dataclass(frozen=True)
        class Tock: pass

        @node
        def tick(at: Tick) -> Tick | Tock:
            return at

        @pytest.mark.graphexec(start=Tick())
        def clock():
            return graph(edges(tick, on(Tick, tick) | on(Tock, END)), start=tick)
    """
    write(pytester, graph)
    result = result_of(pytester)
    result.assert_outcomes(failed=4)
    result.stdout.fnmatch_lines(["clock REFUTED: GX010 at tick: this loop can run forever: tick --Tick--> tick*"])


def test_the_marker_takes_the_options_of_verify_termination(pytester: pytest.Pytester) -> None:
    marked = """
        @pytest.mark.graphexec(replies={Fetch: ["", "a page"]}, limits=Limits(iterations=2), examples=5)
        def looking_up():
            routes = on(Acted, dispatch_tools) | on(AgentFinish, END) | on(LimitReached, stopped_response)
            made = executor()
            return made.with_graph(splice(made.graph, edges(look_up, routes), after=parse, on=Acted))
    """
    write(pytester, marked)
    result = result_of(pytester)
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["looking_up PROVED: at most 12 transitions*"])


def test_marked_function_takes_fixtures_and_any_name(pytester: pytest.Pytester) -> None:
    marked = """
        @pytest.fixture
        def iterations():
            return 2

        @pytest.mark.graphexec(examples=5)
        def test_agent(iterations):
            return executor().with_limits(Limits(iterations=iterations))
    """
    write(pytester, marked)
    result = result_of(pytester, "-k", "proof")
    result.stdout.fnmatch_lines(["test_agent PROVED: at most 10 transitions*2,000 tool calls*"])
    result.assert_outcomes(passed=1, deselected=3)


def test_other_tests_are_left_alone(pytester: pytest.Pytester) -> None:
    write(pytester, "def test_mine():\n    assert executor().run('q').output == 'done'")
    result = result_of(pytester)
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*= graphexec =*")


def test_the_marker_is_known_where_markers_are_strict(pytester: pytest.Pytester) -> None:
    write(pytester, AGENT)
    result_of(pytester, "--strict-markers", "-k", "proof").assert_outcomes(passed=1, deselected=3)


# ---- mistakes are reported once, in the user's terms


def test_unknown_option_is_refused(pytester: pytest.Pytester) -> None:
    marked = "@pytest.mark.graphexec(3, limit=Limits())\ndef agent():\n    return executor()\n"
    write(pytester, marked)
    result = result_of(pytester)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            "agent: @pytest.mark.graphexec takes keyword arguments only, not 3",
            "agent: @pytest.mark.graphexec has no option limit; its options are start, limits, replies, raises, "
            "examples, stateful, context, patience; did you mean limits?",
        ]
    )


def test_an_async_function_under_the_marker_is_refused(pytester: pytest.Pytester) -> None:
    write(pytester, "@pytest.mark.graphexec\nasync def agent():\n    return executor()\n")
    result = result_of(pytester)
    result.assert_outcomes(errors=1)
    text = "marks an async function; write def agent that returns an executor or a graph"
    result.stdout.fnmatch_lines([f"agent: @pytest.mark.graphexec {text}"])


@pytest.mark.parametrize(("returned", "message"), [("None", "None"), ("7", "7, of int")])
def test_non_machine_is_reported_once(pytester: pytest.Pytester, returned: str, message: str) -> None:
    write(pytester, f"@pytest.mark.graphexec\ndef agent():\n    return {returned}\n")
    result = result_of(pytester, "-r", "N")
    result.assert_outcomes(failed=4)
    lines = result.stdout.str().splitlines()
    assert lines.count(f"agent returns {message}; return an executor or a graph") == 1
    assert lines.count("agent does not return a machine: see agent[proof]") == 3


LOOPING = """
    @node
    def doubt(finish: AgentFinish) -> AgentFinish | Replied:
        return finish

    @pytest.mark.graphexec
    def agent():
        made = executor()
        rows = edges(doubt, on(AgentFinish, END) | on(Replied, parse))
        return made.with_graph(splice(made.graph, rows, after=parse, on=AgentFinish))
"""


@pytest.mark.slow
def test_build_error_is_reported_once_with_its_line(pytester: pytest.Pytester) -> None:
    write(pytester, LOOPING)
    result = result_of(pytester, "-r", "N")
    result.assert_outcomes(failed=4)
    lines = result.stdout.str().splitlines()
    assert sum("GraphError: this loop can run forever" in line for line in lines) == 1
    assert lines.count("agent raises GraphError: see agent[proof]") == 3
    assert ">       return made.with_graph(splice(made.graph, rows, after=parse, on=AgentFinish))" in lines
    # None of graphexec's own.
    assert not [line for line in lines if "surgery.py" in line or "plugin.py" in line or "def splice" in line]


CRASHING = """
    @charged(when_spent=limit_reached, asks=1)
    @node
    def approve(acted: Acted) -> Asks[AskHuman, Acted | AgentFinish]:
        answer = yield from ask(AskHuman("?"))
        return {}["bug"] if answer == "no" else acted

    @pytest.mark.graphexec
    def agent():
        made = executor()
        routes = on(Acted, dispatch_tools) | on(AgentFinish, END) | on(LimitReached, stopped_response)
        return made.with_graph(splice(made.graph, edges(approve, routes), after=parse, on=Acted))
"""


def test_raising_node_fails_without_traceback(pytester: pytest.Pytester) -> None:
    write(pytester, CRASHING)
    result = result_of(pytester, "-k", "exhaustive", "-r", "N")
    result.assert_outcomes(failed=1, deselected=3)
    result.stdout.fnmatch_lines(
        [
            "approve raises KeyError('bug'): plan --Replied--> parse, parse --Acted--> approve; the world replies "
            "calls *, replies no; raised at *test_mine.py:*; let no node raise it, or pass raises=(KeyError,)"
        ]
    )
    assert "properties.py" not in result.stdout.str()
    assert result.stdout.str().count("approve raises") == 1


# ---- which edges are taken

FINISHING = "def test_mine():\n    assert executor().run('q').output == 'done'\n"


def test_untaken_edges_are_reported(pytester: pytest.Pytester) -> None:
    write(pytester, FINISHING, "MINE = executor()\n")
    result = result_of(pytester, "--graphexec-cov")
    result.stdout.fnmatch_lines(
        [
            "STRICT_AGENT_EXECUTOR: 2 of 9 edges taken",
            "  never taken: plan --LimitReached--> stopped_response",
            "  never taken: parse --Acted--> dispatch_tools",
        ]
    )
    result.stdout.no_fnmatch_line("*never taken: plan --Replied--> parse*")


def test_standard_machine_keeps_its_name(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    from graphexec import AgentExecutor

    # As if a script had been run in this process: what README blocks leave behind, say.
    monkeypatch.setattr(sys.modules["__main__"], "left_over", AgentExecutor(agent=print, tools=[]), raising=False)
    write(pytester, FINISHING)
    result = result_of(pytester, "--graphexec-cov")
    result.stdout.fnmatch_lines(["STRICT_AGENT_EXECUTOR: 2 of 9 edges taken"])


@pytest.mark.medium
def test_edges_taken_only_by_checks_are_listed(pytester: pytest.Pytester) -> None:
    marked = "@pytest.mark.graphexec(examples=30)\ndef agent():\n    return executor()\n"
    write(pytester, FINISHING, marked)
    result = result_of(pytester, "--graphexec-cov")
    result.stdout.fnmatch_lines(
        ["agent: * of 9 edges taken", "  taken by no test of yours: parse --Acted--> dispatch_tools"]
    )


def test_untaken_edges_are_drawn_grey(pytester: pytest.Pytester) -> None:
    write(pytester, FINISHING)
    for name in ("edges.mmd", "edges.dot"):
        result_of(pytester, f"--graphexec-cov={name}").stdout.fnmatch_lines([f"  drawn in {name}"])
        assert "#b0b0b0" in (pytester.path / name).read_text()
    result_of(pytester, "--graphexec-cov=drawings")
    (drawing,) = (pytester.path / "drawings").iterdir()
    assert drawing.name == "STRICT_AGENT_EXECUTOR.mmd"


def test_a_session_in_which_nothing_runs_says_so(pytester: pytest.Pytester) -> None:
    write(pytester, "def test_nothing(): pass")
    result_of(pytester, "--graphexec-cov").stdout.fnmatch_lines(["no run of any graph was seen"])


def test_without_the_flag_nothing_is_recorded(pytester: pytest.Pytester) -> None:
    from graphexec.kernel.execution import Execution

    before = Execution.run
    write(
        pytester,
        "from graphexec.kernel.execution import Execution\n"
        "def test_path():\n    assert Execution.run.__module__ == Execution.__module__",
    )
    result_of(pytester).assert_outcomes(passed=1)
    write(
        pytester,
        "from graphexec.kernel.execution import Execution\n"
        "def test_path():\n    assert Execution.run.__module__ != Execution.__module__",
    )
    result_of(pytester, "--graphexec-cov").assert_outcomes(passed=1)
    assert Execution.run is before


# ---- what it costs, and the README's own test


def test_the_plugin_loads_nothing_heavy() -> None:
    program = "import sys, pytest, graphexec; before = {*sys.modules}; import graphexec.testing.plugin; "
    program += "print(*{*sys.modules} - before)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert sorted(loaded) == ["graphexec.testing", "graphexec.testing.plugin"]


def test_hypothesis_is_imported_on_first_use() -> None:
    program = """
import sys
sys.modules["hypothesis"] = None
import graphexec.testing as testing
for name in testing.__all__:
    try:
        getattr(testing, name)
    except ImportError:
        print(name)
try:
    testing.nothing
except AttributeError as error:
    print(error)
"""
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    assert output == [
        "agent_scripts",
        "drawn_graphs",
        "executor_machine",
        "graphs",
        "limits",
        "time_limits",
        "module graphexec.testing has no attribute nothing",
        "",
    ]


@pytest.mark.slow
def test_spin_gives_the_same_verdict(pytester: pytest.Pytester) -> None:
    from graphexec.testing import spin_checker as spin

    if not spin.is_installed():
        pytest.skip("SPIN is missing: apt-get install spin tcc")
    write(pytester, AGENT)
    result_of(pytester, "-k", "spin").assert_outcomes(passed=1, deselected=4)
