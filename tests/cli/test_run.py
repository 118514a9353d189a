"""`graphexec run`: the trace, the answer, the records and the exit codes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conversations import Conversation, Reply, Silence, answer_text, native_tool_call, serving, tool_call_text
from tests.cli.terminals import ARGUMENTS, PATIENCE, Ended, Program, command, environment, program
from tests.parameters import cases

QUESTION = "What is 37 * 48?"
SOLVED: list[Reply] = [tool_call_text("calculator", expression="37 * 48"), answer_text("37 * 48 is 1776.")]

TOOLS = """
import threading
from graphexec import tool

@tool
def wait() -> str:
    "Wait without end."
    print("the tool waits", flush=True)
    threading.Event().wait()
    return ""

@tool
def shout() -> str:
    "Print something."
    print("a tool prints")
    return "[bold]x[/bold] \\x1b[31mred\\x1b[0m \\x1b]0;title\\x07\\u202ebackwards"

@tool
def pages() -> str:
    "Return a lot."
    return "line\\n" * 1000

@tool
def nothing() -> float:
    "Return not a number."
    return float("nan")

@tool(return_direct=True)
def direct() -> str:
    "Answer."
    return "directly"

@tool(on_error="raise")
def fail() -> str:
    "Raise."
    raise RuntimeError("the disk\\nis on fire")

@tool(retries=1)
def shaky() -> str:
    "Fail the first time."
    if not failures:
        failures.append(1)
        raise OSError("try again")
    return "done"

failures = []
several = [wait, shout]
plain = len
numbers = [1, 2]
none = []
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "tools_of_mine.py").write_text(TOOLS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return str(tmp_path / "tools_of_mine.py")


def asking(server: Conversation, *options: str) -> tuple[str, ...]:
    return ("run", QUESTION, "--model", "small", "--base-url", server.url, "--agent", "structured", *options)


def records(ended: Ended) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ended.out.splitlines()]


@pytest.mark.usefixtures("tools")
def test_retries_are_traced(capsys: pytest.CaptureFixture[str]) -> None:
    with serving([tool_call_text("shaky"), answer_text("done")]) as server:
        ended = command(capsys, *asking(server, "--tools", "tools_of_mine:shaky"))
    assert ended.code == 0
    assert "   attempt 1 of shaky failed with OSError: try again" in ended.err


def test_answer_and_trace_have_separate_streams(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(SOLVED) as server:
        ended = command(capsys, *asking(server))
    assert ended.code == 0
    assert ended.out == "37 * 48 is 1776.\n"
    for piece in (
        "structured agent",
        "1 plan                → Replied",
        "100 + 10 tokens",
        'parse               → Acted           calculator(expression="37 * 48")',
        "dispatch_tools      → Observed        1776",
        "check_return_direct → Ready",
        "2 plan",
        "→ AgentFinish",
        "2 iterations · 2 model calls · 1 tool call · 220 tokens (200 + 20) · ",
    ):
        assert piece in ended.err


def test_quiet_prints_only_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(SOLVED) as server:
        ended = command(capsys, *asking(server, "--quiet"))
    assert (ended.code, ended.out, ended.err) == (0, "37 * 48 is 1776.\n", "")


def test_unparsable_reply_is_traced(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(["I would say 1776", answer_text("1776")]) as server:
        ended = command(capsys, *asking(server))
    assert ended.code == 0
    assert "the reply could not be parsed: I would say 1776" in ended.err
    assert "sent to the model: Your reply could not be read" in ended.err


def test_untrusted_text_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str], tools: str) -> None:
    expected = answer_text("\x1b]0;owned\x07[red]1776[/red]\x9b2J \x1b[1mbold\x1b[0m\r\u202e")
    with serving([tool_call_text("shout"), expected]) as server:
        ended = command(capsys, *asking(server, "--tools", "tools_of_mine:shout"))
    assert ended.out == "[red]1776[/red] bold\n"
    assert "[bold]x[/bold] red backwards" in ended.err
    assert not any(sign in ended.out + ended.err for sign in "\x1b\x07\x9b\u202e\r")


