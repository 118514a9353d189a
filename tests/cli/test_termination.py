"""SIGTERM and SIGHUP leave a result record, whatever blocks; a file is recorded to by one run; records are private."""

import multiprocessing
import os
import pickle
import signal
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from graphexec.cli.exit_codes import Terminated, UsageError
from graphexec.cli.files import open_for_writing
from graphexec.cli.runs import termination
from graphexec.cli.runs.termination import terminable, uninterrupted
from tests.cli.conversations import Reply, Silence, serving, tool_call_text
from tests.cli.terminals import PATIENCE, Ended, Program, command
from tests.cli.test_run import SOLVED, TOOLS, asking, run
from tests.parameters import cases, read_tables
from tests.traces import read_trace

MORE_TOOLS: str = read_tables(__file__)["more_tools"]


@pytest.fixture(autouse=True)
def heed_hangups() -> Iterator[None]:
    """Let SIGHUP have its effect, here and in subprocesses, also where the tests are run by `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file of --record."""
    return tmp_path / "trace.jsonl"


def result_in(file: Path) -> dict[str, Any]:
    """Return the only result of the records, which is the last of them."""
    records = read_trace(file.read_text(encoding="utf-8"))
    assert [record["event"] for record in records].count("result") == 1
    return {**records[-1]}


def run_until_killed(replies: list[Reply], number: int, folder: Path, *options: str) -> tuple[Ended, dict[str, Any]]:
    """Send a signal to a recorded run that waits; return its end and the result's record."""
    file = folder / "trace.jsonl"
    with serving(replies) as server, Program(*asking(server, "--record", str(file), *options), cwd=folder) as running:
        if isinstance(replies[0], Silence):
            assert server.waiting.wait(PATIENCE)
        else:
            running.until("the tool waits")
        running.process.send_signal(number)
        ended = running.end()
    return ended, result_in(file)


@pytest.mark.medium
@cases("number", signal.SIGTERM, signal.SIGHUP)
def test_signal_leaves_a_result(number: signal.Signals, tmp_path: Path) -> None:
    ended, result = run_until_killed([Silence()], number, tmp_path)
    assert ended.code == result["exit_code"] == 128 + number
    assert (result["status"], result["spent"]["model_calls"]) == ("interrupted", 1)
    assert result["error"] == {"type": "Terminated", "message": f"terminated by {number.name}"}
    assert f"Terminated by {number.name} at plan, after 0 steps" in ended.err


@pytest.mark.slow
@cases("options", [], ["--limit", "seconds=1000"])
@cases("name", "sleep", "wait", "child", "stubborn")
def test_blocked_tool_is_terminated(name: str, options: list[str], tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(f"{TOOLS}{MORE_TOOLS}", encoding="utf-8")
    call = tool_call_text(name)
    ended, result = run_until_killed([call], signal.SIGTERM, tmp_path, "--tools", f"mine.py:{name}", *options)
    assert ended.code == 143
    assert (result["status"], result["exit_code"], result["error"]["type"]) == ("interrupted", 143, "Terminated")
    assert result["spent"]["tool_calls"] == 1


# ---- in this process


def interrupt(number: signal.Signals) -> None:
    """Wait for a signal that this process sends to itself."""
    os.kill(os.getpid(), number)
    threading.Event().wait()


def test_signal_is_raised_where_the_program_waits() -> None:
    with pytest.raises(Terminated) as raised, terminable():
        interrupt(signal.SIGTERM)
    assert (raised.value.number, raised.value.code, str(raised.value)) == (15, 143, "terminated by SIGTERM")
    assert pickle.loads(pickle.dumps(raised.value)).code == 143
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.set_wakeup_fd(-1) == -1


def test_later_signal_is_ignored() -> None:
    def clean_up() -> None:
        with terminable():
            try:
                interrupt(signal.SIGHUP)
            finally:
                os.kill(os.getpid(), signal.SIGTERM)
                cleaned.append(1)

    cleaned: list[int] = []
    with pytest.raises(Terminated, match="SIGHUP"):
        clean_up()
    assert cleaned == [1]


def test_line_is_written_before_the_signal() -> None:
    def write() -> None:
        with terminable():
            with uninterrupted():
                os.kill(os.getpid(), signal.SIGTERM)
                lines.append("whole")
            lines.append("another")

    lines: list[str] = []
    with pytest.raises(Terminated):
        write()
    assert lines == ["whole"]


def test_signals_of_others_are_left_alone() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with terminable():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)

    def enter() -> object:
        with terminable():
            return signal.getsignal(signal.SIGTERM)

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(enter).result() == signal.SIG_DFL
    context = multiprocessing.get_context("fork")
    ready = context.Event()

    def wait() -> None:
        ready.set()
        threading.Event().wait()

    with terminable():
        child = context.Process(target=wait)
        child.start()
        assert ready.wait(PATIENCE)
        child.terminate()
        child.join(PATIENCE)
    assert child.exitcode == -signal.SIGTERM


