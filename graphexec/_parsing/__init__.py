"""Read what models write: JSON, and reasoning in tags."""

import re
from collections.abc import Callable
from functools import cache
from typing import AnyStr

__all__ = ["compile_lazily"]


def compile_lazily(pattern: AnyStr, flags: re.RegexFlag = re.NOFLAG) -> Callable[[], re.Pattern[AnyStr]]:
    """Return a function that returns the compiled pattern; only its first call compiles it, not an import."""
    return cache(lambda: re.compile(pattern, flags))
