"""`graphexec run TARGET QUESTION`: executors and tools of the user, and questions from standard input."""

import io
import json
import sys
from pathlib import Path

import pytest

from graphexec.cli.exit_codes import UsageError
from graphexec.cli.targets import tools_at
from tests.cli.conversations import serving
from tests.cli.machines_of_mine import lay_out
from tests.cli.terminals import command, refused
from tests.kernel.machines import error_message
from tests.parameters import cases, read_tables


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "package_of_mine").mkdir()
    (tmp_path / "package_of_mine" / "__init__.py").touch()
    lay_out(tmp_path, monkeypatch, read_tables(__file__))
    for name in ("package_of_mine", "package_of_mine.agents"):
        monkeypatch.setitem(sys.modules, name, sys)
        monkeypatch.delitem(sys.modules, name)


def pipe(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="ascii"))


@pytest.mark.parametrize(
    "target", ["mine.py:executor", "mine:executor", "package_of_mine.agents:executor", "mine:make"]
)
def test_own_executor_answers(target: str) -> None:
    ended = command("run", target, "who is there?")
    assert (ended.code, ended.out) == (0, "WHO IS THERE?\n"), ended.err
    assert "a module prints" in ended.err


@cases(
    ("arguments", "answer"),
    (["alone.py", "hello"], "HELLO"),
    # The only input has any name; others are named.
    (["mine.py:topical", "bees"], "about {topic}"),
    (["mine.py:styled", "bees", "--input", "style=short"], "both"),
)
def test_quiet_executor_prints_its_answer(arguments: list[str], answer: str) -> None:
    ended = command("run", *arguments, "--quiet")
    assert (ended.code, ended.out) == (0, f"{answer}\n"), ended.err


