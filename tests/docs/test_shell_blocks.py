"""The commands in the README and in docs exist: programs, subcommands, options, extras, sessions and files."""

import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.parameters import cases

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
HELP = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
EXTRAS = set(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"])
SESSIONS = re.findall(r"(?m)^def (\w+)\(session", (ROOT / ".ci" / "noxfile.py").read_text(encoding="utf-8"))

# Programs whose arguments are not checked.
OTHERS = {".", "cd", "export", "git", "ollama", "pre-commit"}
BLOCK = re.compile(r"(?ms)^( *)```(?:sh|bash|console|shell)\b[^\n]*\n(.*?)^\1```")


BLOCKS: dict[str, str] = {
    f"{page.relative_to(ROOT)} {number}": commands
    for page in PAGES
    for number, (_, commands) in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")), 1)
}


def files_of_page(name: str) -> set[str]:
    """Return the files that a reader of the block's page has written."""
    text = (ROOT / name.rpartition(" ")[0]).read_text(encoding="utf-8")
    return {*re.findall(r'title="([^"]+)"', text), *re.findall(r"`(\w+\.py)`", text)}


def check_graphexec(arguments: list[str]) -> None:
    subcommands = re.findall(r"(?m)^## graphexec(?: (.+))?$", HELP)
    named = [one for one in arguments if not one.startswith("-")]
    subcommand = next((text for text in (" ".join(named[:2]), named[0] if named else "") if text in subcommands), None)
    assert subcommand is not None, named
    section = HELP.split(f"\n## graphexec {subcommand}".rstrip() + "\n")[1].partition("\n## ")[0]
    for option in (one.partition("=")[0] for one in arguments if one.startswith("-")):
        assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", section), (subcommand, option)


def check(name: str, words: list[str]) -> None:
    """Fail unless one command is known."""
    program, *arguments = words
    match program:
        case "graphexec":
            check_graphexec(arguments)
        case "pip":
            assert arguments[0] == "install"
            extras = {extra for one in arguments for extra in re.findall(r"\[([\w,]+)\]", one)}
            assert {extra for several in extras for extra in several.split(",")} <= EXTRAS
        case "python" | "python3" if arguments[:1] == ["-m"]:
            check(name, arguments[1:])
        case "python" | "python3":
            assert (ROOT / arguments[0]).is_file() or arguments[0] in files_of_page(name)
        case "pytest":
            paths = [one.partition("::")[0] for one in arguments if one[0] != "-" and re.search(r"/|\.py\b", one)]
            assert [path for path in paths if not (ROOT / path).exists() and path not in files_of_page(name)] == []
        case "nox":
            assert arguments[arguments.index("-s") + 1] in [*SESSIONS, "all"]
        case "hatchling" | "twine" | "venv":
            assert arguments
        case _:
            assert program in OTHERS, f"{program} is not checked; add it to this test"


@pytest.mark.medium
@cases("name", *BLOCKS)
def test_shell_block_is_valid(name: str) -> None:
    commands = BLOCKS[name]
    parsed = subprocess.run(["bash", "-n"], input=commands, capture_output=True, text=True, check=False)
    assert parsed.returncode == 0, parsed.stderr
    for line in commands.replace("\\\n", " ").splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if words:
            check(name, words[: words.index(">")] if ">" in words else words)
