"""The benchmark that scores a model: correct answers, and the script."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from graphexec import AgentExecutor, create_tool_calling_agent
from graphexec.agents.structured import EVERYDAY_EXAMPLES
from graphexec.errors import ContextOverflowError
from graphexec.messages import ToolCall
from graphexec.models import ScriptedModel
from graphexec.models.scripted import ScriptedReply
from graphexec.tools.everyday import EVERYDAY_TOOLS

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "score.py"
# The script is not a module of the package, so its names have no types here.
SCORE: dict[str, Any] = runpy.run_path(str(SCRIPT))
BOOK, CELSIUS = (SCORE["QUESTIONS"][index] for index in (3, 6))


def calculate(expression: str) -> ToolCall:
    return ToolCall("c1", "calculator", f'{{"expression": "{expression}"}}')


def convert(value: float, source: str, target: str) -> ToolCall:
    return ToolCall("c1", "convert_units", f'{{"value": {value}, "from_unit": "{source}", "to_unit": "{target}"}}')


def executor_of(*replies: ScriptedReply) -> AgentExecutor:
    return AgentExecutor(
        agent=create_tool_calling_agent(ScriptedModel(replies, repeat_last=True), EVERYDAY_TOOLS),
        tools=EVERYDAY_TOOLS,
        handle_parsing_errors=True,
        max_iterations=3,
    )


def is_right(question: Any, *replies: ScriptedReply) -> bool:
    """Return whether a run with these replies counts as right."""
    executor = executor_of(*replies)
    return bool(SCORE["is_right"](question, executor.run(question.text)))


def test_right_call_and_right_answer_count() -> None:
    assert is_right(BOOK, calculate("352 - 187"), "165 pages are left.")
    assert is_right(BOOK, calculate("352\N{MINUS SIGN}187"), "165")
    assert is_right(CELSIUS, convert(25, "C", "F"), "It is 77 °F")
    # Another tool, and an invalid reply between the calls.
    assert is_right(CELSIUS, ToolCall("c1", "calculator", "{"), calculate("25 * 9 / 5 + 32"), "77.0")


@pytest.mark.parametrize(
    "replies",
    [
        ("165",),
        (calculate("165"), "165"),
        (calculate("187 - 352"), "165"),
        (calculate("352 + 187"), "165"),
        (calculate("352 - 187"), "-165"),
        (calculate("352 - 187"), "1650 pages"),
        (calculate("352 -"), calculate("352 - 187"), "165"),
        (calculate("352 - 187"),),
    ],
    ids=["no call", "guessed", "negative", "wrong call", "other sign", "other number", "one call wrong", "stopped"],
)
def test_anything_else_is_wrong(replies: tuple[ScriptedReply, ...]) -> None:
    assert not is_right(BOOK, *replies)


def test_too_long_prompt_counts_as_wrong(
    capsys: pytest.CaptureFixture[str],
) -> None:
    executor = executor_of(ContextOverflowError("the prompt is too long"), calculate("352 - 187"), "165")
    assert SCORE["ask_all"](executor, [CELSIUS, BOOK]) == 1
    overflown, _, answered, last_line = capsys.readouterr().out.splitlines()
    assert "WRONG" in overflown
    assert "right" in answered
    assert last_line.strip() == "calculator(expression='352 - 187') -> 165"


def test_numbers_are_read_in_common_spellings() -> None:
    numbers_in = SCORE["numbers_in"]
    assert numbers_in("-3 and 1,250.5, or 905-348 = 64x27; (2)-1 in 2, 3 and 77.0C.") == (
        *(-3, 1250.5, 905, 348, 64, 27),
        *(2, 1, 2, 3, 77),
    )


def test_questions_contain_no_answers_or_example_numbers() -> None:
    known = {number for example in EVERYDAY_EXAMPLES for number in SCORE["numbers_in"](example.question)}
    assert len(SCORE["QUESTIONS"]) == 20
    for question in SCORE["QUESTIONS"]:
        assert not question.answered_in(question.text)
        assert not known & {*question.numbers}


@pytest.mark.local_model
def test_score_of_the_first_questions_is_printed() -> None:
    command = [sys.executable, "-X", "utf8", str(SCRIPT), "--first", "4", "--check", "5"]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=300, check=False)
    heading, *lines, score = done.stdout.splitlines()
    assert "structured agent, 4 questions" in heading
    assert len(lines) == 8
    for number, line in enumerate(lines[::2], 1):
        assert line.split()[:2] in ([str(number), "right"], [str(number), "WRONG"])
    right = sum(" right " in line for line in lines[::2])
    assert score == f"score: {right} of 4"
    # No model gets 5 of 4 right.
    assert (done.returncode, done.stderr) == (1, "fewer than 5 are right\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--gguf", "nowhere.gguf"), "there is no file nowhere.gguf"),
        (("--api-key", "k"), "--api-key is for a model of a server; add --model NAME"),
    ],
)
def test_invalid_options_are_reported_in_one_line(
    options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert SCORE["main"](options) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"graphexec: {message}")
    assert captured.err.count("\n") == 1
