"""The Python blocks of the README and of every page in docs run in order and print what the page says."""

import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import pytest
from pytest_examples import CodeExample, EvalExample, find_examples

import graphexec
import graphexec.memory
from graphexec.integrations import langchain
from tests.parameters import cases

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"

PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]

EXAMPLES = {page: examples for page in PAGES if (examples := list(find_examples(str(page))))}


class Frame(NamedTuple):
    """A frame of the stack, as pytest-examples looks at it when a block prints."""

    frame: FrameType
    filename: str


def stack() -> list[Frame]:
    """Return the stack as `inspect.stack` does, but without the source of each line, which takes most of its time."""
    frames: list[Frame] = []
    this = inspect.currentframe()
    # The first frame is the caller's.
    frame: FrameType | None = None if this is None else this.f_back
    while frame is not None:
        frames.append(Frame(frame, frame.f_code.co_filename))
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


def test_every_name_that_the_migration_page_gives_is_public() -> None:
    rows = [line.split("|") for line in (ROOT / "docs/migration.md").read_text(encoding="utf-8").splitlines()]
    named = {name for row in rows if len(row) == 5 for name in re.findall(r"`(create_\w+|[A-Z]\w+Memory)`", row[2])}
    public = {*graphexec.__all__, *vars(langchain)["__all__"], *graphexec.memory.__all__}
    assert named
    assert named <= public


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
