"""A machine in a notebook: its picture with its proof, or its drawing for the terminal."""

from __future__ import annotations

from typing import Protocol

from graphexec.draw.formats.mermaid import mermaid
from graphexec.draw.formats.svg import svg
from graphexec.draw.formats.terminal import terminal
from graphexec.draw.model.picture import picture_of
from graphexec.draw.model.pieces import show_pieces
from graphexec.draw.notebook.elements import block, cut_lines, preformatted, remark
from graphexec.errors import InputError
from graphexec.verify.proof.findings import Verdict

# The layout of a machine with more edges may take many seconds, at each display of the cell.
MOST_EDGES = 150


class _Verifiable(Protocol):
    """A machine, or an executor with its limits."""

    def verify(self) -> Verdict:
        """Return the proof that every run ends, or another verdict."""
        ...


def machine_bundle(machine: _Verifiable) -> dict[str, str]:
    """Return the picture of a machine with its proof as SVG.

    Without the extra `draw`, and for a machine with more than `MOST_EDGES` edges, it is a drawing of characters, with a
    remark how to get the picture, and Mermaid for notebooks that render it.
    """
    verdict, plain = machine.verify(), repr(machine)
    picture = show_pieces(picture_of(verdict))
    count = len(verdict.graph.edges)
    reason = f"{count:,} edges are too many for a picture here; write it to a file with .draw('flow.svg')"
    if count <= MOST_EDGES:
        try:
            return {"image/svg+xml": svg(picture), "text/plain": plain}
        except InputError as error:
            reason = str(error)
    return {
        "text/html": block(preformatted(cut_lines(terminal(picture))), remark(reason)),
        "text/vnd.mermaid": mermaid(picture),
        "text/plain": plain,
    }
