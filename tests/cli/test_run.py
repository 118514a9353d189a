"""`graphexec run`: the trace, the answer, the records and the exit codes."""

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conversations import Conversation, Reply, Silence, answer_text, native_tool_call, serving, tool_call_text
from tests.cli.machines_of_mine import lay_out
from tests.cli.terminals import ARGUMENTS, PATIENCE, Ended, Program, command, environment, program, refused
from tests.parameters import cases, read_tables

TOOLS: str = read_tables(__file__)["tools"]

QUESTION = "What is 37 * 48?"
SOLVED: list[Reply] = [tool_call_text("calculator", expression="37 * 48"), answer_text("37 * 48 is 1776.")]
DONE = answer_text("done")


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    return str(lay_out(tmp_path, monkeypatch, {"tools_of_mine": TOOLS}) / "tools_of_mine.py")


def asking(server: Conversation, *options: str, question: str = QUESTION) -> tuple[str, ...]:
    return ("run", question, "--model", "small", "--base-url", server.url, "--agent", "structured", *options)


def run(replies: Sequence[Reply], *options: str) -> Ended:
    with serving(replies) as server:
        return command(*asking(server, *options))


def use(*names: str) -> list[str]:
    return [option for name in names for option in ("--tools", f"tools_of_mine:{name}")]


def records(ended: Ended) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ended.out.splitlines()]


NATIVE = ["--agent", "tool_calling"]
THOUGHT = "I must multiply.\nAction: calculator\nAction Input: 37 * 48"
MOVES = [
    *("structured agent", "1 plan                → Replied", "100 + 10 tokens", "→ AgentFinish", "2 plan"),
    'parse               → Acted           calculator(expression="37 * 48")',
    *("dispatch_tools      → Observed        1776", "check_return_direct → Ready"),
    "2 iterations · 2 model calls · 1 tool call · 220 tokens (200 + 20) · ",
]
UNREAD = ["the reply could not be parsed: I would say 1776", "sent to the model: Your reply could not be read"]
# Replies, options, the answer, and parts of the trace.
TRACED: list[tuple[list[Reply], list[str], str, list[str]]] = [
    (SOLVED, [], "37 * 48 is 1776.", MOVES),
    (["I would say 1776", answer_text("1776")], [], "1776", UNREAD),
    ([tool_call_text("shaky"), DONE], use("shaky"), "done", ["   attempt 1 of shaky failed with OSError: try again"]),
    ([tool_call_text("shout"), DONE], use("shout"), "done", ["a tool prints"]),
    ([tool_call_text("direct")], use("direct"), "directly", ["the tool's result is the answer"]),
    (
        [THOUGHT, "I know.\nFinal Answer: 1776"],
        ["--agent", "react"],
        "1776",
        ["I must multiply.", 'calculator("37 * 48")'],
    ),
]


@pytest.mark.medium
@pytest.mark.usefixtures("tools")
@cases(("replies", "options", "answer", "parts"), *TRACED)
def test_trace_is_beside_the_answer(replies: list[Reply], options: list[str], answer: str, parts: list[str]) -> None:
    ended = run(replies, *options)
    assert (ended.code, ended.out) == (0, f"{answer}\n")
    for part in parts:
        assert part in ended.err


@pytest.mark.medium
def test_answer_stands_alone_or_between_trace_and_cost() -> None:
    assert run(SOLVED, "--quiet") == Ended(0, "37 * 48 is 1776.\n", "")
    apart = run(SOLVED)
    assert apart.err.count("\n\n") == 2
    assert "\n\n\n" not in apart.err
    into_one: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "timeout": PATIENCE}
    with serving(SOLVED) as server:
        arguments = [*ARGUMENTS, *asking(server)]
        together = subprocess.run(arguments, check=True, encoding="utf-8", env=environment(), **into_one).stdout
    assert "\n\n37 * 48 is 1776.\n\n2 iterations" in together


