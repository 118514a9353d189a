"""`graphexec run --runs` and `graphexec runs`: runs that wait for people, and outlive their process."""

import json
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from graphexec.cli.runs.stores import format_age, parse_duration, read_value, without_password
from graphexec.draw.runs.records import Recording
from graphexec.errors import InputError
from graphexec.runs import Question, SQLiteRuns
from graphexec.runs import sqlite as sqlite_store
from tests.cli.machines_of_mine import lay_out
from tests.cli.terminals import Ended, Program, command, program, refused
from tests.parameters import cases, read_tables

TRIPS: str = read_tables(__file__)["trips"]
RUN = ("run", "--runs", "runs.db", "--id", "a trip", "trips.py:executor", "Book it.")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return lay_out(tmp_path, monkeypatch, {"trips": TRIPS})


def runs(*arguments: str) -> Ended:
    return command("runs", arguments[0], "runs.db", *arguments[1:])


def listed() -> list[dict[str, Any]]:
    return [json.loads(line) for line in runs("list", "--json").out.splitlines()]


def booked() -> list[str]:
    return Path("booked.txt").read_text(encoding="utf-8").split() if Path("booked.txt").exists() else []


@pytest.mark.medium
def test_persons_day_in_fresh_processes(folder: Path) -> None:
    """A run stops at a question; on the next day it is listed, answered and continued."""

    def fresh(*arguments: str, code: int = 0) -> Ended:
        ended = program(*arguments, cwd=folder)
        assert ended.code == code, ended
        return ended

    first = fresh(*RUN, code=4)
    assert (first.out, booked()) == ("", [])
    for fact in ("stored in runs.db as a trip", "a trip/2.0: Call book(", "approve or reject"):
        assert fact in first.err
    assert "graphexec runs reply runs.db 'a trip' 'a trip/2.0' VALUE" in first.err
    way_on = "graphexec runs resume runs.db trips.py:executor 'a trip'"
    assert way_on in first.err
    status, run_id, age, _ = fresh("runs", "list", "runs.db").out.split("\t")
    assert (status, run_id, age.endswith(" s ago")) == ("waiting", "a trip", True)
    shown = fresh("runs", "show", "runs.db", "a trip").out
    assert "a trip: waiting" in shown
    assert "runs reply runs.db 'a trip' 'a trip/2.0' VALUE" in shown
    # Without an answer, it waits again.
    assert command(*RUN).code == 4
    wrong = runs("reply", "a trip", "a trip/2.0", "maybe")
    assert (wrong.code, "choose one of approve, reject" in wrong.err) == (2, True)
    fresh("runs", "reply", "runs.db", "a trip", "a trip/2.0", "approve")
    late = runs("reply", "a trip", "a trip/2.0", "reject")
    assert (late.code, "was answered before" in late.err) == (1, True)
    resumed = fresh("runs", "resume", "runs.db", "trips.py:executor")
    assert (resumed.out, booked()) == ("booked Oslo\n", ["Oslo"])
    assert fresh(*RUN).out == "booked Oslo\n"
    assert booked() == ["Oslo"]
    assert runs("list", "--status", "done").out.endswith("\tbooked Oslo\n")


@pytest.mark.medium
def test_run_of_a_killed_process_goes_on(folder: Path) -> None:
    """The model is told that the call was interrupted; the tool is not called twice."""
    Path("hang").touch()
    with Program("run", "--runs", "runs.db", "--id", "trip", "trips.py:flying", "q", cwd=folder) as killed:
        killed.until("booking")
        busy = runs("resume", "trips.py:flying", "trip")
        assert (busy.code, "is carried on by" in busy.err) == (1, True)
        killed.process.kill()
        killed.process.wait()
    assert runs("list").out.startswith("interrupted\ttrip\t")
    Path("hang").unlink()
    ended = runs("resume", "trips.py:flying", "--quiet")
    assert (ended.code, "interrupted" in ended.out, booked()) == (0, True, ["Oslo"])


@pytest.mark.medium
def test_run_that_failed_goes_on() -> None:
    Path("fail").touch()
    ended = command("run", "--runs", "runs.db", "--id", "trip", "trips.py:flying", "q")
    assert (ended.code, "go on with it: graphexec runs resume runs.db trips.py:flying trip" in ended.err) == (1, True)
    assert runs("list").out.startswith("failed\ttrip\t")
    Path("fail").unlink()
    assert runs("resume", "trips.py:flying", "trip").out == "booked Oslo\n"


def test_other_code_goes_on_only_where_it_is_the_same() -> None:
    assert command(*RUN).code == 4
    other = runs("resume", "trips.py:flying", "a trip")
    assert (other.code, "another version of this machine" in other.err) == (1, True)
    # With --migrate each call is compared, and this one skips the approval.
    migrated = runs("resume", "trips.py:flying", "a trip", "--migrate")
    assert (migrated.code, "where the machine now" in migrated.err) == (1, True)


