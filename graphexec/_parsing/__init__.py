"""Read what models write: JSON, and reasoning in tags."""

import re
from collections.abc import Callable
from functools import cache
from typing import AnyStr

__all__ = ["INVISIBLE", "compile_lazily", "match_end"]

# The pattern of a format character (Unicode's category Cf), such as a byte order mark or a space without a width.
INVISIBLE = (
    r"[\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064"
    r"\u2066-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    r"\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f]"
)


def compile_lazily(pattern: AnyStr, flags: re.RegexFlag = re.NOFLAG) -> Callable[[], re.Pattern[AnyStr]]:
    """Return a function that returns the compiled pattern; only its first call compiles it, not an import."""
    return cache(lambda: re.compile(pattern, flags))


def match_end(pattern: re.Pattern[str], text: str, start: int = 0) -> int:
    """Return the end of the match at `start` of a pattern that matches the empty string, too."""
    found = pattern.match(text, start)
    assert found is not None, "the pattern matches the empty string"
    return found.end()