def test_output_of_tools_goes_to_stderr(capsys: pytest.CaptureFixture[str], tools: str) -> None:
    with serving([tool_call_text("shout"), answer_text("done")]) as server:
        ended = command(capsys, *asking(server, "--tools", "tools_of_mine:shout"))
    assert ended.out == "done\n"
    assert "a tool prints" in ended.err


def test_long_observation_is_shortened(capsys: pytest.CaptureFixture[str], tools: str) -> None:
    with serving([tool_call_text("pages"), answer_text("done")]) as server:
        ended = command(capsys, *asking(server, "--tools", "tools_of_mine:pages"))
    assert ended.err.count("line") < 20
    assert "more characters; --json has them" in ended.err


def test_native_tool_call_is_traced(capsys: pytest.CaptureFixture[str]) -> None:
    with serving([native_tool_call("calculator", expression="37 * 48"), "It is 1776."]) as server:
        ended = command(
            capsys, "run", QUESTION, "--model", "small", "--base-url", server.url, "--agent", "tool_calling"
        )
        assert [tool["function"]["name"] for tool in server.asked[0]["tools"]] == [
            "calculator",
            "convert_units",
            "today",
        ]
    assert (ended.code, ended.out) == (0, "It is 1776.\n")
    assert "tool_calling agent" in ended.err
    assert 'calculator(expression="37 * 48")' in ended.err


def test_text_of_several_calls_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    both = native_tool_call("calculator", expression="1 + 1")
    both["content"] = "Let me see."
    other = native_tool_call("calculator", expression="2 + 0")
    both["tool_calls"].append({**other["tool_calls"][0], "id": "2"})
    with serving([both, "done"]) as server:
        ended = command(
            capsys, "run", QUESTION, "--model", "small", "--base-url", server.url, "--agent", "tool_calling"
        )
    assert ended.code == 0
    assert ended.err.count("Let me see.") == 1
    assert [ended.err.count(f'calculator(expression="{one}")') for one in ("1 + 1", "2 + 0")] == [1, 1]
    assert len(re.findall(r"calculator (?:under 1 ms|\d+ ms|\d\.\d\d s): 2", ended.err)) == 2


def test_thoughts_of_react_agents_are_traced(capsys: pytest.CaptureFixture[str]) -> None:
    thought = "I must multiply.\nAction: calculator\nAction Input: 37 * 48"
    with serving([thought, "I know.\nFinal Answer: 1776"]) as server:
        ended = command(capsys, *asking(server), "--agent", "react")
    assert (ended.code, ended.out) == (0, "1776\n")
    assert "I must multiply." in ended.err
    assert 'calculator("37 * 48")' in ended.err


def test_direct_result_is_the_answer(capsys: pytest.CaptureFixture[str], tools: str) -> None:
    with serving([tool_call_text("direct")]) as server:
        ended = command(capsys, *asking(server, "--tools", "tools_of_mine:direct"))
    assert (ended.code, ended.out) == (0, "directly\n")
    assert "the tool's result is the answer" in ended.err


@cases(
    ("option", "expected"),
    [
        ("--max-iterations=1", "limit of 1 iteration was reached"),
        ("--max-iterations=0", "limit of 0 iterations was reached"),
        ("--max-model-calls=1", "limit of 1 model call was reached"),
        ("--max-tool-calls=0", "limit of 0 tool calls was reached"),
        ("--max-tokens=50", "limit of 50 tokens was reached"),
        ("--max-seconds=0", "limit of 0 seconds was reached"),
    ],
)
def test_limit_stops_the_run_without_an_answer(capsys: pytest.CaptureFixture[str], option: str, expected: str) -> None:
    with serving([tool_call_text("calculator", expression="1")] * 3) as server:
        ended = command(capsys, *asking(server, option))
    assert (ended.code, ended.out) == (3, "")
    assert expected in ended.err
    assert f"allow more with {option.partition('=')[0]}" in ended.err


