"""Every example runs as a user runs it and prints what it should; so does each cell of the notebook."""

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

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


NOTEBOOK = EXAMPLES / "notebook.ipynb"

PICTURE = {"image/svg+xml", "text/plain"}
TEXT = {"text/plain"}

# For each cell with outputs: their types, the MIME types of what they show, and a part of it as plain text.
SHOWN: dict[str, list[tuple[str, set[str], str]]] = {
    "machine": [("execute_result", PICTURE, "<AgentExecutor with weather (tool_calling)")],
    "proof": [("execute_result", TEXT, "PROVED")],
    "run": [("execute_result", TEXT, "It is 4 °C in Oslo.")],
    "await": [("stream", set(), "It is 19 °C in Rome.\n")],
    "stream": [("stream", set(), "Entered\nAsked\nAnswered\nMoved\nEntered\nMoved\nDone\n")],
    "batch": [("execute_result", TEXT, "3")],
    "refuted": [("execute_result", TEXT, "REFUTED")],
    "stopped": [("execute_result", TEXT, "Agent stopped")],
}


def test_notebook_is_stored_without_outputs() -> None:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [(cell["outputs"], cell["execution_count"]) for cell in cells] == [([], None)] * len(cells)
    assert NOTEBOOK.stat().st_size < 10_000


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_notebook_runs_in_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    import nbformat
    from nbclient import NotebookClient

    # Nothing is asked of a network: a proxy that is not there would refuse it.
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    # Any: nbformat has no annotations.
    reading: Any = nbformat
    notebook: Any = reading.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=100, kernel_name="python3").execute()
    outputs = {cell["id"]: list(map(describe, cell["outputs"])) for cell in notebook.cells if cell.get("outputs")}
    assert {name: [row[:2] for row in rows] for name, rows in outputs.items()} == {
        name: [row[:2] for row in rows] for name, rows in SHOWN.items()
    }
    for name, rows in SHOWN.items():
        for (*_, found), (*_, part) in zip(outputs[name], rows, strict=True):
            assert part in found, (name, found)
    assert len(json.dumps(notebook)) < 500_000


def describe(output: Any) -> tuple[str, set[str], str]:
    data = output.get("data", {})
    return output["output_type"], set(data), output.get("text") or data["text/plain"]