def test_own_executor_is_recorded() -> None:
    ended = command("run", "mine.py:executor", "hello", "--json", "--record", "trace.jsonl")
    assert ended.code == 0
    for records in (ended.out, Path("trace.jsonl").read_text(encoding="utf-8")):
        assert json.loads(records.splitlines()[-1])["output"] == "HELLO"
    ended = command("run", "mine.py:styled", "--input", "style=short", "--input", "topic=bees", "--json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out.splitlines()[0])["input"] == {"style": "short", "topic": "bees"}


@cases(
    ("options", "expected"),
    (["--max-iterations", "2"], "the limit of 2 iterations was reached"),
    (["--limit", "iterations=3"], "the limit of 3 iterations was reached"),
    (["--limit", "model_calls=1"], "the limit of 1 model call was reached"),
    ([], "the limit of 9 iterations was reached"),
)
def test_limits_apply_to_an_own_executor(options: list[str], expected: str) -> None:
    ended = command("run", "mine.py:looping", "go on", *options)
    assert (ended.code, ended.out) == (3, "")
    assert expected in ended.err


OWN = ["mine.py:executor", "q"]
TOOLS_OPTIONS = ["--tools", "mine:think", "--temperature", "0"]


@pytest.mark.medium
@cases(
    ("arguments", "expected"),
    ([*OWN, "--model", "small"], "mine.py:executor has settings of its own; leave out --model, or change mine.py\n"),
    ([*OWN, *TOOLS_OPTIONS], "has settings of its own; leave out --temperature and --tools, or change mine.py"),
    ([*OWN, "--memory", "talk.db"], "mine.py:executor has settings of its own; leave out --memory"),
    ([*OWN, "--limit", "iteration=3"], "iteration is not a limit of this machine; did you mean iterations?"),
    ([*OWN, "--max-iterations=1", "--limit=iterations=3"], "the limit iterations is set twice"),
    (["mine.py:machine", "q"], "mine.py:machine is a graph, which has no agent to answer; name an executor, such"),
    (["mine.py:makes_graph", "q"], "mine.py:makes_graph() is a graph, which has no agent"),
    (["mine.py:react", "q"], "mine.py:react is an Agent, not an executor; name an AgentExecutor in mine.py"),
    (["mine.py:number", "q"], "mine.py:number is an int, not an executor; name an AgentExecutor in mine.py"),
    (["mine.py:Class", "q"], "mine.py:Class is the class AgentExecutor, not an executor; name an AgentExecutor"),
    (["mine.py:needs", "q"], "mine.py:needs has parameters (missing a required argument: 'model'); name an"),
    (["mine.py:fails", "q"], "mine.py:fails() raised RuntimeError: no key (mine.py, line "),
    (["mine.py:later", "q"], "mine.py:later is a coroutine function; name an executor"),
    (["mine.py:executr", "q"], "mine.py has no executr; did you mean executor"),
    (["mine.py", "q"], "mine.py has 4 executors; name mine.py:"),
    (["nothing.py:executor", "q"], "there is no file nothing.py"),
    (["nothing.py:executor"], "there is no file nothing.py"),
    (["nothing:executor", "q"], "there is no module nothing here"),
    (["who is there?", "mine.py:executor"], "the target stands before the question; write graphexec run mine.py"),
    (["two", "words"], "'two' is not a target such as my_agent.py:executor; write the question in quotes"),
    (["What", "is", "2+2?"], "Got unexpected extra arguments (is 2+2?); write the question in quotes"),
    (["mine.py:styled", "q"], "has the inputs topic, style, and the question is one; add --input style=..."),
    (["mine.py:styled", "--input", "style=s"], "mine.py:styled lacks the input topic; add --input topic=..."),
    (["mine.py:styled", "q", "--input=stile=s"], "--input stile is not an input of mine.py:styled; did you mean"),
    (["mine.py:topical", "q", "--input", "topic=s"], "--input topic and the question are the same input of mine"),
    (["mine.py:topical", "q", "--input", "topic"], "--input topic has no value; write --input NAME=TEXT"),
    (["q", "--input", "topic=x"], "--input is for an executor of your own, and there is no target; leave it out"),
)
def test_wrong_target_is_one_line_and_exits_2(arguments: list[str], expected: str) -> None:
    ended = command("run", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert len([line for line in ended.err.splitlines() if "prints" not in line]) == 1, ended.err
    assert expected in ended.err


def ask(*arguments: str) -> str:
    """Run the built-in agent with a model that says yes; return the question that it was asked."""
    with serving(["yes"]) as server:
        options = ("--model", "m", "--base-url", server.url, "--agent", "tool_calling", "--quiet")
        ended = command("run", *arguments, *options)
    assert (ended.code, ended.out) == (0, "yes\n"), ended.err
    return str(server.asked[0]["messages"][-1]["content"])


@pytest.mark.medium
@cases("question", "mine.py", "What does mine.py:executor do?", "ollama:qwen3", "see mine.py")
def test_one_argument_that_names_no_executor_is_a_question(question: str) -> None:
    Path("mine.py").unlink(missing_ok=True)
    assert ask(question) == question


@pytest.mark.medium
def test_question_is_read_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe(monkeypatch, b"word \xe2\x86\x92 " * 200_000)
    assert ask("-") == ("word \u2192 " * 200_000).strip()
    pipe(monkeypatch, b"")
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    for arguments in (["-"], ["mine.py:executor"]):
        *before, last = command("run", *arguments).err.splitlines()
        assert "graphexec: write the question, and end it with Ctrl-D on a line of its own" in before
        assert "the standard input is empty" in last


@cases("arguments", ["mine.py:executor"], ["mine.py:executor", "-"])
def test_target_reads_the_question_from_a_pipe(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    pipe(monkeypatch, b"\xef\xbb\xbfna\xc3\xafve\r\n")
    ended = command("run", *arguments, "--quiet")
    assert (ended.code, ended.out) == (0, "NA\u00cfVE\n"), ended.err


@cases(
    ("content", "expected"),
    (b"", "the standard input is empty; write the question into it"),
    (b"\xef\xbb\xbf \n\t", "the standard input is empty"),
    (b"caf\xe9", "the standard input is not UTF-8: byte 4 is invalid; write the question in UTF-8"),
    ("What?".encode("utf-16"), "the standard input is not UTF-8: byte 1 is invalid"),
)
def test_invalid_standard_input_is_wrong_usage(monkeypatch: pytest.MonkeyPatch, content: bytes, expected: str) -> None:
    pipe(monkeypatch, content)
    assert expected in refused("run", "-")
    pipe(monkeypatch, content)
    assert json.loads(command("run", "-", "--json").out)["status"] == "usage"


# ---- references to tools


FOUND = {
    "plain_functions:weather": ["weather"],
    "plain_functions.py:several": ["weather", "price"],
    "plain_functions:price": ["price"],
    "shop_of_mine:shop": ["price"],
    # The tools of a module are those that it defines, and else those that it imports.
    "shop_of_mine": ["weather"],
    "shop_of_mine.py": ["weather"],
    "only_imports": ["wait"],
}


@cases("reference", *FOUND)
def test_functions_and_modules_are_tools(reference: str) -> None:
    assert [tool.name for tool in tools_at(reference)] == FOUND[reference]


NO_TOOLS = "has no tools; write @tool above its functions, or name a function"
NOT_TOOLS = "is not a tool or a list of tools: "
# A reference, and the error after it.
WRONG = {
    **dict.fromkeys(("plain_functions", "plain_functions.py", "no_functions"), NO_TOOLS),
    "plain_functions:untyped": f"{NOT_TOOLS}untyped does not annotate city; write city: str, say",
    "plain_functions:silent": f"{NOT_TOOLS}silent has no docstring, so no model knows what it does; write one line",
    "plain_functions:number": f"{NOT_TOOLS}int has no tools; write @tool above the functions that a model may call",
    "./plain_functions": "is neither a module nor a Python file; write module:object or file.py:object",
    "plain_functions:none": "is an empty tuple; name a tool or a list of tools",
}


@cases("reference", *WRONG)
def test_reference_without_tools_gets_the_remedy(reference: str) -> None:
    assert error_message(UsageError, tools_at, reference) == f"{reference} {WRONG[reference]}"


@cases("reference", "plain_functions.weather", "plain_functions.weather:x")
def test_dot_before_an_object_gets_the_remedy(reference: str) -> None:
    remedy = r"no module plain_functions\.weather .*; did you mean plain_functions:weath"
    with pytest.raises(UsageError, match=remedy):
        tools_at(reference)


def test_executor_is_no_tool() -> None:
    with pytest.raises(UsageError, match=r"is not a tool; write executor\.as_tool\(name, description\)"):
        tools_at("plain_functions:executor")