@pytest.mark.medium
def test_json_records_and_quiet_keep_their_promises() -> None:
    quiet = command(*RUN, "--quiet")
    assert (quiet.code, quiet.out, "a trip/2.0" in quiet.err) == (4, "", True)
    waiting = command(*RUN, "--json", "--record", "trace.jsonl")
    assert (waiting.code, waiting.err) == (4, "")
    assert Path("trace.jsonl").read_text(encoding="utf-8").splitlines()[-1] == waiting.out.splitlines()[-1]
    result = Recording.from_json_lines(waiting.out).result
    assert result is not None
    [question] = result["waiting"]["questions"]
    assert (result["status"], result["exit_code"], result["waiting"]["run_id"]) == ("waiting", 4, "a trip")
    assert (question["key"], question["choices"]) == ("a trip/2.0", ["approve", "reject"])
    assert runs("reply", "a trip", "a trip/2.0", '{"decision": "reject", "text": "too far"}').code == 0
    ended = runs("resume", "trips.py:executor", "a trip", "--json")
    again = runs("resume", "trips.py:executor", "a trip", "--json")
    for one in (ended, again):
        last = Recording.from_json_lines(one.out).result
        assert last is not None
        assert (one.code, last["status"], "too far" in last["output"]) == (0, "answered", True)
    assert command("view", "trace.jsonl", "--no-open", "-o", "page.html").code == 0


@pytest.mark.medium
def test_several_questions_are_answered_one_by_one() -> None:
    made = command("run", "--runs", "runs.db", "trips.py:asking", "q")
    [found] = listed()
    run_id = found["run_id"]
    assert (made.code, f"stored in runs.db as {run_id}" in made.err, f"{run_id}/2.1: Whose" in made.err) == (
        4,
        True,
        True,
    )
    assert "1 more to answer" in runs("reply", run_id, f"{run_id}/2.1", "15").err
    assert "no run is ready" in runs("resume", "trips.py:asking").err
    assert "ready to go on" in runs("reply", run_id, f"{run_id}/2.0", "aisle").err
    # Those of other machines are left for their own.
    other = runs("resume", "trips.py:executor")
    assert (other.code, other.out, "1 are of another machine" in other.err) == (0, "", True)
    assert runs("resume", "trips.py:asking", "-q").out == "aisle, 15\n"
    shown = json.loads(runs("show", run_id, "--json").out)
    calls = {one["call"]: (one["node"], one["reply"]["value"]) for one in shown["calls"]}
    assert (calls["2.0"], calls["2.1"]) == (("ask_user", "aisle"), ("ask_user", "15"))
    assert (shown["attempts"], shown["status"], shown["questions"]) == (2, "done", [])


@pytest.mark.medium
def test_runs_are_forked_cancelled_and_deleted() -> None:
    command(*RUN)
    assert runs("fork", "a trip", "--at", "1", "--id", "copy").out == "copy\n"
    assert runs("resume", "trips.py:executor", "copy").code == 4
    assert "is cancelled" in runs("cancel", "a trip").err
    ended = command(*RUN)
    assert (ended.code, "was cancelled" in ended.err) == (1, True)
    assert runs("reply", "copy", "copy/2.0", "reject").code == 0
    assert runs("resume", "trips.py:executor", "copy").code == 0
    ended = runs("cancel", "copy")
    assert (ended.code, "is done, and stays so" in ended.err) == (1, True)
    assert "runs deleted: 0" in runs("prune", "--older-than", "1h").err
    assert "runs deleted: 2" in runs("prune", "--older-than", "0s").err
    assert listed() == []


@pytest.mark.medium
def test_executor_with_a_store_needs_no_option() -> None:
    made = command("run", "--id", "trip", "trips.py:own", "q")
    sys.modules["trips"].opened[0].close()
    assert (made.code, "runs reply 'own runs.db' trip trip/2.0 VALUE" in made.err) == (4, True)
    ended = command("run", "trips.py:executor", "q")
    assert (ended.code, "graphexec run --runs runs.db" in ended.err) == (1, True)
    records = command("run", "trips.py:executor", "q", "--json").out.splitlines()
    assert "graphexec run --runs" in json.loads(records[-1])["error"]["message"]


