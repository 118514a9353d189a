"""The HTML elements that the displays share. They have inline styles, because some notebooks drop style sheets."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Literal, TypeAlias

from graphexec.draw.model.text import sanitize_line, sanitize_lines

# The colours are the notebook's own, in its light and in its dark theme. Not `system-ui` alone: some systems lack it.
_FONT = "font:13px/1.5 -apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif"
_LINE = "1px solid color-mix(in srgb,currentColor 22%,transparent)"
_CELL = f"text-align:left;vertical-align:top;padding:3px 18px 3px 0;border:0;border-bottom:{_LINE};background:none"

# The most lines of a drawing of characters.
MOST_LINES = 400

Tone: TypeAlias = Literal["good", "warning", "bad"]

# White letters on these colours have a contrast of at least 4.5; the colours stand out on white and on black.
_BADGES = {"good": "#00795a", "warning": "#8c6500", "bad": "#c21d1b"}


def badge(words: str, tone: Tone) -> str:
    """Return a word as a badge."""
    style = f"background:{_BADGES[tone]};color:#fff;border-radius:99px;padding:1px 10px;font-weight:600;font-size:12px"
    return f'<span style="{style};white-space:nowrap">{escape_line(words)}</span>'


def escape_line(text: str) -> str:
    """Return text as HTML on one line: escaped, and without control characters."""
    return escape(sanitize_line(text))


def remark(text: str) -> str:
    """Return a remark, in a fainter colour."""
    return f'<span style="opacity:.75">{escape_line(text)}</span>'


def code(text: str) -> str:
    """Return code, such as the call that writes a page to a file."""
    return f'<code style="background:none;color:inherit;font-size:12px">{escape_line(text)}</code>'


def cut_lines(text: str) -> str:
    """Return the first `MOST_LINES` lines of a drawing, with the number of the others."""
    lines = text.splitlines()
    if len(lines) <= MOST_LINES:
        return text
    return "\n".join([*lines[:MOST_LINES], f"... and {len(lines) - MOST_LINES:,} more lines"])


def preformatted(text: str) -> str:
    """Return lines of characters, such as a drawing for the terminal."""
    lines = escape("\n".join(sanitize_lines(text)))
    style = "margin:0;font:12px/1.25 ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;overflow-x:auto"
    return f'<pre style="{style};white-space:pre;background:none;color:inherit">{lines}</pre>'


def block(*parts: str) -> str:
    """Return a display: its parts below each other."""
    rows = "".join(f'<div style="margin:4px 0">{part}</div>' for part in parts if part)
    return f'<div style="{_FONT};max-width:100%;overflow-x:auto">{rows}</div>'


def table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; the caption and the cells are HTML, the heads are text."""
    top = "".join(
        f'<th scope="col" style="{_CELL};font-weight:600;opacity:.75">{escape_line(head)}</th>' for head in heads
    )
    lines = "".join(map(_row, rows))
    style = f"border-collapse:collapse;margin:0;{_FONT};color:inherit"
    above = "text-align:left;padding:4px 0;color:inherit;caption-side:top"
    named = f'<caption style="{above}">{caption}</caption>' if caption else ""
    return f'<table style="{style}">{named}<thead><tr>{top}</tr></thead><tbody>{lines}</tbody></table>'


def _row(cells: Sequence[str]) -> str:
    columns = "".join(f'<td style="{_CELL}">{cell}</td>' for cell in cells)
    return f'<tr style="background:none">{columns}</tr>'


def collapsible(title: str, lines: Sequence[str]) -> str:
    """Return lines below a title that is clicked to show them; nothing without lines."""
    if not lines:
        return ""
    items = "".join(f"<li>{escape_line(line)}</li>" for line in lines)
    top = f'<summary style="cursor:pointer">{escape_line(title)}</summary>'
    return f'<details>{top}<ul style="margin:2px 0">{items}</ul></details>'
