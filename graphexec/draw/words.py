"""Numbers as people read them."""

from __future__ import annotations


def counted(count: int, thing: str) -> str:
    """A number of things: `1 tool call`, `1,200 tokens`."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def duration(seconds: float) -> str:
    """A time: `35 ms`, `4.28 s`, `120 s`."""
    if seconds < 0.001:  # noqa: PLR2004 - nobody waits for less
        return "under 1 ms"
    if seconds < 0.1:  # noqa: PLR2004 - below, hundredths of a second say nothing
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:,.0f} s"  # noqa: PLR2004 - three digits are enough