@pytest.mark.medium
@cases(
    ("arguments", "expected"),
    (["run", "--id", "x", "trips.py:executor", "q"], "--id x needs a store; add --runs runs.db"),
    (
        ["run", "--runs", "trips.py", "trips.py:executor", "q"],
        "trips.py cannot be used as a store of runs: file is not",
    ),
    (["run", "--runs", ".", "trips.py:executor", "q"], ". cannot be used as a store of runs: unable to open"),
    (["run", "--runs", "runs.db", "--id", "", "trips.py:executor", "q"], "run_id is ''; give a name"),
    (["run", "--record", "runs.db", "trips.py:executor", "q"], "runs.db is a database, which the records"),
    (["run", "--runs", "no/runs.db", "trips.py:executor", "q"], "no/runs.db cannot be used as a store of runs"),
    (
        ["run", "--runs", "mysql://me:secret@host/x", "trips.py:executor", "q"],
        "mysql://me:***@host/x is not the address",
    ),
    (["runs", "list", "nothing.db"], "there is no file nothing.db; check its name, and the folder"),
    (["runs", "list", "trips.py"], "trips.py cannot be used as a store of runs"),
    (["runs", "list", "runs.db", "--status", "lost"], "Invalid value for '--status'"),
    (["runs", "show", "runs.db", "no trip"], "there is no run 'no trip' in this store"),
    (["runs", "reply", "runs.db", "no trip", "a/1.0", "x"], "there is no run 'no trip' in this store"),
    (
        ["runs", "reply", "runs.db", "a trip", "a trip/9.0", "x"],
        "has no question 'a trip/9.0'; its open ones are a trip/2.0",
    ),
    (
        ["runs", "reply", "runs.db", "a trip", "a trip/2.0", '{"decision": "aprove"}'],
        "the reply.decision is 'aprove'; choose one of",
    ),
    (
        ["runs", "reply", "runs.db", "a trip", "a trip/2.0", '{"decision": "reject", "reason": "too dear"}'],
        "the reply has reason, which is none of its fields decision, text, arguments",
    ),
    (["runs", "resume", "runs.db", "trips.py:executor", "no trip"], "there is no run 'no trip' in this store"),
    (["runs", "resume", "runs.db", "trips.py:nothing"], "trips.py has no nothing"),
    (["runs", "fork", "runs.db", "a trip", "--at", "9"], "the run a trip has 1 replies, so it cannot be forked at 9"),
    (["runs", "fork", "runs.db", "a trip", "--id", "a trip"], "there is a run a trip already"),
    (["runs", "cancel", "runs.db", "no trip"], "there is no run 'no trip' in this store"),
    (["runs", "prune", "runs.db"], "Missing option '--older-than'"),
    *((["runs", "prune", "runs.db", "--older-than", text], f"{text} is not a duration") for text in ("30", "d", "-1d")),
    ([*RUN[:-1], "Book another."], "the run a trip began with other inputs"),
)
def test_mistake_is_one_line_and_exits_2(arguments: list[str], expected: str) -> None:
    if not Path("runs.db").exists():
        command(*RUN)
    ended = command(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert expected in ended.err
    assert [line[:11] for line in ended.err.splitlines()].count("graphexec: ") == 1


@pytest.mark.medium
def test_run_of_another_machine_is_refused() -> None:
    command(*RUN)
    ended = runs("resume", "trips.py:flying", "a trip")
    assert (ended.code, ended.out) == (1, "")
    assert "was begun by another version of this machine" in ended.err
    assert listed()[0]["status"] == "waiting"


def test_locked_file_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_store, "_BUSY", 0.01)
    SQLiteRuns("runs.db").close()
    other = sqlite3.connect("runs.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        for arguments in (("runs", "list", "runs.db"), RUN):
            error = refused(*arguments)
            assert "runs.db" in error
            assert "database is locked" in error
    finally:
        other.close()


REVIEW = {"type": "object", "required": ["decision"], "properties": {"decision": {"enum": ["approve", "edit"]}}}


@cases(
    ("schema", "text", "value"),
    ({"type": "string"}, "15", "15"),
    ({"type": "string"}, '"x"', '"x"'),
    ({"type": "integer"}, "15", 15),
    ({"type": "integer"}, "fifteen", InputError),
    ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "fifteen", "fifteen"),
    ({"type": "string", "enum": ["yes", "no"]}, "no", "no"),
    ({"type": "string", "enum": ["yes", "no"]}, "maybe", InputError),
    ({"type": "boolean"}, "true", True),
    ({}, '{"paid": 5}', {"paid": 5}),
    ({}, "paid", "paid"),
    (REVIEW, "approve", "approve"),
    (REVIEW, '{"decision": "edit", "arguments": {}}', {"decision": "edit", "arguments": {}}),
    (REVIEW, "[", InputError),
)
def test_answers_are_read_by_the_schema(schema: dict[str, Any], text: str, value: Any) -> None:
    asked = Question("trip", "trip/1.0", "node", "AskHuman", "What?", None, schema, 0.0)
    if isinstance(value, type):
        with pytest.raises(value):
            asked.read(read_value(asked, text))
    else:
        assert read_value(asked, text) == value


@cases(
    ("name", "shown"),
    ("runs.db", "runs.db"),
    ("postgresql://me:secret@host/x", "postgresql://me:***@host/x"),
    ("postgresql://me@host/x?password=secret&sslmode=off", "postgresql://me@host/x?password=***&sslmode=off"),
    ("postgresql://me:@/x?host=/tmp", "postgresql://me:@/x?host=/tmp"),
)
def test_passwords_are_not_shown(name: str, shown: str) -> None:
    assert without_password(name) == shown


def test_durations() -> None:
    assert [parse_duration(text) for text in ("90s", "1.5m", "12h", "30d", "1w")] == [
        90,
        90,
        43_200,
        2_592_000,
        604_800,
    ]
    assert [*map(format_age, (-1, 59, 60, 7200, 90_000))] == ["0 s", "59 s", "1 min", "2 h", "1 d"]
