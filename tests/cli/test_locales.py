"""Every command and every format in locales that cannot encode the text: nothing fails, and nothing is lost."""

import io
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args
from xml.etree import ElementTree as ET

import pytest

from graphexec.cli import commands
from graphexec.cli.commands import enter
from graphexec.cli.terminal import make_writable
from tests.cli.machines_of_mine import lay_out
from tests.cli.terminals import ARGUMENTS, PATIENCE, environment
from tests.parameters import cases, read_tables

MINE: str = read_tables(__file__)["mine"]


ENCODINGS = ["ascii", "latin-1", "cp1252"]

# The arguments of each command, by its name; each is run with every format that it has.
COMMANDS: Mapping[str, Sequence[str]] = {
    "run": [
        *(f"mine.py:executor 'wie groß → ?'{option}" for option in ("", " --json", " --quiet")),
        "größe.py:executor 'wie groß → ?' --runs größe.db --id größe",
        *("mine.py:größe 'wie groß?'", "größe.py:executor 'wie groß?'", "größe.py:executor 'wie groß?' --json"),
    ],
    "chat": ["größe.py:executor"],
    "check": ["mine.py", "mine.py:maschine", "größe.py:executor", "mine.py:größe"],
    "draw": ["mine.py:maschine", "mine.py:executor --run spur.jsonl", "größe.py:executor"],
    "view": [
        *("spur.jsonl --no-open", "spur.jsonl --no-open -o größe.html", "größe.jsonl"),
    ],
    "serve": ["größe.py:nichts"],
    "export": ["mine.py:maschine", "größe.py:executor"],
    "models": [""],
    "runs": [""],
    "runs list": ["größe.db", "größe.db --json"],
    "runs show": ["größe.db größe", "größe.db größe --json", "größe.db →"],
    "runs reply": ["größe.db größe größe/1.0 →"],
    "runs resume": ["größe.db größe.py:executor größe", "größe.db größe.py:executor"],
    "runs fork": ["größe.db größe"],
    "runs cancel": ["größe.db größe"],
    "runs prune": ["größe.db --older-than 0s"],
    "models pull": ["größe"],
}


TOP: dict[str, Any] = {name: commands.load_command(name) for name in commands.COMMANDS}
LEAVES = TOP | {
    f"{outer} {name}": one for outer, found in TOP.items() for name, one in getattr(found, "commands", {}).items()
}


def formats_of(name: str) -> list[str]:
    for parameter in LEAVES[name].params:
        if "--format" in parameter.opts:
            # Newer versions of typer have a description of the type.
            described = getattr(parameter, "type_descriptor", None)
            return list(get_args(described.annotation)) if described is not None else list(parameter.type.choices)
    return [""]


MATRIX = [
    (name, shlex.split(arguments), wanted)
    for name, several in COMMANDS.items()
    if name in LEAVES
    for arguments in several
    for wanted in formats_of(name)
]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out(tmp_path, monkeypatch, {"mine": MINE, "größe": MINE})


@pytest.fixture
def traced(here: None) -> None:
    assert in_locale("utf-8", "run", "mine.py:executor", "wie groß → ?", "--record", "spur.jsonl")[0] == 0


def in_locale(encoding: str, *arguments: str) -> tuple[object, bytes, bytes]:
    """Run a command with streams of this encoding; return its exit code and its output."""
    printed, reported = io.BytesIO(), io.BytesIO()
    out, err = (io.TextIOWrapper(stream, encoding=encoding) for stream in (printed, reported))
    trace = Path("spur.jsonl").read_bytes() if Path("spur.jsonl").exists() else b""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(trace), encoding=encoding))
        with pytest.raises(SystemExit) as exited:
            enter(arguments)
        out.flush()
        err.flush()
    return exited.value.code, printed.getvalue(), reported.getvalue()


def test_every_command_is_in_the_matrix() -> None:
    assert set(LEAVES) <= set(COMMANDS), "add the command to COMMANDS"


@pytest.mark.medium
@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_format_is_written_in_every_locale(encoding: str) -> None:
    for name, arguments, wanted in MATRIX:
        options = ["--format", wanted] if wanted else []
        code, out, err = in_locale(encoding, *name.split(), *arguments, *options)
        shown = (name, arguments, wanted, code, out[-300:], err[-600:])
        assert code in (0, 1, 2, 3), shown
        assert b"Traceback" not in err, shown
        assert b"UnicodeEncodeError" not in err, shown
        err.decode(encoding)
        if wanted != "png":
            # Reports, pictures and paths are UTF-8; the answers of agents are what the terminal can show.
            out.decode(encoding if name.partition(" ")[0] in ("run", "chat", "models", "runs") else "utf-8")


PICTURES = ("svg", "html", "mermaid", "dot", "png", "text")


