"""A run in a notebook: its page in place, with a line about its ending."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphexec.draw.model.picture import picture_of
from graphexec.draw.model.text import format_duration, format_quantity
from graphexec.draw.notebook.elements import badge, block, code, cut_lines, escape_line, preformatted, remark
from graphexec.draw.page import html
from graphexec.draw.runs.labels import shorten
from graphexec.draw.runs.recorder import recording_of
from graphexec.draw.runs.timeline import timeline
from graphexec.effects import MODEL_CALLS, TOOL_CALLS
from graphexec.errors import InputError, described
from graphexec.verify import verify

if TYPE_CHECKING:
    from graphexec.executor.result import RunResult

# The most characters of a page: notebooks store it in their file, and each display of the cell sends it again.
MOST_CHARACTERS = 2_000_000
# Pixels; the lower edge of the frame can be dragged.
_HEIGHT = 720
# The frame's document has the notebook's address as its base. Browsers refuse to put a step into an address that is not
# the document's own, and a link to a step would open the notebook in the frame.
_BASE = '<base href="about:srcdoc">'
# What an attribute in single quotes escapes. A page has many double quotes and ">", which need no escape there.
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", "'": "&#39;"})
# Characters of the answer in the line about the ending.
_ANSWER = 300


def run_bundle(result: RunResult) -> dict[str, str]:
    """Return the page of the run in a sandboxed frame, which loads nothing, and a line about the ending.

    A page of more than `MOST_CHARACTERS` is left out, and a remark says how to write it to a file; without the extra
    `draw`, a timeline stands for it. A result without a journal has only the line.
    """
    return {"text/html": block(*_parts(result)), "text/plain": repr(result)}


def _parts(result: RunResult) -> tuple[str, ...]:
    ending = _ending(result)
    to_file = code('result.draw("run.html")')
    if result.journal is None:
        return ending, remark("The result has no journal, so its steps cannot be shown.")
    try:
        recording = recording_of(result)
        page = html(picture_of(verify(result.journal.graph, result.limits)), recording)
    except InputError as error:
        return ending, *_without_page(result, error)
    # A run whose nodes are not pure cannot be followed again; its answer is shown all the same.
    except Exception as error:  # noqa: BLE001
        return ending, remark(f"The run cannot be drawn: {described(error)}")
    frame = page.replace("<head>", f"<head>{_BASE}", 1).translate(_ESCAPES)
    if len(frame) > MOST_CHARACTERS:
        size = f"{len(page) / 1e6:,.1f} MB"
        return (
            ending,
            f"{remark(f'The page of this run has {size}, too much for a notebook;')} {to_file} writes it to a file.",
        )
    style = (
        f"display:block;box-sizing:border-box;width:100%;height:{_HEIGHT}px;resize:vertical;border-radius:8px;"
        "border:1px solid color-mix(in srgb,currentColor 25%,transparent);background:none"
    )
    return (
        f'<iframe sandbox="allow-scripts" allow="clipboard-write" title="the run, step by step" style="{style}" '
        f"srcdoc='{frame}'></iframe>",
        f"{ending} {remark('·')} {to_file} {remark('writes this page to a file')}",
    )


def _without_page(result: RunResult, error: InputError) -> tuple[str, str]:
    return preformatted(cut_lines(timeline(result))), remark(str(error))


def _ending(result: RunResult) -> str:
    spent = result.spent
    counts = [
        format_quantity(int(spent[MODEL_CALLS]), "model call"),
        format_quantity(int(spent[TOOL_CALLS]), "tool call"),
        format_duration(spent.seconds),
    ]
    stopped = result.stopped
    word = badge("finished", "good") if stopped is None else badge("stopped", "warning")
    text = shorten(str(result), _ANSWER) if stopped is None else str(stopped.cause)
    return f"{word} {escape_line(text)} {remark(' · '.join(['', *counts]).strip())}"