@pytest.mark.medium
def test_tools_may_print_and_fail(tools: str) -> None:
    answer = answer_text("\x1b]0;owned\x07[red]1776[/red]\x9b2J \x1b[1mbold\x1b[0m\r\u202e")
    ended = run([tool_call_text("shout"), answer], *use("shout"))
    assert ended.out == "[red]1776[/red] bold\n"
    assert "[bold]x[/bold] red backwards" in ended.err
    assert not any(sign in ended.out + ended.err for sign in "\x1b\x07\x9b\u202e\r")
    ended = run([tool_call_text("pages"), DONE], *use("pages"))
    assert ended.err.count("line") < 20
    assert "more characters; --json has them" in ended.err
    ended = run([tool_call_text("shout"), DONE], "--tools", f"{tools}:several")
    assert ended.code == 0
    assert "wait, shout" in ended.err
    ended = run([tool_call_text("fail")], *use("fail"))
    assert (ended.code, ended.out) == (1, "")
    assert re.search(r"graphexec: RuntimeError: the disk is on fire \(tools_of_mine.py, line \d+\)\n", ended.err)
    assert "1 tool call" in ended.err
    assert "Traceback" not in ended.err
    ended = run([tool_call_text("fail")], *use("fail"), "--debug")
    assert ended.code == 1
    for part in ("Traceback (most recent call last)", 'raise RuntimeError("the disk'):
        assert part in ended.err


def test_native_tool_calls_are_traced() -> None:
    with serving([native_tool_call("calculator", expression="37 * 48"), "It is 1776."]) as server:
        ended = command(*asking(server, *NATIVE))
        names = [tool["function"]["name"] for tool in server.asked[0]["tools"]]
    assert names == ["calculator", "today"]
    assert (ended.code, ended.out) == (0, "It is 1776.\n")
    assert "tool_calling agent" in ended.err
    assert 'calculator(expression="37 * 48")' in ended.err
    both = native_tool_call("calculator", expression="1 + 1")
    both["content"] = "Let me see."
    other = native_tool_call("calculator", expression="2 + 0")
    both["tool_calls"].append({**other["tool_calls"][0], "id": "2"})
    ended = run([both, "done"], *NATIVE)
    assert ended.code == 0
    assert ended.err.count("Let me see.") == 1
    assert [ended.err.count(f'calculator(expression="{one}")') for one in ("1 + 1", "2 + 0")] == [1, 1]
    assert len(re.findall(r"calculator (?:under 1 ms|\d+ ms|\d\.\d\d s): 2", ended.err)) == 2


@pytest.mark.medium
@cases(
    ("limit", "shown"),
    ("iterations=1", "1 iteration"),
    ("iterations=0", "0 iterations"),
    ("model_calls=1", "1 model call"),
    ("tool_calls=0", "0 tool calls"),
    ("tokens=50", "50 tokens"),
    ("seconds=0", "0 seconds"),
)
def test_limit_stops_the_run_without_an_answer(limit: str, shown: str) -> None:
    ended = run([tool_call_text("calculator", expression="1")] * 3, "--limit", limit)
    assert (ended.code, ended.out) == (3, "")
    assert f"limit of {shown} was reached" in ended.err
    assert f"allow more with --limit {limit.partition('=')[0]}=" in ended.err


@pytest.mark.medium
def test_deadline_cuts_a_blocked_tool(tools: str) -> None:
    with serving([tool_call_text("wait")]) as server:
        ended = program(*asking(server, *use("wait"), "--limit", "seconds=0.3"), cwd=Path(tools).parent)
    assert (ended.code, ended.out) == (3, "")
    assert "limit of 0.3 seconds was reached" in ended.err


def test_json_has_one_valid_record_per_event(tools: str) -> None:
    ended = run(SOLVED, "--json")
    trace = records(ended)
    assert (ended.code, ended.err) == (0, "")
    assert [record["event"] for record in trace][:5] == ["start", "entered", "asked", "answered", "moved"]
    assert [tool["name"] for tool in trace[0]["tools"]] == ["calculator", "today"]
    moves = [(record["node"], record["outcome"], record["target"]) for record in trace if record["event"] == "moved"]
    assert moves[:2] == [("plan", "Replied", "avoid_dummies"), ("avoid_dummies", "Replied", "answer_repeats")]
    facts = ("event", "status", "exit_code", "output", "reason")
    assert [trace[-1][one] for one in facts] == ["result", "answered", 0, "37 * 48 is 1776.", "finished"]
    called = {"tool": "calculator", "tool_input": {"expression": "37 * 48"}}
    assert trace[-1]["steps"] == [{**called, "observation": "1776", "status": "ok", "error": None}]
    assert trace[-1]["spent"]["tokens"] == 220

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    replies = [tool_call_text("nothing"), tool_call_text("shout"), answer_text("\ud800 done")]
    ended = run(replies, "--json", *use("nothing", "shout"))
    trace = [json.loads(line, parse_constant=refuse) for line in ended.out.splitlines()]
    assert trace[-1]["exit_code"] == 0
    assert "\x1b[31m" in trace[-1]["steps"][1]["observation"]
    assert ended.out.isascii()


