"""Displays for notebooks: a machine as its picture, a verdict and a run as text.

Each function returns a MIME bundle for IPython, where `graphexec` registers it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from graphexec.actions import AgentStep, StoppedResponse
from graphexec.draw.formats.mermaid import mermaid
from graphexec.draw.formats.svg import svg
from graphexec.draw.formats.terminal import terminal
from graphexec.draw.model.picture import picture_of
from graphexec.draw.model.text import format_duration, format_quantity
from graphexec.draw.runs.data import to_json_data
from graphexec.draw.runs.labels import format_call, format_data, shorten
from graphexec.effects import MODEL_CALLS, TOOL_CALLS
from graphexec.errors import InputError
from graphexec.kernel.meters import Spent
from graphexec.verify.proof.findings import Verdict

# The layout of a machine with more edges may take many seconds, at each display of the cell.
MOST_EDGES = 150
# Characters of a call, an observation and an answer.
_LABEL = 200


class _Verifiable(Protocol):
    """A machine, or an executor with its limits."""

    def verify(self) -> Verdict:
        """Return the proof that every run ends, or another verdict."""
        ...


class _Run(Protocol):
    """The result of an executor's run."""

    @property
    def steps(self) -> Sequence[AgentStep]:
        """The actions with their observations."""
        ...

    @property
    def stopped(self) -> StoppedResponse | None:
        """Why it has no answer of the agent."""
        ...

    @property
    def spent(self) -> Spent:
        """What it has used."""
        ...


def machine_bundle(machine: _Verifiable) -> dict[str, str]:
    """Return the picture of a machine with its proof as SVG.

    Without the extra `draw`, and for a machine with more than `MOST_EDGES` edges, it is Mermaid, for notebooks that
    render it, and a drawing of characters that says how to get the picture.
    """
    verdict, plain = machine.verify(), repr(machine)
    picture = picture_of(verdict)
    count = len(verdict.graph.edges)
    reason = f"{count:,} edges are too many for a picture here; write it to a file with .draw('flow.svg')"
    if count <= MOST_EDGES:
        try:
            return {"image/svg+xml": svg(picture), "text/plain": plain}
        except InputError as error:
            reason = str(error)
    return {"text/vnd.mermaid": mermaid(picture), "text/plain": f"{terminal(picture)}{reason}"}


def verdict_bundle(verdict: Verdict) -> dict[str, str]:
    """Return the verdict as text."""
    return {"text/plain": str(verdict)}


def run_bundle(result: _Run) -> dict[str, str]:
    """Return the steps of a run, its answer and its usage as text, a line for each."""
    lines = [
        f"{number}. {format_call(step.action.tool, to_json_data(step.action.tool_input), _LABEL)} → "
        f"{'' if step.status == 'ok' else f'{step.status}: '}{format_data(to_json_data(step.observation), _LABEL)}"
        for number, step in enumerate(result.steps, 1)
    ]
    stopped, spent, answer = result.stopped, result.spent, shorten(str(result), _LABEL)
    ended = f"finished: {answer}" if stopped is None else f"stopped: {stopped.cause}"
    if stopped is not None and stopped.generated:
        ended += f"; {answer}"
    usage = [
        format_quantity(int(spent[MODEL_CALLS]), "model call"),
        format_quantity(int(spent[TOOL_CALLS]), "tool call"),
        format_duration(spent.seconds),
    ]
    return {"text/plain": "\n".join([*lines, ended, ", ".join(usage)])}
