"""Count the calls of Python and C functions, which unlike time do not depend on the machine."""

import gc
import sys
from collections.abc import Callable


def count_calls(work: Callable[[], object]) -> int:
    """Return the number of calls that a function makes."""
    calls = 0

    def profile(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before, collects = sys.getprofile(), gc.isenabled()
    # A collection would call what waits for the end of other objects.
    gc.disable()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    return calls