class Exited(BaseException):
    """The end of a process, instead of its end."""


def test_stuck_program_ends_after_its_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    exits: list[int] = []
    last_words: list[Terminated] = []
    over = threading.Event()

    def leave(code: int) -> None:
        exits.append(code)
        over.set()
        raise Exited

    def ignore(_: object) -> None:
        """Report no exception of a thread."""

    monkeypatch.setattr(termination, "_GRACE", 0.01)
    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr(threading, "excepthook", ignore)
    with terminable(last_words.append):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            over.wait(PATIENCE)
        except Terminated:
            # As a tool does that catches every exception.
            assert over.wait(PATIENCE)
    assert exits == [143]
    assert [str(one) for one in last_words] == ["terminated by SIGTERM"]


# ---- the file of --record


@pytest.mark.medium
def test_file_is_written_by_one_run(file: Path) -> None:
    with serving(SOLVED) as server, open_for_writing(file) as out:
        print("the first run", file=out)
        ended = command(*asking(server, "--record", str(file)))
        print("goes on", file=out)
        assert server.asked == []
    remedy = "wait for its end, or name another file"
    assert (ended.code, ended.err) == (2, f"graphexec: {file} is being written by another run; {remedy}\n")
    assert file.read_text(encoding="utf-8") == "the first run\ngoes on\n"
    with serving([Silence()]) as server, Program(*asking(server, "--record", str(file))) as running:
        assert server.waiting.wait(PATIENCE)
        with pytest.raises(UsageError, match="is being written by another run"):
            open_for_writing(file)
        running.process.kill()
        running.end()
    assert run(SOLVED, "--record", str(file)).code == 0
    assert result_in(file)["output"] == "37 * 48 is 1776."


@pytest.mark.usefixtures("pulled")
def test_prevented_run_has_its_result(file: Path) -> None:
    assert command("run", "Hello", "--record", str(file)).code == 1
    (record,) = read_trace(file.read_text(encoding="utf-8"))
    assert (record["event"], record["status"], record["exit_code"]) == ("result", "error", 1)
    assert record["error"] == {"type": "WeightsError", "message": "there is no net"}


@pytest.mark.medium
def test_files_of_a_run_are_private(file: Path, tmp_path: Path) -> None:
    options = ["--record", str(file), "--memory", str(tmp_path / "talk.db")]
    before = os.umask(0)
    try:
        assert run(SOLVED, *options).code == 0
        assert command("view", str(file), "-o", str(tmp_path / "view.html"), "--no-open").code == 0
        assert command("draw", "--run", str(file), "-o", str(tmp_path / "run.svg")).code == 0
    finally:
        os.umask(before)
    modes = {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in tmp_path.iterdir()}
    assert modes == dict.fromkeys(modes, "0o600")
    assert {"trace.jsonl", "talk.db", "view.html", "run.svg"} <= {*modes}


@pytest.mark.medium
def test_files_of_earlier_runs_are_kept(file: Path, tmp_path: Path) -> None:
    file.touch()
    file.chmod(0o640)
    assert run(SOLVED, "--record", str(file)).code == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
