"""Check a machine's flow with the model checker SPIN, which is independent of graphexec."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import Limits
from graphexec.testing.properties import EXHAUSTIVE, require_proof
from graphexec.testing.setup import small
from graphexec.verify.export.promela import promela
from graphexec.verify.proof.flow import flow_of

# C compilers, of which the first that is installed is used: tcc is ten times faster, and the program runs shortly.
_COMPILERS: Final = ("tcc", "gcc")
# Seconds for one call of SPIN, of the compiler, or of the compiled program.
_PATIENCE: Final = 120.0


@dataclass(frozen=True, slots=True)
class CheckerResult:
    """The result of a model checker: whether the claim holds, and the number of states visited."""

    holds: bool
    states: int


def is_installed() -> bool:
    """Return whether SPIN and a C compiler, which it needs, are installed."""
    return bool(shutil.which("spin") and _find_compiler())


def check_with_spin(graph: Graph[Any, Any], limits: Limits, *, most: int = EXHAUSTIVE) -> None:
    """Check with SPIN that every run ends within the proved number of transitions.

    If that number is exact, check also that a run reaches it. Limits that are set are lowered to `most`. Raises
    `AssertionError` if SPIN disagrees.
    """
    limits = small(graph, limits, most)
    flow = flow_of(graph)
    bounds = require_proof(graph, limits).bounds
    assert bounds is not None, "a proved machine has bounds"
    assert run_spin(promela(flow, limits)).holds, f"SPIN finds a run that does not end within {limits}"
    bound = bounds.transitions.number
    if bound is None:
        # It depends on the measures of nodes.
        return
    most_steps = int(bound)
    assert run_spin(promela(flow, limits, bound=most_steps)).holds, (
        f"SPIN finds a run of more than {most_steps} transitions"
    )
    if bounds.transitions.exact and most_steps:
        short = promela(flow, limits, bound=most_steps - 1)
        assert not run_spin(short).holds, f"SPIN finds no run of {most_steps} transitions, the bound declared exact"


def run_spin(model: str) -> CheckerResult:
    """Check a model of `promela` with SPIN. Raises `AssertionError` if SPIN fails."""
    live = "ltl " in model
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "machine.pml").write_text(model, encoding="ascii")
        run_program(folder, "spin", "-a", "machine.pml")
        run_program(folder, _find_compiler() or "gcc", "-w", *([] if live else ["-DSAFETY"]), "-o", "pan", "pan.c")
        _, output = run_program(folder, "./pan", *(["-a"] if live else []), "-m1000000")
    errors = re.search(r"errors: (\d+)", output)
    states = re.search(r"(\d+) states, stored", output)
    # A search that was not deep enough, or ran out of memory, prints `errors: 0` too.
    short = re.search("too small|out of memory|reached -DMEMLIM", output)
    assert errors is not None, f"SPIN printed: {output}\n{model}"
    assert states is not None, f"SPIN printed: {output}\n{model}"
    assert not short, f"SPIN printed: {output}"
    return CheckerResult(errors[1] == "0", int(states[1]))


def _find_compiler() -> str | None:
    return next((name for name in _COMPILERS if shutil.which(name)), None)


def run_program(folder: str, *command: str) -> tuple[int, str]:
    """Run a program in a folder; return its exit code and its output."""
    program = command[0] if "/" in command[0] else shutil.which(command[0])
    assert program is not None, f"{command[0]} is not installed"
    done = subprocess.run(  # noqa: S603 - our own command
        [program, *command[1:]], cwd=folder, capture_output=True, text=True, timeout=_PATIENCE, check=False
    )
    output = done.stdout + done.stderr
    # SPIN exits with 0 even if the model has an error.
    assert not re.search(r"^(spin|error): .*Error|syntax error", output, re.MULTILINE), f"it printed: {output}"
    return done.returncode, output
