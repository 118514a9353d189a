"""The command line, `graphexec`. `import graphexec` does not load it."""

from __future__ import annotations

import sys

NEEDED = frozenset({"typer", "rich"})


def main() -> None:
    """Run the command line of this process, and exit with its code."""
    try:
        from graphexec.cli.startup import enter
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in NEEDED:
            raise
        sys.exit(f'graphexec: the command line needs {error.name}; install it with pip install "graphexec-agents[cli]"')
    except KeyboardInterrupt:
        sys.exit(130)
    enter(sys.argv[1:])
