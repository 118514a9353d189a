"""Read what models write: JSON, and reasoning in tags."""

import re
import sys
from collections.abc import Callable
from functools import cache
from typing import AnyStr

__all__ = ["INVISIBLE", "WINDOW", "compile_lazily", "match_end", "search"]

# The pattern of a byte order mark or a space without a width.
INVISIBLE = r"[\ufeff\u200b\u200c\u200d\u200e\u2060]"


def compile_lazily(pattern: AnyStr, flags: re.RegexFlag = re.NOFLAG) -> Callable[[], re.Pattern[AnyStr]]:
    """Return a function that returns the compiled pattern; only its first call compiles it, not an import."""
    return cache(lambda: re.compile(pattern, flags))


# Characters that a pattern searches at once: no other thread runs meanwhile, not even that of an event loop.
WINDOW = 50_000


def search(
    pattern: re.Pattern[str], text: str, start: int = 0, end: int = sys.maxsize, *, longest: int
) -> re.Match[str] | None:
    """Return the first match from `start` on, as `pattern.search` does, but let other threads run in a long text.

    No match, with what it looks at behind it, may have more than `longest` characters.
    """
    end = min(end, len(text))
    while True:
        found = pattern.search(text, start, min(start + WINDOW + longest, end))
        if found is not None and found.start() <= start + WINDOW:
            return found
        start += WINDOW
        if start > end:
            return None


def match_end(pattern: re.Pattern[str], text: str, start: int = 0) -> int:
    """Return the end of the match at `start` of a pattern that matches the empty string, too."""
    found = pattern.match(text, start)
    assert found is not None, "the pattern matches the empty string"
    return found.end()
