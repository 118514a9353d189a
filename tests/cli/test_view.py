"""`graphexec view`: a run as a page, live, and errors of invalid traces."""

import re
import sqlite3
import webbrowser
from pathlib import Path

import pytest

from graphexec.draw import Recording
from graphexec.runs import SQLiteRuns
from tests.cli.terminals import Ended, Program, command, refused
from tests.cli.traced import QUESTION, TRACE, make_executor, record_run
from tests.draw.browser import page_of
from tests.live.readers import fetch
from tests.parameters import cases

RECORDED = record_run()
RECORDING = Recording.from_json_lines(RECORDED)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / TRACE).write_text(RECORDED, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def visited(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that the browser opens."""
    addresses: list[str] = []

    def visit(address: str) -> bool:
        addresses.append(address)
        return True

    monkeypatch.setattr(webbrowser, "open", visit)
    return addresses


def test_page_may_be_opened(folder: Path, visited: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert command("view", TRACE, "-o", "run.html", "--no-open") == Ended(0, "run.html\n", "")
    assert (folder / "run.html").read_text(encoding="utf-8") == page_of(RECORDING)
    assert visited == []
    ended = command("view", TRACE)
    assert (ended.code, ended.err) == (0, "")
    page = Path(ended.out.strip())
    try:
        assert visited == [page.as_uri()]
        assert page.read_text(encoding="utf-8") == page_of(RECORDING)
    finally:
        page.unlink()

    def fail(_: str) -> bool:
        return False

    monkeypatch.setattr(webbrowser, "open", fail)
    error = "graphexec: cannot open a browser; open the address in yours\n"
    assert command("view", TRACE, "-o", "run.html") == Ended(0, "run.html\n", error)


@cases("file", "x.svg", "my run.txt", "x")
def test_wrong_suffix_is_refused(folder: Path, file: str) -> None:
    remedy = "name such a file, or draw the machine: graphexec draw --run trace.jsonl"
    expected = f"graphexec: {file} does not have the suffix .html or .htm of a page; {remedy}\n"
    assert command("view", TRACE, "-o", file) == Ended(2, "", expected)
    assert [one.name for one in folder.iterdir()] == [TRACE]


def test_incomplete_trace_is_shown(folder: Path) -> None:
    lines = RECORDED.splitlines(keepends=True)
    (folder / "cut.jsonl").write_text("".join(lines[:7]) + lines[7][:20], encoding="utf-8")
    ended = command("view", "cut.jsonl", "--no-open", "-o", "run.htm")
    assert ended.code == 0
    assert ended.err == "graphexec: cut.jsonl: line 8 is incomplete; the run is shown up to there\n"
    assert (folder / "run.htm").read_text(encoding="utf-8") == page_of(Recording(RECORDING.records[:7]))
    # A last line without a newline is complete.
    (folder / "whole.jsonl").write_text("".join(lines).rstrip("\n"), encoding="utf-8")
    assert command("view", "whole.jsonl", "--no-open", "-o", "run.html").err == ""


END = RECORDED.count("\n") + 1


def broken(record: int, **changed: object) -> str:
    """Return a trace in which one record has changed fields; `None` removes a field."""
    records = [*RECORDING.records]
    now = {**records[record], **changed}
    records[record] = {name: one for name, one in now.items() if one is not None}
    return Recording(records).to_json_lines()


@cases("arguments", ["view", TRACE, "--no-open"], ["draw", "--run", TRACE])
@cases(
    ("text", "expected"),
    ("", "these records do not begin with a start"),
    ("\n", "these records do not begin with a start"),
    (RECORDED.partition("\n")[2], "these records do not begin with a start"),
    ('{"event": "start", "version": 2, "machine": {}}\n', "line 1: this is not the picture of a machine: start: "),
    (RECORDED + "{]\n", f"line {END} is not a record; "),
    (RECORDED + "\n[1]\n", f"line {END + 1} is not a record; "),
    (RECORDED + '\n{"event": "moved", "node": "plan"}\n', f"line {END + 1} is not a valid record: moved.outcome: "),
    (broken(1, spent=None), "line 2 is not a valid record: entered.spent: "),
    (broken(2, effects=None), "line 3 is not a valid record: asked.effects: "),
    (broken(2, effects=[{"tool": "double"}]), "line 3 is not a valid record: asked.effects.0.effect: "),
    (broken(3, replies=None), "line 4 is not a valid record: answered.replies: "),
    (broken(3, seconds=[]), "line 4 is not a valid record: answered.seconds: "),
    (broken(4, target=None), "line 5 is not a valid record: moved.target: "),
    ("".join(RECORDED.splitlines(keepends=True)[:5]) + "[" * 100_000, "line 6 is not a record; "),
)
def test_invalid_trace_names_file_and_line(folder: Path, arguments: list[str], text: str, expected: str) -> None:
    (folder / TRACE).write_text(text, encoding="utf-8")
    assert f"graphexec: trace.jsonl: {expected}" in refused(*arguments)


@cases(
    ("arguments", "expected"),
    (["no/t.jsonl"], "no/t.jsonl cannot be read: there is no such file; check its name\n"),
    (["."], ". cannot be read: Is a directory; name a text file\n"),
    ([TRACE, "--port", "80"], "--port needs --live; add --live"),
    ([TRACE, "--live", "-o", "run.html"], "--live cannot write a file; leave out -o"),
    (["-", "--live"], "the standard input cannot be followed; name the file"),
    ([".", "--live"], ". is a folder; name the file"),
    ([TRACE, "-o", "nowhere/run.html", "--no-open"], "nowhere/run.html cannot be written: there is no folder "),
)
def test_wrong_usage_is_one_line_and_exits_2(folder: Path, arguments: list[str], expected: str) -> None:
    assert f"graphexec: {expected}" in refused("view", *arguments)


@pytest.mark.medium
@cases(("name", "note"), (TRACE, ""), ("later.jsonl", ", which does not exist yet"))
def test_live_page_follows_a_file_until_ctrl_c(folder: Path, name: str, note: str) -> None:
    following = f"graphexec: following {name}{note}; press Ctrl-C to stop\n"
    with Program("view", "--live", name, "--no-open") as viewing:
        url = viewing.read_line().strip()
        viewing.until(following)
        (folder / name).write_text(RECORDED, encoding="utf-8")
        assert "plan --Replied--&gt; parse" in fetch(url).text
        ended = viewing.interrupt()
    assert (ended.code, ended.out, ended.err) == (0, "", following)


@pytest.mark.medium
def test_terminated_live_page_closes_its_server(folder: Path) -> None:
    with Program("view", "--live", TRACE, "--no-open") as viewing:
        assert viewing.read_line().startswith("http://")
        viewing.process.terminate()
        ended = viewing.end()
    assert ended.code == 143
    assert ended.err.endswith("graphexec: terminated by SIGTERM\n")


def test_live_opens_the_browser_without_the_token(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, int, str]] = []

    def visit(address: str) -> bool:
        file = Path(address.removeprefix("file://"))
        seen.append((address, file.stat().st_mode & 0o777, file.read_text(encoding="utf-8")))
        raise KeyboardInterrupt

    monkeypatch.setattr(webbrowser, "open", visit)
    ended = command("view", "--live", TRACE)
    [(address, mode, text)] = seen
    url = ended.out.strip()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}", url)
    assert (ended.code, mode, f"url={url}" in text) == (0, 0o600, True)
    assert url.partition("=")[2] not in address + ended.err
    assert not Path(address.removeprefix("file://")).exists()


@pytest.mark.medium
def test_store_is_served_until_ctrl_c(folder: Path) -> None:
    with SQLiteRuns("my runs.db") as store:
        make_executor().run(QUESTION, runs=store, run_id="sum")
    serving = "graphexec: serving my runs.db; press Ctrl-C to stop\n"
    with Program("view", "my runs.db", "--no-open", "--port", "0") as viewing:
        url = viewing.read_line().strip()
        viewing.until(serving)
        assert 'href="run?id=sum"' in fetch(url).text
        page = fetch(url.replace("/?", "/run?id=sum&")).text
        assert "plan --Replied--&gt; parse" in page
        ended = viewing.interrupt()
    assert (ended.code, ended.out, ended.err) == (0, "", serving)


def test_other_databases_are_refused_and_not_changed(folder: Path) -> None:
    file = folder / "other.db"
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE t(x)")
    database.close()
    before = file.read_bytes()
    remedy = "other.db is a database without runs; name the file of graphexec run --runs"
    assert f"graphexec: {remedy}" in refused("view", "other.db")
    assert (file.read_bytes(), [*folder.glob("other.db?*")]) == (before, [])
    assert "a store cannot write a file; leave out -o" in refused("view", "other.db", "-o", "x.html")
    ended = command("view", "postgresql://me:secret@127.0.0.1:1/none")
    assert (ended.code, "of runs cannot be used" in ended.err, "secret" in ended.err) == (2, True, False)
    assert ended.err.count("\n") == 1
