"""The code in the README runs, in order, and prints what the README says."""

from pathlib import Path
from typing import Any

import pytest
from pytest_examples import CodeExample, EvalExample, find_examples

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"

# The blocks of one document build on each other.
NAMES: dict[str, Any] = {}


@pytest.mark.parametrize("example", list(find_examples(str(README))), ids=str)
def test_the_readme_does_what_it_says(example: CodeExample, eval_example: EvalExample) -> None:
    eval_example.set_config(line_length=120)
    run = eval_example.run_print_update if eval_example.update_examples else eval_example.run_print_check
    raised = ""
    try:
        NAMES.update(run(example, module_globals=dict(NAMES)))
    except Exception as error:  # noqa: BLE001 - whatever the README's code raises
        raised = f"{example} raises {error!r}"
    # Out of reach of the exception: its traceback leads into the README, which pytest would read as Python.
    if raised:
        pytest.fail(raised, pytrace=False)


def test_the_readme_shows_the_machine_that_runs() -> None:
    picture = README.read_text(encoding="utf-8").partition("<!-- picture: agent_executor -->\n```mermaid\n")[2]
    drawn = (ROOT / "diagrams" / "agent_executor.mmd").read_text(encoding="utf-8")
    assert picture.startswith(drawn + "```")
