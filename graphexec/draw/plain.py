"""Text of anyone's, as lines that every text format can hold."""

from __future__ import annotations

# What joins the parts of an emoji, or keeps letters apart: invisible, and harmless.
_JOINERS = "\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"


def plain(text: str) -> str:
    """One line: white space as a space, and what cannot be seen (control characters, changes of direction) as `�`."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or one in _JOINERS else " " if one.isspace() else "\N{REPLACEMENT CHARACTER}"
        for one in text
    )


def plain_lines(*texts: str) -> list[str]:
    """The lines of some texts, which may have several each; an empty text has none."""
    return [plain(line) for text in texts for line in text.splitlines()]
