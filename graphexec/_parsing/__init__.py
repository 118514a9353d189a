"""Read what models write: JSON, and reasoning in tags."""

import re
from collections.abc import Callable
from functools import cache
from typing import AnyStr

__all__ = ["INVISIBLE", "compile_lazily", "match_end"]

# The pattern of a byte order mark or a space without a width.
INVISIBLE = r"[\ufeff\u200b\u200c\u200d\u200e\u2060]"


def compile_lazily(pattern: AnyStr, flags: re.RegexFlag = re.NOFLAG) -> Callable[[], re.Pattern[AnyStr]]:
    """Return a function that returns the compiled pattern; only its first call compiles it, not an import."""
    return cache(lambda: re.compile(pattern, flags))


def match_end(pattern: re.Pattern[str], text: str, start: int = 0) -> int:
    """Return the end of the match at `start` of a pattern that matches the empty string, too."""
    found = pattern.match(text, start)
    assert found is not None, "the pattern matches the empty string"
    return found.end()
