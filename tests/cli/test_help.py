"""`--help` is enough for a day of work: its examples are valid, and it says what is imported."""

from __future__ import annotations

import re

import pytest

from tests.cli.terminals import command
from tests.cli.test_advice import OPTION, options_of
from tests.cli.test_locales import LEAVES
from tests.parameters import cases

# A command line in a help text, up to a comment, another command, or the end of the line.
EXAMPLE = re.compile(r"graphexec ((?:models )?\w+)([^;#|`]*)")
WITH_TARGETS = ("run", "chat", "check", "draw", "export", "diff", "replay")


def help_of(monkeypatch: pytest.MonkeyPatch, name: str) -> str:
    # Wide enough for every line.
    monkeypatch.setenv("COLUMNS", "400")
    ended = command(*name.split(), "--help")
    assert ended.code == 0
    return ended.out


@cases("name", ["", *LEAVES])
def test_examples_name_commands_and_options_that_exist(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    shown = help_of(monkeypatch, name)
    epilog = shown.rpartition("╯")[2]
    assert epilog.strip()
    for of_command, rest in EXAMPLE.findall(epilog):
        if of_command != "COMMAND":
            assert of_command in LEAVES
            assert set(OPTION.findall(re.sub(r'"[^"]*"', "", rest))) <= options_of(tuple(of_command.split())), rest


@cases("name", WITH_TARGETS)
def test_help_says_that_the_file_of_a_target_is_run(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert "imported, and so run" in help_of(monkeypatch, name)


def test_every_command_with_a_target_is_listed() -> None:
    targets = {name for name, one in LEAVES.items() if any(":object" in str(p.help) for p in one.params if p.help)}
    assert targets - {"run", "chat"} == set(WITH_TARGETS) - {"run", "chat"}


@cases(
    "task",
    [
        'graphexec run "What is 37 * 48?"',
        'graphexec run my_agent.py:executor "',
        "graphexec chat --memory talk.jsonl",
        "graphexec view trace.jsonl",
        "graphexec check my_agent.py",
        "A run that a limit stops exits with 3",
        "graphexec COMMAND --help",
    ],
)
def test_first_help_has_an_example_of_each_task(monkeypatch: pytest.MonkeyPatch, task: str) -> None:
    assert task in help_of(monkeypatch, "")


def test_options_of_the_built_in_agent_are_described(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = help_of(monkeypatch, "run")
    for name in (
        "--system",
        "--temperature",
        "--timeout",
        "--max-tokens",
        "--max-reply-tokens",
        "--example",
        "--limit",
    ):
        assert re.search(rf"{name} +\S+ +\S", shown), name
    assert "[TARGET] QUESTION" in shown
    assert "--example" in shown
    assert "- reads it from standard input" in shown
