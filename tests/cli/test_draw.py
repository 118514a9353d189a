"""`graphexec draw`: every format, to the screen and to files, with its proof and with runs over it."""

import io
import json
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import get_args
from xml.etree import ElementTree as ET

import pytest

from graphexec import Limits, executor
from graphexec.cli.commands import enter
from graphexec.cli.drawing import Format
from graphexec.draw import FORMATS, SUFFIXES, Recording, draw
from tests.cli.machines_of_mine import MACHINES, lay_out
from tests.cli.terminals import ARGUMENTS, PATIENCE, Ended, Terminal, command, environment, refused
from tests.cli.test_commands import python
from tests.cli.traced import TRACE, make_executor, record_run
from tests.parameters import cases

_SVG = "{http://www.w3.org/2000/svg}"
PROVED = executor.AGENT_EXECUTOR.verify(Limits())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / TRACE).write_text(record_run(), encoding="utf-8")
    return lay_out(tmp_path, monkeypatch, {"machines_of_mine": MACHINES})


@cases("how", *FORMATS)
def test_every_text_format_is_printed(how: str) -> None:
    assert command("draw", "--format", how) == Ended(0, draw(PROVED, how), "")
    assert {*get_args(Format)} == {*FORMATS, "png"}


@cases("target", [], *(["machines_of_mine" + one] for one in (":machine", ":Company.executor", ".py:machine")))
def test_draw_takes_graphs_and_executors(folder: Path, target: list[str]) -> None:
    assert command("draw", *target) == Ended(0, draw(PROVED, "mermaid"), "")
    assert "Proved: every run ends" in draw(PROVED, "mermaid")


@pytest.mark.medium
@cases(("suffix", "how"), *SUFFIXES.items())
def test_file_suffix_sets_the_format(folder: Path, suffix: str, how: str) -> None:
    assert command("draw", "-o", f"machine{suffix}") == Ended(0, "", "")
    content = (folder / f"machine{suffix}").read_bytes()
    assert content.startswith(b"\x89PNG") if how == "png" else content.decode() == draw(PROVED, how)


def test_format_option_overrides_the_suffix(folder: Path) -> None:
    assert command("draw", "-o", "machine.txt", "--format", "dot").code == 0
    assert (folder / "machine.txt").read_text(encoding="utf-8") == draw(PROVED, "dot")


@pytest.mark.medium
def test_png_is_written_to_pipes_only() -> None:
    with redirect_stdout(Terminal()) as out, redirect_stderr(io.StringIO()) as err, pytest.raises(SystemExit) as ended:
        enter(("draw", "--format", "png"))
    assert (ended.value.code, out.getvalue()) == (2, "")
    assert err.getvalue() == "graphexec: a PNG cannot be shown on a terminal; name a file: -o machine.png\n"
    arguments = [*ARGUMENTS, "draw", "--format", "png"]
    piped = subprocess.run(arguments, capture_output=True, check=True, env=environment(), timeout=PATIENCE)
    assert piped.stdout.startswith(b"\x89PNG")


@pytest.mark.medium
def test_runs_are_drawn_over_their_machine(folder: Path) -> None:
    drawn = command("draw", "--run", TRACE, "--format", "svg").out
    edges = {}
    for one in ET.fromstring(drawn).iter(f"{_SVG}g"):
        title = one.find(f"{_SVG}title")
        if title is not None and "data-edge" in one.attrib:
            edges[title.text] = one.get("class", "").split()
    assert "taken" in edges["plan --Replied--> parse"]
    assert "untaken" in edges["plan --Stopped--> stopped_response"]
    assert "Answered after" in drawn
    assert "2 runs: 2 answered" in command("draw", "--run", TRACE, "--run", TRACE, "--format", "text").out
    assert command("draw", "--run", TRACE, "-o", "run.html").code == 0
    recording = Recording.from_json_lines((folder / TRACE).read_text(encoding="utf-8"))
    assert (folder / "run.html").read_text(encoding="utf-8") == draw(recording.machine, "html", runs=recording)
    start, _, rest = record_run().partition("\n")
    known = {name: one for name, one in json.loads(start).items() if name != "limits"}
    (folder / "old.jsonl").write_text(f"{json.dumps(known)}\n{rest}", encoding="utf-8")
    drawn = command("draw", "machines_of_mine:Company.executor", "--run", "old.jsonl").out
    assert draw(PROVED, "mermaid").partition("Proved")[2].partition("\n")[0] in drawn


