"""The model checker SPIN on a machine's flow: another tool, another language, and the same verdict."""

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

# Seconds for one call of SPIN, of the compiler, or of what it made.
_PATIENCE: Final = 120.0


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a model checker: whether the text's claim holds, and the states it saw until it knew."""

    holds: bool
    states: int


def installed() -> bool:
    """Return whether SPIN can be used: it needs a C compiler, too."""
    return bool(shutil.which("spin") and shutil.which("gcc"))


def spun(graph: Graph[Any, Any], limits: Limits, *, most: int = EXHAUSTIVE) -> None:
    """Have SPIN check that every run ends, after at most so many transitions as are proved, and, where that is exact,
    not after one less. No limit that is set is above `most`.

    Raises `AssertionError` where SPIN says otherwise.
    """  # noqa: D205 - what is checked is one sentence
    limits = small(graph, limits, most)
    flow = flow_of(graph)
    bounds = require_proof(graph, limits).bounds
    assert bounds is not None, "what is proved has bounds"
    assert run_spin(promela(flow, limits)).holds, f"SPIN finds a run that does not end within {limits}"
    bound = bounds.transitions.number
    if bound is None:
        return
    most_steps = int(bound)
    assert run_spin(promela(flow, limits, bound=most_steps)).holds, (
        f"SPIN finds a run of more than {most_steps} transitions"
    )
    if bounds.transitions.exact and most_steps:
        short = promela(flow, limits, bound=most_steps - 1)
        assert not run_spin(short).holds, f"SPIN finds no run of {most_steps} transitions, which is said to be exact"


def run_spin(model: str) -> Checked:
    """Have SPIN check a text of `promela`. Raises `AssertionError` where it cannot."""
    live = "ltl " in model
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "machine.pml").write_text(model, encoding="ascii")
        called(folder, "spin", "-a", "machine.pml")
        called(folder, "gcc", "-w", *([] if live else ["-DSAFETY"]), "-o", "pan", "pan.c")
        _, said = called(folder, "./pan", *(["-a"] if live else []), "-m1000000")
    errors = re.search(r"errors: (\d+)", said)
    states = re.search(r"(\d+) states, stored", said)
    # A search that was not deep enough, or did not fit the memory, says `errors: 0` too.
    short = re.search("too small|out of memory|reached -DMEMLIM", said)
    assert errors is not None, f"SPIN said: {said}\n{model}"
    assert states is not None, f"SPIN said: {said}\n{model}"
    assert not short, f"SPIN said: {said}"
    return Checked(errors[1] == "0", int(states[1]))


def called(folder: str, *command: str) -> tuple[int, str]:
    """Run a program in a folder; return its exit code and all that it printed."""
    program = command[0] if "/" in command[0] else shutil.which(command[0])
    assert program is not None, f"{command[0]} is not installed"
    done = subprocess.run(  # noqa: S603 - our own command
        [program, *command[1:]], cwd=folder, capture_output=True, text=True, timeout=_PATIENCE, check=False
    )
    said = done.stdout + done.stderr
    # SPIN ends with 0 also where it says that the text is wrong.
    assert not re.search(r"^(spin|error): .*Error|syntax error", said, re.MULTILINE), f"it said: {said}"
    return done.returncode, said