@pytest.mark.medium
@cases(
    "command",
    *(("draw", one, 0) for one in PICTURES),
    *(("check", one, None) for one in ("json", "sarif", "github", "text")),
)
def test_data_is_the_same_in_every_locale(command: tuple[str, str, int | None]) -> None:
    name, how, expected = command
    arguments = (name, "mine.py:maschine", "--format", how)
    code, out, _ = in_locale("utf-8", *arguments)
    assert expected in (None, code)
    assert in_locale("ascii", *arguments)[:2] == (code, out)
    assert how != "svg" or ET.fromstring(out.decode()) is not None


@cases("file", "m.svg", "m.mmd", "m.dot", "m.html", "m.txt")
def test_files_are_utf_8_in_every_locale(file: str) -> None:
    contents: list[str] = []
    for encoding in ("utf-8", "ascii"):
        assert in_locale(encoding, "draw", "mine.py:maschine", "-o", file)[0] == 0
        contents.append(Path(file).read_text(encoding="utf-8"))
    assert contents[0] == contents[1]
    assert "wähle" in contents[0]


@pytest.mark.medium
@pytest.mark.usefixtures("traced")
def test_path_of_a_page_is_that_of_the_file_system() -> None:
    code, out, _ = in_locale("ascii", "view", "spur.jsonl", "--no-open", "-o", "größe.html")
    assert (code, os.fsdecode(out)) == (0, "größe.html\n")
    assert Path("größe.html").exists()


def test_answer_keeps_every_character() -> None:
    code, out, _ = in_locale("ascii", "run", "mine.py:executor", "groß?", "--quiet")
    assert (code, out) == (0, b"37 \\xb0C \\u2192 gro\\xdf? \\u5b8c\\u4e86 \\ud800\n")


def test_arguments_of_another_locale_are_read_as_utf_8() -> None:
    """In the C locale, Python keeps the bytes of an argument as lone surrogates."""
    question = os.fsdecode(b"gr\xc3\xb6\xc3\x9fe").encode().decode("ascii", "surrogateescape")
    code, out, _ = in_locale("utf-8", "run", "mine.py:executor", question, "--json")
    assert code == 0
    assert json.loads(out.splitlines()[0])["input"] == "größe"
    code, _, err = in_locale("utf-8", "run", "mine.py:executor", "gr\udcf6\udcdfe")
    assert (code, b"it is not UTF-8; write it in UTF-8, or write ASCII" in err) == (2, True)


LONE = "gr\udcf6"


@cases(
    "arguments",
    *(["run", f"{LONE}.py:executor", "q"], ["check", f"{LONE}.py:executor"], ["draw", f"{LONE}:executor"]),
    *(["view", f"{LONE}.jsonl"], ["run", "q", "--model", f"{LONE}:m"], ["run", "q", "--tools", f"{LONE}:m"]),
    *(["check", f"{LONE}.py:executor", "--format", "json"], [LONE]),
    *(["export", f"{LONE}:m", "--format", "tla"], ["run", "q", f"--{LONE}"]),
    *(["models", "pull", LONE], ["run", "q", "--memory", f"{LONE}/talk.db"]),
)
def test_names_with_lone_surrogates_are_reported(arguments: list[str]) -> None:
    code, _, err = in_locale("utf-8", *arguments)
    assert code in (1, 2), err
    assert b"gr\\udcf6" in err or "--format" in arguments, err


GERMAN = ["run", "größe.py:executor", "wie groß → ?"]
C_COMMANDS = [
    *(GERMAN, [*GERMAN, "--json", "--record", "größe.jsonl"], ["--help"], ["run", "--help"]),
    *(["check", "größe.py:maschine"], ["draw", "größe.py:maschine", "--format", "text"]),
    *(["draw", "größe.py:maschine", "-o", "größe.svg"], ["view", "größe.jsonl", "--no-open", "-o", "größe.html"]),
]


@pytest.mark.slow
@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("variables", [{"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "latin-1"}, {}])
def test_commands_work_in_the_c_locale(variables: dict[str, str]) -> None:
    own = environment(LC_ALL="C", PYTHONUTF8="0", **variables)
    for arguments in C_COMMANDS:
        ended = subprocess.run([*ARGUMENTS, *arguments], capture_output=True, check=False, env=own, timeout=PATIENCE)
        assert ended.returncode in (0, 3), (arguments, ended.stderr[-600:])
        # The path of a file has the bytes that it has in the file system.
        printed = ended.stdout.replace("größe.".encode(), b"")
        # Reports and drawings are UTF-8, as files are; other text has escapes.
        is_report = arguments[0] in ("check", "draw")
        printed.decode("utf-8" if is_report else variables.get("PYTHONIOENCODING", "ascii"))
    assert json.loads(Path("größe.jsonl").read_text(encoding="utf-8").splitlines()[0])["input"] == "wie groß → ?"


def test_closed_streams_become_the_null_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python has none for a descriptor that the shell has closed with `>&-`."""
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    make_writable()
    with sys.stdout as out, sys.stderr as err:
        assert (out.name, err.name) == (os.devnull, os.devnull)
        assert out.write("\u2192") == 1