LONG = "long.jsonl"
RETRIED = ["machines_of_mine:strict", "--run", "retried.jsonl"]
STANDARD = "graphexec.executor:AGENT_EXECUTOR"


@pytest.fixture
def long_run(folder: Path) -> Recording:
    """A run with a limit of a hundred iterations, beside one with fifteen."""
    text = record_run(max_iterations=100)
    (folder / LONG).write_text(text, encoding="utf-8")
    return Recording.from_json_lines(text)


@cases("target", (), (STANDARD,), ("machines_of_mine:Company.executor",))
def test_proof_has_the_limits_of_the_run(long_run: Recording, target: tuple[str, ...]) -> None:
    drawn = command("draw", *target, "--run", LONG, "--format", "text").out
    # Without a target, it is the machine that ran, whose agent has one action a reply.
    machine = executor.AGENT_EXECUTOR.verify(long_run.limits) if target else make_executor(max_iterations=100).verify()
    assert drawn == draw(machine, "text", runs=long_run)
    assert "costs 1 of 100 iterations" in drawn
    # Runs with different limits share no proof.
    drawn = command("draw", *target, "--run", LONG, "--run", TRACE, "--format", "text").out
    assert "2 runs: 2 answered" in drawn
    for one in ("Proved", " of 100 iterations", " of 15 iterations"):
        assert one not in drawn


@cases("place", "nowhere/machine.svg", "folder.svg")
def test_unwritable_file_is_one_line(folder: Path, place: str) -> None:
    (folder / "folder.svg").mkdir(exist_ok=True)
    error = refused("draw", "-o", place)
    assert f"graphexec: {place} cannot be written: " in error
    assert "name another file" in error


def test_file_is_replaced_atomically(folder: Path) -> None:
    place, link = folder / "machine.dot", folder / "link.dot"
    place.write_text("old", encoding="utf-8")
    place.chmod(0o640)
    link.symlink_to(place)
    with place.open(encoding="utf-8") as reader:
        assert command("draw", "-o", "link.dot").code == 0
        # A reader with the file open still reads the old content.
        assert reader.read() == "old"
    assert place.read_text(encoding="utf-8") == draw(PROVED, "dot")
    assert place.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()
    assert {one.name for one in (*folder.glob("*.dot"), *folder.glob(".*"))} == {"machine.dot", "link.dot"}


@cases(
    ("arguments", "expected"),
    (["-o", "machine.gif"], "the suffix .gif of machine.gif is unknown; use one of .mmd,"),
    (["-o", "machine"], ".png, or pass the format with --format\n"),
    (["--run", "nowhere.jsonl"], "nowhere.jsonl cannot be read: "),
    (["machines_of_mine.py:number", "--run", TRACE], "is an int, not a graph"),
    (["examples_strict:machine", "--run", TRACE], "there is no module examples_strict"),
    (RETRIED, "the run took parse --Ready--> plan, which this machine does not have; draw it over the one that "),
)
def test_drawing_errors_are_one_line_and_exit_2(folder: Path, arguments: list[str], expected: str) -> None:
    (folder / "retried.jsonl").write_text(record_run("no JSON at all"), encoding="utf-8")
    assert expected in refused("draw", *arguments)


@pytest.mark.medium
def test_missing_graphviz_is_one_line() -> None:
    lacking = "import sys; sys.modules['pygraphviz'] = None; sys.argv[1:] = ['draw', '--format', 'svg']"
    ended = python(f"{lacking}\nfrom graphexec.cli import main; main()")
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert "graphexec-agents[draw]" in ended.stderr
