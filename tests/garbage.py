"""Collections of garbage on which a test can rely."""

import gc
import threading
from typing import Any


def collect() -> None:
    """Collect all garbage, as `gc.collect` does except while another thread collects: then it does nothing."""
    begun: list[int] = []

    def note(phase: str, info: dict[str, Any]) -> None:
        if phase == "start" and info["generation"] == 2:
            begun.append(threading.get_ident())

    gc.callbacks.append(note)
    while threading.get_ident() not in begun:
        gc.collect()
    gc.callbacks.remove(note)