def test_deadline_cuts_a_blocked_tool(tools: str) -> None:
    with serving([tool_call_text("wait")]) as server:
        options = ("--tools", "tools_of_mine:wait", "--max-seconds", "0.3")
        ended = program(*asking(server, *options), cwd=Path(tools).parent)
    assert (ended.code, ended.out) == (3, "")
    assert "limit of 0.3 seconds was reached" in ended.err


def test_error_is_one_line_after_the_trace(capsys: pytest.CaptureFixture[str], tools: str) -> None:
    with serving([tool_call_text("fail")]) as server:
        ended = command(capsys, *asking(server, "--tools", "tools_of_mine:fail"))
    assert (ended.code, ended.out) == (1, "")
    assert re.search(r"graphexec: RuntimeError: the disk is on fire \(tools_of_mine.py, line \d+\)\n", ended.err)
    assert "1 tool call" in ended.err
    assert "Traceback" not in ended.err


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str], tools: str) -> None:
    with serving([tool_call_text("fail")]) as server:
        ended = command(capsys, *asking(server, "--tools", "tools_of_mine:fail", "--debug"))
    assert ended.code == 1
    assert "Traceback (most recent call last)" in ended.err
    assert 'raise RuntimeError("the disk' in ended.err


def test_json_has_one_record_per_event(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(SOLVED) as server:
        ended = command(capsys, *asking(server, "--json"))
    trace = records(ended)
    assert (ended.code, ended.err) == (0, "")
    assert [record["event"] for record in trace][:5] == ["start", "entered", "asked", "answered", "moved"]
    assert [tool["name"] for tool in trace[0]["tools"]] == ["calculator", "convert_units", "today"]
    moves = [(record["node"], record["outcome"], record["target"]) for record in trace if record["event"] == "moved"]
    assert moves[:2] == [("plan", "Replied", "avoid_dummies"), ("avoid_dummies", "Replied", "answer_repeats")]
    result = trace[-1]
    assert result["event"] == "result"
    assert (result["status"], result["exit_code"], result["output"], result["reason"]) == (
        "answered",
        0,
        "37 * 48 is 1776.",
        "finished",
    )
    assert result["steps"] == [
        {
            "tool": "calculator",
            "tool_input": {"expression": "37 * 48"},
            "observation": "1776",
            "status": "ok",
            "error": None,
        }
    ]
    assert result["spent"]["tokens"] == 220


def test_json_is_valid_for_any_tool_result(capsys: pytest.CaptureFixture[str], tools: str) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    with serving([tool_call_text("nothing"), tool_call_text("shout"), answer_text("\ud800 done")]) as server:
        ended = command(
            capsys,
            *asking(server, "--json", "--tools", "tools_of_mine:nothing", "--tools", "tools_of_mine:shout"),
        )
    trace = [json.loads(line, parse_constant=refuse) for line in ended.out.splitlines()]
    assert trace[-1]["exit_code"] == 0
    assert "\x1b[31m" in trace[-1]["steps"][1]["observation"]
    assert ended.out.isascii()


@pytest.mark.parametrize(
    ("options", "code", "status"),
    [
        (["--max-iterations", "1"], 3, "stopped"),
        (["--tools", "tools_of_mine:fail"], 1, "error"),
        (["--tools", "tools_of_mine:plain"], 2, "usage"),
        (["--no-such-option"], 2, "usage"),
        (["--max-iterations", "many"], 2, "usage"),
        (["--max-seconds", "inf"], 2, "usage"),
    ],
)
def test_json_includes_errors(
    capsys: pytest.CaptureFixture[str], tools: str, options: list[str], code: int, status: str
) -> None:
    with serving([tool_call_text("fail")]) as server:
        ended = command(capsys, *asking(server, "--json", *options))
    result = records(ended)[-1]
    assert (ended.code, result["event"], result["exit_code"], result["status"]) == (code, "result", code, status)
    assert status == "stopped" or result["error"]["message"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--tools", "tools_of_mine:"], "'tools_of_mine:' does not name an object; write module:object"),
        (
            ["--tools", "tols_of_mine:wait"],
            "there is no module tols_of_mine here, nor is it installed; did you mean tools",
        ),
        (["--tools", "tools_of_mine:wat"], "tools_of_mine has no wat; did you mean wait?"),
        (
            ["--tools", "tools_of_mine:plain"],
            "plain is not a tool or a list of tools: len is a builtin function, without annotations",
        ),
        (["--tools", "tools_of_mine:numbers"], "a list of tools: 1 is not a tool; decorate the function with @tool"),
        (["--tools", "tools_of_mine:none"], "tools_of_mine:none is an empty list"),
        (["--tools", "tool_of_mine.py:wait"], "there is no file tool_of_mine.py; did you mean tools_of_mine.py?"),
        (
            ["--tools", "broken:wait"],
            "broken cannot be imported: ZeroDivisionError: division by zero (broken.py, line 1)",
        ),
        (["--tools", "leaves:wait"], "leaves cannot be imported: SystemExit: 7"),
        (["--tools", "needs:wait"], "needs cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
        (["--tools", "tools_of_mine:several", "--tools", "tools_of_mine:wait"], "two tools are named wait"),
        (["--base-url", "http://127.0.0.1:9/v1"], "--base-url needs the name of a model"),
        (["--gguf", "no.gguf"], "there is no file no.gguf"),
        (["--gguf", "no.gguf", "--model", "small"], "leave out --model and --base-url"),
        (
            ["--model", "m", "--base-url", "127.0.0.1:9/v1"],
            "--base-url begins with neither http:// nor https://; write",
        ),
        (["--base-url", ""], "--base-url begins with neither http:// nor https://; write"),
        (["--agent", "structred"], "Invalid value for '--agent': 'structred' is not one of"),
        (
            ["--max-seconds", "inf"],
            "'--max-seconds': it is not a finite number of seconds; leave the option out for no limit",
        ),
        (["--max-iterations", "-1"], "--max-iterations"),
        (["--nonsense"], "--nonsense"),
        (["another question"], "another question"),
    ],
)
def test_wrong_usage_is_one_line_and_exits_2(
    capsys: pytest.CaptureFixture[str], tools: str, options: list[str], expected: str
) -> None:
    Path("broken.py").write_text("1 / 0\n", encoding="utf-8")
    Path("leaves.py").write_text("raise SystemExit(7)\n", encoding="utf-8")
    Path("needs.py").write_text("import nowhere\n", encoding="utf-8")
    ended = command(capsys, "run", QUESTION, *options)
    assert (ended.code, ended.out) == (2, "")
    assert expected in ended.err
    assert ended.err.count("\n") == 1


@cases("question", ["", "  \n"])
def test_empty_question_is_wrong_usage(capsys: pytest.CaptureFixture[str], question: str) -> None:
    ended = command(capsys, "run", question)
    assert (ended.code, ended.out) == (2, "")
    assert "it is empty; write a question, in quotes" in ended.err
    assert ended.err.count("\n") == 1
    trace = records(command(capsys, "run", question, "--json"))
    assert [(record["event"], record["status"]) for record in trace] == [("result", "usage")]


def test_model_errors_have_no_class_names() -> None:
    for options, trace in (
        (
            ["--base-url", "http://127.0.0.1:9/v1", "--retries", "0"],
            "change the base URL (given, or in OPENAI_BASE_URL)",
        ),
        ([], "set OPENAI_API_KEY to it"),
    ):
        ended = program("run", QUESTION, "--model", "gpt-9", *options)
        assert ended.code == 1
        assert trace in ended.err
        assert not any(name in ended.err for name in ("base_url", "api_key", "max_retries", "path="))


def test_password_in_an_address_is_hidden() -> None:
    address = "http://me:password@127.0.0.1:9/v1"
    ended = program("run", QUESTION, "--model", "m", "--base-url", address, "--retries", "0")
    assert ended.code == 1
    assert "m at 127.0.0.1:9 " in ended.err
    assert "password" not in ended.err


def test_one_empty_line_separates_trace_and_cost() -> None:
    with serving([*SOLVED, *SOLVED]) as server:
        apart = program(*asking(server))
        together = subprocess.run(
            [*ARGUMENTS, *asking(server)],
            check=True,
            encoding="utf-8",
            env=environment(),
            stderr=subprocess.STDOUT,
            stdout=subprocess.PIPE,
            timeout=PATIENCE,
        ).stdout
    assert apart.err.count("\n\n") == 2
    assert "\n\n\n" not in apart.err
    assert "\n\n37 * 48 is 1776.\n\n2 iterations" in together


def test_unreachable_server_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    nowhere = ("--base-url", "http://127.0.0.1:9/v1", "--retries", "0")
    ended = command(capsys, "run", QUESTION, "--model", "m", *nowhere, "--quiet")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.count("\n") == 1
    assert "no connection to" in ended.err


def test_tools_are_loaded_from_any_folder(capsys: pytest.CaptureFixture[str], tools: str) -> None:
    with serving([tool_call_text("shout"), answer_text("done")]) as server:
        ended = command(capsys, *asking(server, "--tools", f"{tools}:several"))
    assert ended.code == 0
    assert "wait, shout" in ended.err


@pytest.mark.medium
@cases("quiet", [False, True])
def test_ctrl_c_ends_a_pending_model_call(quiet: bool) -> None:
    with (
        serving([tool_call_text("calculator", expression="37 * 48"), Silence()]) as server,
        Program(*asking(server, *["--quiet"] * quiet)) as running,
    ):
        assert server.waiting.wait(PATIENCE)
        ended = running.interrupt()
    assert (ended.code, ended.out) == (130, "")
    assert "Interrupted at plan, after 1 step" in ended.err
    assert quiet or "2 iterations · 2 model calls · 1 tool call · 110 tokens" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.medium
@pytest.mark.parametrize("deadline", [[], ["--max-seconds", "600"]])
def test_ctrl_c_ends_a_blocked_tool(tools: str, deadline: list[str]) -> None:
    with serving([tool_call_text("wait")]) as server:
        options = ("--tools", "tools_of_mine:wait", *deadline)
        with Program(*asking(server, *options), cwd=Path(tools).parent) as running:
            running.until("the tool waits")
            ended = running.interrupt()
    assert (ended.code, ended.out) == (130, "")
    assert "Interrupted at dispatch_tools, after 0 steps" in ended.err
    assert "Traceback" not in ended.err


def test_ctrl_c_is_recorded() -> None:
    with (
        serving([tool_call_text("calculator", expression="37 * 48"), Silence()]) as server,
        Program(*asking(server, "--json")) as running,
    ):
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


@cases("pipe", ["graphexec run --json 2>&1 | head -1", "graphexec run 2>&1 | head -1", "graphexec draw | true"])
def test_closed_pipe_prints_no_error(pipe: str) -> None:
    with serving(SOLVED) as server:
        arguments = asking(server) if "run" in pipe else ("draw",)
        process = subprocess.Popen(
            [*ARGUMENTS, *arguments, *["--json"] * ("--json" in pipe)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if "2>&1" in pipe else subprocess.PIPE,
            env=environment(),
        )
        assert process.stdout is not None
        if "head" in pipe:
            process.stdout.readline()
        process.stdout.close()
        code = process.wait(PATIENCE)
        expected = process.stderr.read() if process.stderr is not None else b""
        if process.stderr is not None:
            process.stderr.close()
    assert (code, expected) == (141, b"")


def test_ascii_terminal_loses_nothing() -> None:
    with serving(
        [tool_call_text("convert_units", value=98.6, from_unit="F", to_unit="C"), answer_text("37 °C → warm")]
    ) as server:
        ended = program(*asking(server), PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C")
    assert (ended.code, ended.out) == (0, "37 \\xb0C \\u2192 warm\n")
    assert "1 plan                -> Replied" in ended.err
    assert ended.err.isascii()


@pytest.mark.medium
def test_narrow_terminal_shows_everything() -> None:
    with serving(SOLVED) as server:
        ended = program(*asking(server), COLUMNS="30")
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
