"""The blocks of the README and of docs: Python prints what a page says, and commands and files do what it says."""

import inspect
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import FrameType, ModuleType, SimpleNamespace
from typing import Any

import pytest
from pytest_examples import CodeExample, EvalExample, find_examples

from tests.parameters import cases

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"

PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]

EXAMPLES = {page: examples for page in PAGES if (examples := list(find_examples(str(page))))}


# Packages without which the blocks that import a module cannot run.
NEEDS = {
    "from langchain.": "langchain",
    "from langchain_classic": "langchain_classic",
    "from langgraph": "langgraph",
    "from pydantic_graph": "pydantic_graph",
    "graphexec.integrations.dbos": "dbos",
    "graphexec.integrations.mcp": "mcp",
    "graphexec.integrations.temporal": "temporalio",
}


def skip_without_packages(page: Path) -> None:
    for module, package in NEEDS.items():
        if module in page.read_text(encoding="utf-8"):
            pytest.importorskip(package, reason=f"the page needs {package}")


def stack() -> list[SimpleNamespace]:
    """Return what pytest-examples reads of `inspect.stack`, without the source lines, which take most of its time."""
    frames: list[SimpleNamespace] = []
    this = inspect.currentframe()
    # The first frame is the caller's.
    frame: FrameType | None = None if this is None else this.f_back
    while frame is not None:
        frames.append(SimpleNamespace(frame=frame, filename=frame.f_code.co_filename))
        frame = frame.f_back
    return frames


def test_stack_is_that_of_inspect() -> None:
    """With another first frame, no printed line would be compared."""
    assert [one.frame for one in stack()] == [one.frame for one in inspect.stack()]


def run_block(example: CodeExample, names: dict[str, Any], eval_example: EvalExample) -> str:
    """Run a block with the names of the blocks before it; return the exception that it raises as text, or nothing."""
    run = eval_example.run_print_update if eval_example.update_examples else eval_example.run_print_check
    try:
        names.update(run(example, module_globals=dict(names)))
        # Later blocks import a block with the title of a file.
        if title := example.prefix_settings().get("title"):
            module = ModuleType(Path(title).stem)
            vars(module).update(names)
            sys.modules[module.__name__] = module
    except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - a block may raise anything
        return f"{example} raises {error!r}"
    return ""


@pytest.mark.medium
@pytest.mark.parametrize("page", EXAMPLES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_print_what_the_page_shows(
    page: Path,
    eval_example: EvalExample,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    skip_without_packages(page)
    record_property("cases", len(EXAMPLES[page]))
    monkeypatch.setattr("pytest_examples.run_code.inspect", SimpleNamespace(**vars(inspect) | {"stack": stack}))
    # A block may be a program that reads its arguments, of which there are none.
    monkeypatch.setattr(sys, "argv", ["program"])
    eval_example.set_config(line_length=120)
    names: dict[str, Any] = {}
    failures = [failure for example in EXAMPLES[page] if (failure := run_block(example, names, eval_example))]
    # Outside of an `except`: pytest would read the README, to which the traceback leads, as Python.
    if failures:
        pytest.fail("\n".join(failures), pytrace=False)


def test_readme_shows_the_machine() -> None:
    shown = re.findall(r"!\[[^\]]+\]\(\S+/(diagrams/[a-z_]+\.svg)\)", README.read_text(encoding="utf-8"))
    # What is in the files is compared with the tables, to the byte.
    assert shown == ["diagrams/agent_executor.svg"]


@cases("page", *PAGES)
def test_what_a_page_links_to_is_there(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert missing == []


@cases(
    ("text", "replies", "approved"),
    ("", [], ""),
    ("hi", ["yes"], "hi"),
    ("hi", ["Hello!", "yes"], "Hello!"),
    ("hi", [""], ""),
)
def test_approval_may_return_without_a_question(
    text: str, replies: list[str], approved: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source,) = [one.source for one in EXAMPLES[README] if "class Approved" in one.source]
    asking = "    reply = yield from ask(AskHuman("
    assert asking in source
    module = ModuleType("approval")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    names = vars(module)
    exec(source.replace(asking, f'    if not draft.text:\n        return Approved("")\n{asking}'), names)
    left = iter(replies)

    def answer(effect: object) -> str:
        return next(left)

    handlers = {names["AskHuman"]: answer}
    done = names["machine"].run(names["Draft"](text), handlers=handlers, limits=names["Limits"](iterations=5))
    assert done.outcome == names["Approved"](approved)
    assert list(left) == []


# ---- commands


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


# ---- files that pages tell a reader to write


PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error")


def write_files(page: str, folder: Path) -> None:
    """Write the blocks of a page that have the title of a file; blocks of one title follow each other."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    files: dict[str, str] = {}
    for name, code in re.findall(r'```(?:python|json) title="([^"]+)"\n(.*?)```', text, re.DOTALL):
        files[name] = files.get(name, "") + code
    for name, code in files.items():
        (folder / name).write_text(code, encoding="utf-8")


def text_block(page: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return text.partition("```text\n")[2].partition("```")[0].splitlines()


def run(folder: Path, *arguments: str, codes: tuple[int, ...] = (0,)) -> str:
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode in codes, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@cases("page", "tutorial/test.md", "how-to/testing.md")
def test_tests_of_a_page_pass(page: str, tmp_path: Path) -> None:
    write_files(page, tmp_path)
    printed = run(tmp_path, *PYTEST)
    # A long line is broken.
    assert " ".join(text_block(page)) in printed.splitlines()


@pytest.mark.slow
@cases("page", "how-to/langgraph.md", "how-to/memory.md", "how-to/runs.md")
def test_commands_of_a_page_print_what_it_shows(page: str, tmp_path: Path) -> None:
    skip_without_packages(ROOT / "docs" / page)
    write_files(page, tmp_path)
    for session in "\n".join(text_block(page)).removeprefix("$ ").split("\n$ "):
        command, _, expected = session.partition("\n")
        program, *arguments = shlex.split(command)
        # The command line has another status for findings.
        start, codes = (["-m", "graphexec"], (0, 1)) if program == "graphexec" else ([], (0,))
        assert run(tmp_path, *start, *arguments, codes=codes) == f"{expected}\n"


@pytest.mark.slow
def test_readme_test_file_passes(tmp_path: Path) -> None:
    _, _, page = README.read_text(encoding="utf-8").partition("<!-- block: user test -->")
    written, expected = (page.partition(f"```{kind}\n")[2].partition("```")[0] for kind in ("python", "text"))
    assert len(written.splitlines()) <= 15
    (tmp_path / "test_mine.py").write_text(written, encoding="utf-8")
    printed = run(tmp_path, *PYTEST)
    assert " ".join(expected.split()) in printed.splitlines()