@pytest.mark.medium
@pytest.mark.usefixtures("tools")
@cases(
    ("options", "code", "status"),
    (["--max-iterations", "1"], 3, "stopped"),
    (use("fail"), 1, "error"),
    (use("plain"), 2, "usage"),
    (["--no-such-option"], 2, "usage"),
    (["--max-iterations", "many"], 2, "usage"),
    (["--limit", "seconds=inf"], 2, "usage"),
)
def test_json_includes_errors(options: list[str], code: int, status: str) -> None:
    ended = run([tool_call_text("fail")], "--json", *options)
    result = records(ended)[-1]
    assert (ended.code, result["event"], result["exit_code"], result["status"]) == (code, "result", code, status)
    assert status == "stopped" or result["error"]["message"]


NO_SCHEME = "--base-url begins with neither http:// nor https://; write"
WRONG = [
    (use(""), "'tools_of_mine:' does not name an object; write module:object"),
    (["--tools", "tols_of_mine:wait"], "there is no module tols_of_mine here, nor is it installed"),
    (use("wat"), "tools_of_mine has no wat; did you mean wait?"),
    (use("plain"), "plain is not a tool or a list of tools: len is a builtin function, without annotations"),
    (use("numbers"), "a list of tools: 1 is not a tool; decorate the function with @tool"),
    (use("none"), "tools_of_mine:none is an empty list"),
    (["--tools", "tool_of_mine.py:wait"], "there is no file tool_of_mine.py; check its name, and the folder"),
    (["--tools", "broken:wait"], "broken cannot be imported: ZeroDivisionError: division by zero (broken.py, line 1)"),
    (["--tools", "leaves:wait"], "leaves cannot be imported: SystemExit: 7"),
    (["--tools", "needs:wait"], "needs cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
    (use("several", "wait"), "two tools are named wait"),
    (["--base-url", "http://127.0.0.1:9/v1"], "--base-url needs the name of a model"),
    (["--model", "m", "--base-url", "127.0.0.1:9/v1"], NO_SCHEME),
    (["--model", "m", "--base-url", ""], NO_SCHEME),
    (["--agent", "structred"], "Invalid value for '--agent': 'structred' is not one of"),
    (["--limit", "seconds=inf"], "the limit seconds is infinite; give None for no limit"),
    (["--max-iterations", "-1"], "--max-iterations"),
    (["--nonsense"], "--nonsense"),
    (["another question"], f"{QUESTION!r} is not a target such as my_agent.py:executor; write the question in quotes"),
]


@pytest.mark.usefixtures("tools")
@cases(("options", "expected"), *WRONG)
def test_wrong_usage_is_one_line_and_exits_2(options: list[str], expected: str) -> None:
    for name, text in (("broken", "1 / 0\n"), ("leaves", "raise SystemExit(7)\n"), ("needs", "import nowhere\n")):
        Path(f"{name}.py").write_text(text, encoding="utf-8")
    assert expected in refused("run", QUESTION, *options)


@cases("question", "", "  \n")
def test_empty_question_is_wrong_usage(question: str) -> None:
    ended = command("run", question)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert "it is empty; write a question, in quotes" in ended.err
    trace = records(command("run", question, "--json"))
    assert [(record["event"], record["status"]) for record in trace] == [("result", "usage")]


NOWHERE = ["--base-url", "http://127.0.0.1:9/v1", "--retries", "0"]
SECRET = ["--base-url", "http://me:password@127.0.0.1:9/v1", "--retries", "0"]


@pytest.mark.medium
@cases(
    ("options", "fact"),
    (NOWHERE, "change the base URL (given, or in OPENAI_BASE_URL)"),
    ([*NOWHERE, "--quiet"], "no connection to"),
    ([], "set OPENAI_API_KEY to it"),
    (SECRET, "gpt-9 at 127.0.0.1:9 "),
)
def test_model_errors_have_no_class_names(options: list[str], fact: str) -> None:
    ended = command("run", QUESTION, "--model", "gpt-9", *options)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.count("\n") == 1 or "--quiet" not in options
    assert fact in ended.err
    hidden = ("base_url", "api_key", "max_retries", "path=", "password")
    assert not any(name in ended.err for name in hidden)


PENDING: list[Reply] = [tool_call_text("calculator", expression="37 * 48"), Silence()]


@pytest.mark.medium
@cases("quiet", False, True)
def test_ctrl_c_ends_a_pending_model_call(quiet: bool) -> None:
    with serving(PENDING) as server, Program(*asking(server, *["--quiet"] * quiet)) as running:
        assert server.waiting.wait(PATIENCE)
        ended = running.interrupt()
    assert (ended.code, ended.out) == (130, "")
    assert "Interrupted at plan, after 1 step" in ended.err
    assert quiet or "2 iterations · 2 model calls · 1 tool call · 110 tokens" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.medium
@cases("deadline", [], ["--limit", "seconds=600"])
def test_ctrl_c_ends_a_blocked_tool(tools: str, deadline: list[str]) -> None:
    arguments = (*use("wait"), *deadline)
    folder = Path(tools).parent
    with serving([tool_call_text("wait")]) as server, Program(*asking(server, *arguments), cwd=folder) as running:
        running.until("the tool waits")
        ended = running.interrupt()
    assert (ended.code, ended.out) == (130, "")
    assert "Interrupted at dispatch_tools, after 0 steps" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.medium
def test_ctrl_c_is_recorded() -> None:
    with serving(PENDING) as server, Program(*asking(server, "--json")) as running:
        assert server.waiting.wait(PATIENCE)
        ended = running.interrupt()
    result = records(ended)[-1]
    assert (ended.code, result["status"], result["exit_code"]) == (130, "interrupted", 130)
    assert result["steps"][0]["observation"] == "1776"
    assert result["spent"]["model_calls"] == 2


@pytest.mark.slow
def test_ctrl_c_ends_a_download(tmp_path: Path) -> None:
    for arguments in (["models", "pull", "smollm2-135m-instruct"], ["run", QUESTION]):
        with serving([]) as index:
            index_url = index.url.replace("/v1", "/simple")
            more = {"GRAPHEXEC_CACHE": str(tmp_path), "PIP_INDEX_URL": index_url, "PIP_CONFIG_FILE": "/dev/null"}
            more = {**more, "PIP_EXTRA_INDEX_URL": "", "PIP_FIND_LINKS": ""}
            with Program(*arguments, more=more) as running:
                assert index.waiting.wait(PATIENCE)
                ended = running.interrupt()
        assert (ended.code, ended.out) == (130, "")
        assert "graphexec: interrupted" in ended.err
        assert "Traceback" not in ended.err


@pytest.mark.medium
@cases("pipe", "graphexec run --json 2>&1 | head -1", "graphexec run 2>&1 | head -1", "graphexec draw | true")
def test_closed_pipe_prints_no_error(pipe: str) -> None:
    with serving(SOLVED) as server:
        arguments = asking(server) if "run" in pipe else ("draw",)
        command_line = [*ARGUMENTS, *arguments, *["--json"] * ("--json" in pipe)]
        err = subprocess.STDOUT if "2>&1" in pipe else subprocess.PIPE
        with subprocess.Popen(command_line, stdout=subprocess.PIPE, stderr=err, env=environment()) as process:
            assert process.stdout is not None
            if "head" in pipe:
                process.stdout.readline()
            process.stdout.close()
            assert process.wait(PATIENCE) == 141
            assert process.stderr is None or process.stderr.read() == b""


@pytest.mark.medium
def test_narrow_terminal_shows_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    ended = run(SOLVED)
    assert ended.code == 0
    rows = ended.err.partition("\n\n")[2].partition("\n\n")[0].splitlines()
    assert len(rows) > 8
    assert all(len(line) <= 30 for line in rows)
    assert "check_return_direct → Ready" in ended.err
    assert "1776" in ended.err


@pytest.mark.local_model
def test_local_model_answers_the_first_question() -> None:
    for phrasing in (QUESTION, "What's 37 times 48?", "Calculate 37 x 48"):
        ended = program("run", phrasing)
        assert ended.code == 0, ended.err
        assert "1776" in ended.out, ended.err
        assert "calculator(expression=" in ended.err


@pytest.mark.local_model
def test_ctrl_c_ends_a_local_model_run() -> None:
    with Program("run", QUESTION) as running:
        running.until("structured agent")
        ended = running.interrupt()
    assert ended.code == 130
    assert "Traceback" not in ended.err
