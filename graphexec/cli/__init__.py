"""The command line, `graphexec`. `import graphexec` does not load it."""

from __future__ import annotations

import sys
from importlib.util import find_spec

# The packages of the extra `cli`.
_NEEDED = ("typer", "rich", "prompt_toolkit")


def main() -> None:
    """Run the command line of this process, and exit with its code."""
    for package in _NEEDED:
        if find_spec(package) is None:
            sys.exit(
                f'graphexec: the command line needs {package}; install it with pip install "graphexec-agents[cli]"'
            )
    try:
        from graphexec.cli.commands import enter
    except KeyboardInterrupt:
        sys.exit(130)
    enter(sys.argv[1:])
