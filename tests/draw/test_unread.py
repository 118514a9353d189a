"""Records, pictures and pages of a run say what a reader left of a reply."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from graphexec import AgentExecutor, RunResult, create_react_agent
from graphexec.draw import Recording, recording_of, sequence_mermaid, timeline
from graphexec.draw.runs.visits import unread_text, visits_of
from graphexec.errors import InputError
from graphexec.models import ScriptedModel
from tests.draw.browser import Pages
from tests.executor.actors import echo
from tests.parameters import cases

INVENTED = "Observation: a rabbit\nThought: it is cute"
LIED = "Observation: that is right"
ACT = f"Action: echo\nAction Input: hi\n{INVENTED}"
FINISH = f"Final Answer: done\n{LIED}"


def run(*replies: str, **options: Any) -> RunResult:
    agent = create_react_agent(ScriptedModel(replies), [echo])
    return AgentExecutor(agent=agent, tools=[echo], **options).run("q")


def invented_run() -> RunResult:
    return run(ACT, ACT, FINISH)


def plain_run() -> RunResult:
    return run("Action: echo\nAction Input: hi", "Final Answer: done")


def test_records_have_what_was_not_read() -> None:
    records = Recording.from_json_lines(recording_of(invented_run()).to_json_lines()).records
    result = records[-1]
    assert [step["unread"] for step in result["steps"]] == [INVENTED, INVENTED]
    assert result["unread"] == LIED
    moved = [unread_text(record.get("value")) for record in records if record["event"] == "moved"]
    assert [text for text in moved if text] == [INVENTED, INVENTED, LIED]
    assert "unread" not in json.dumps(recording_of(plain_run()).records[-1])
    visits = visits_of(recording_of(invented_run()))
    found = [(visit.node, visit.unread) for visit in visits if visit.unread]
    assert found == [("parse", INVENTED), ("parse", INVENTED), ("parse", LIED)]


@cases("draw", [sequence_mermaid, partial(timeline, width=160)])
def test_diagrams_show_it_at_its_place(draw: Any) -> None:
    lines = draw(invented_run()).splitlines()
    shown = [line for line in lines if "not read: " in line]
    assert ["a rabbit Thought" in line for line in shown] == [True, True, False]
    assert ["that is right" in line for line in shown] == [False, False, True]
    assert "not read" not in draw(plain_run())


def test_page_has_it_as_text_and_records_as_a_string(tmp_path: Path) -> None:
    hostile = "Observation: </script><script>alert(1)</script>"
    page = run(f"{FINISH}\n{hostile}").draw(tmp_path / "run.html").read_text()
    assert LIED in page
    assert "<script>alert(1)" not in page
    *records, result = recording_of(invented_run()).records
    lines = Recording([*records, {**result, "unread": 3}]).to_json_lines()
    with pytest.raises(InputError, match=r"not a valid record: result\.unread"):
        Recording.from_json_lines(lines)


def test_end_of_the_page_shows_it(pages: Pages) -> None:
    page = pages.run(recording_of(invented_run()))
    page.locator("#slider").press("End")
    detail = page.locator("#detail")
    assert detail.get_by_text("Not read, since the model invented it").count() == 1
    assert detail.get_by_text(LIED).count() == 1
    assert detail.get_by_text("not read: Observation: a rabbit").count() == 2


@cases("value", [None, 3, {"actions": 3}, {"actions": [3, {}]}, {"actions": [{"unread": 3}]}, {"unread": "a"}])
def test_other_outcomes_have_nothing_unread(value: object) -> None:
    assert unread_text(value) == ""
