"""The benchmark that scores a model: correct answers, the tasks, and the script."""

import json
import runpy
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from graphexec import AgentExecutor, agents, create_tool_calling_agent, errors, messages, models
from graphexec.cli.runs.options import EVERYDAY_EXAMPLES
from graphexec.models.scripted import ScriptedReply
from graphexec.tools import AnyTool
from graphexec.tools.everyday import EVERYDAY_TOOLS
from tests.parameters import cases

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "score.py"
# The script is not a module of the package, so its names have no types here; its other files are beside it.
sys.path.insert(0, str(SCRIPT.parent))
SCORE: dict[str, Any] = runpy.run_path(str(SCRIPT))
SETS: dict[str, Any] = SCORE["SETS"]
TASKS = [(name, group, task) for name, groups in SETS.items() for group in groups for task in group.tasks]
(BOOK,) = (task for _, _, task in TASKS if task.question.startswith("A book has"))
(LIGHT,) = (task for _, _, task in TASKS if task.question == "Switch off the light in the kitchen.")
(TWO_CALLS,) = (task for _, _, task in TASKS if task.question.startswith("Multiply 12 by 14"))


def call(tool: str, **arguments: object) -> messages.ToolCall:
    return messages.ToolCall("c1", tool, json.dumps(arguments))


def calculate(expression: str) -> messages.ToolCall:
    return call("calculator", expression=expression)


def switch(room: str, state: str) -> messages.ToolCall:
    return call("switch_light", room=room, state=state)


def executor_of(task: Any, *replies: ScriptedReply) -> AgentExecutor:
    tools = next(group.tools for _, group, one in TASKS if one is task)
    agent = create_tool_calling_agent(models.ScriptedModel(replies, repeat_last=True), tools)
    return AgentExecutor(agent=agent, tools=tools, handle_parsing_errors=True, max_iterations=4)


def run(task: Any, *replies: ScriptedReply) -> Any:
    """Return the outcome of a run with these replies."""
    return SCORE["run_task"](executor_of(task, *replies), task)


PRODUCT = call("multiply", a=12, b=14)
PAGES = calculate("352 - 187")
RIGHT: list[tuple[Any, tuple[ScriptedReply, ...]]] = [
    (BOOK, (PAGES, "165 pages are left.")),
    (BOOK, (calculate("352\N{MINUS SIGN}187"), "165")),
    (BOOK, (messages.ToolCall("c1", "calculator", "{"), PAGES, "165.0")),
    (LIGHT, (switch("Kitchen", "off"), "It is off.")),
    (LIGHT, (switch("kitchen", "dark"), switch("kitchen", "off"), "off")),
    (TWO_CALLS, (PRODUCT, call("add", a=168, b=100), "268")),
]
WRONG: list[tuple[Any, tuple[ScriptedReply, ...]]] = [
    (BOOK, ("165",)),
    *((BOOK, (calculate(wrong), "165")) for wrong in ("165", "187 - 352", "352 + 187")),
    *((BOOK, (PAGES, wrong)) for wrong in ("-165", "1650 pages")),
    (BOOK, (calculate("350 - 187"), PAGES, "165")),
    (BOOK, (PAGES,)),
    (LIGHT, (switch("bathroom", "off"), "off")),
    *((LIGHT, (switch("kitchen", "off"), wrong)) for wrong in ("The light is official now.", "")),
    (TWO_CALLS, (PRODUCT, "268")),
]


@cases(("right", "task", "replies"), *((True, *row) for row in RIGHT), *((False, *row) for row in WRONG))
def test_only_right_calls_and_right_answer_count(right: bool, task: Any, replies: tuple[ScriptedReply, ...]) -> None:
    assert run(task, *replies).right is right


def test_outcome_names_repeated_calls_and_limits(capsys: pytest.CaptureFixture[str]) -> None:
    assert not run(BOOK, calculate("352 -"), calculate("352 -"), "165").repeated
    outcome = run(BOOK, PAGES)
    assert (outcome.repeated, outcome.stopped) == (True, "iterations")
    assert str(outcome).endswith("[repeated] [stopped by iterations]")

    # A too long prompt counts as wrong.
    def overflow(tools: object) -> AgentExecutor:
        return executor_of(BOOK, errors.ContextOverflowError("the prompt is too long"))

    (outcome,) = SCORE["run_all"](overflow, [(EVERYDAY_TOOLS, BOOK)])
    assert not outcome.right
    assert "WRONG" in capsys.readouterr().out


def test_numbers_are_read_in_common_spellings() -> None:
    found = SCORE["numbers_in"]("-3 and 1,250.5, or 905-348 = 64x27; (2)-1 in 2, 3 and 77.0C.")
    assert found == (-3, 1250.5, 905, 348, 64, 27, 2, 1, 2, 3, 77)


def test_expected_calls_return_the_expected_answer() -> None:
    for name, group, task in TASKS:
        if name == "everyday" or len(task.calls) > 1:
            continue
        tools = {tool.name: tool for tool in group.tools}
        returned = [tools[call.tool](**tools[call.tool].read(dict(call.arguments))) for call in task.calls]
        assert all(SCORE["is_answered"](task, str(one)) for one in returned), task.question


def test_no_question_contains_an_answer_or_a_value_of_an_example() -> None:
    known = {number for example in EVERYDAY_EXAMPLES for number in SCORE["numbers_in"](example.question)}
    for task in SETS["everyday"][0].tasks:
        assert not SCORE["is_answered"](task, task.question)
        assert not known & {*SCORE["numbers_in"](task.question)}
    for group in (group for name in ("three", "six", "one") for group in SETS[name]):
        calls = [call for example in agents.synthesised_examples(group.tools) for call in example.calls]
        values = {str(value) for name, arguments, _ in calls for value in free_arguments(group.tools, name, arguments)}
        for task in group.tasks:
            assert not {value for value in values if value.casefold() in task.question.casefold()}


def free_arguments(tools: Sequence[AnyTool], name: str, arguments: Mapping[str, Any]) -> list[Any]:
    """Return the arguments that are neither chosen among listed values nor bounded, as an hour is."""
    (properties,) = (tool.parameters["properties"] for tool in tools if tool.name == name)
    return [value for argument, value in arguments.items() if not {"enum", "maximum"} & properties[argument].keys()]


@pytest.mark.local_model
@pytest.mark.full
def test_score_of_the_first_tasks_is_printed() -> None:
    command = [sys.executable, "-X", "utf8", str(SCRIPT), "--set", "everyday", "--first", "4", "--check", "5"]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=300, check=False)
    heading, *lines, calls, repeated, stopped, score = done.stdout.splitlines()
    assert "structured agent, 4 tasks" in heading
    assert len(lines) == 8
    for number, line in enumerate(lines[::2], 1):
        assert line.split()[:2] in ([str(number), "right"], [str(number), "WRONG"])
    right = sum(" right " in line for line in lines[::2])
    assert score == f"score: {right} of 4"
    assert "first prompt: " in calls
    assert (repeated.split(":")[0], stopped.split(":")[0]) == ("repeated a successful call", "stopped by a limit")
    # No model gets 5 of 4 right.
    assert (done.returncode, done.stderr) == (1, "fewer than 5 are right\n")


@cases(
    ("options", "message"),
    (("--gguf", "nowhere.gguf"), "there is no file nowhere.gguf"),
    (("--api-key", "k"), "--api-key is for a model of a server; add --model NAME"),
)
def test_invalid_options_are_one_line(
    options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert SCORE["main"](options) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"graphexec: {message}")
    assert captured.err.count("\n") == 1
