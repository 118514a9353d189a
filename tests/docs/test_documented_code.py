"""The Python blocks of the README and of every page in docs run in order and print what the page says."""

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pytest_examples import CodeExample, EvalExample, find_examples

import graphexec
import graphexec.agents
import graphexec.memory
from tests.parameters import cases

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"

PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]

EXAMPLES: dict[Path, list[CodeExample]] = {page: list(find_examples(str(page))) for page in PAGES}

# The blocks of a page share their names. Each block that has run has an entry in FAILURES, which is empty if it passed.
NAMES: dict[Path, dict[str, Any]] = {page: {} for page in PAGES}
FAILURES: dict[Path, list[str]] = {page: [] for page in PAGES}


def run_block(page: Path, example: CodeExample, eval_example: EvalExample) -> str:
    """Run a block with the names of the blocks before it; return the exception that it raises as text, or nothing."""
    eval_example.set_config(line_length=120)
    run = eval_example.run_print_update if eval_example.update_examples else eval_example.run_print_check
    try:
        NAMES[page].update(run(example, module_globals=dict(NAMES[page])))
        # Later blocks import a block with the title of a file.
        if title := example.prefix_settings().get("title"):
            module = ModuleType(Path(title).stem)
            vars(module).update(NAMES[page])
            sys.modules[module.__name__] = module
    except Exception as error:  # noqa: BLE001 - a block may raise anything
        return f"{example} raises {error!r}"
    return ""


@pytest.mark.parametrize(
    ("page", "index"),
    [
        pytest.param(page, n, id=f"{page.relative_to(ROOT)}:{one.start_line}")
        for page, every in EXAMPLES.items()
        for n, one in enumerate(every)
    ],
)
def test_block_prints_what_the_page_shows(page: Path, index: int, eval_example: EvalExample) -> None:
    failures = FAILURES[page]
    for example in EXAMPLES[page][len(failures) : index + 1]:
        failures.append(run_block(page, example, eval_example))
    # Outside of the `except`: pytest would read the README, to which the traceback leads, as Python.
    if failures[index]:
        pytest.fail(failures[index], pytrace=False)


def test_readme_shows_the_machine() -> None:
    shown = re.findall(r"!\[[^\]]+\]\(\S+/(diagrams/[a-z_]+\.svg)\)", README.read_text(encoding="utf-8"))
    # What is in the files is compared with the tables, to the byte.
    assert shown == ["diagrams/agent_executor.svg"]


@cases("page", PAGES)
def test_what_a_page_links_to_is_there(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert missing == []


def test_every_name_that_the_migration_page_gives_is_public() -> None:
    rows = [line.split("|") for line in (ROOT / "docs/migration.md").read_text(encoding="utf-8").splitlines()]
    named = {name for row in rows if len(row) == 5 for name in re.findall(r"`(create_\w+|[A-Z]\w+Memory)`", row[2])}
    public = {*vars(graphexec), *graphexec.agents.__all__, *vars(graphexec.memory)}
    assert named
    assert named <= public


@cases(
    ("text", "replies", "approved"),
    [("", [], ""), ("hi", ["yes"], "hi"), ("hi", ["Hello!", "yes"], "Hello!"), ("hi", [""], "")],
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
