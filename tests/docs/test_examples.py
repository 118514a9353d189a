"""Every example runs as a user runs it, and prints what it is known to print."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from graphexec.executor import agent_graph
from tests.parameters import mark_except

EXAMPLES = Path(__file__).parents[2] / "examples"
PRINTS = Path(__file__).with_name("printed")

PRINTED = {
    **{path.stem: path.read_text(encoding="utf-8") for path in sorted(PRINTS.glob("*.txt"))},
    "pictures": f"{agent_graph(strict=True):text}\ndrawn: both.png, machine.svg, run.html, run.svg, run.txt\n",
}


def run(example: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "error", "-X", "utf8", str(EXAMPLES / f"{example}.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


@pytest.mark.medium
@pytest.mark.parametrize("example", mark_except(PRINTED, "plan_and_execute"))
def test_it_prints_what_it_is_known_to_print(example: str) -> None:
    assert run(example) == PRINTED[example]


@pytest.mark.local_model
def test_the_structured_example_multiplies_with_the_local_model() -> None:
    printed = run("structured_local", "What is 37 * 48?")
    assert "calculator" in printed
    assert printed.rstrip().splitlines()[-1].count("1776") == 1


def test_own_node_imports_six_names_at_most() -> None:
    tree = ast.parse((EXAMPLES / "own_node.py").read_text(encoding="utf-8"))
    imported = [
        one.name for line in ast.walk(tree) if isinstance(line, ast.Import | ast.ImportFrom) for one in line.names
    ]
    assert {"node", "create_agent"} < {*imported}
    assert len(imported) <= 6


def test_every_example_is_run_here() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*PRINTED, "structured_local"}
