"""A machine in a notebook: its picture with its proof, or its drawing for the terminal."""

from __future__ import annotations

from graphexec.draw.formats.mermaid import mermaid
from graphexec.draw.formats.svg import svg
from graphexec.draw.formats.terminal import terminal
from graphexec.draw.model.picture import picture_of
from graphexec.draw.notebook.elements import block, faint, preformatted
from graphexec.errors import InputError
from graphexec.verify.proof.findings import Verdict

# The layout of a machine with more edges takes seconds, at each display of the cell.
MOST_EDGES = 400


def machine_bundle(verdict: Verdict, plain: str) -> dict[str, str]:
    """Return the picture of a machine with its proof as SVG; `plain` is its `repr`.

    Without the extra `draw` it is a drawing of characters, and Mermaid for notebooks that render it. A machine with
    more than `MOST_EDGES` edges is only named: a remark says how to write its picture to a file.
    """
    count = len(verdict.graph.edges)
    if count > MOST_EDGES:
        remark = f"{count:,} edges are too many to draw here; write them to a file: graph.draw('flow.svg')"
        return {"text/html": block(faint(plain), faint(remark)), "text/plain": plain}
    picture = picture_of(verdict)
    try:
        return {"image/svg+xml": svg(picture), "text/plain": plain}
    except InputError as error:
        drawing = preformatted(terminal(picture))
        return {
            "text/html": block(drawing, faint(str(error))),
            "text/vnd.mermaid": mermaid(picture),
            "text/plain": plain,
        }
