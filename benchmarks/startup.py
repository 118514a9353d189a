"""The cost of a start: of an import, of the first executor of a process, and of the command line.

    python benchmarks/startup.py [--check]

Processor time of a process from its start to its end, the least of several. That of the first executor, with one tool,
is measured within a process that has made the tool. The checked file makes both. Python keeps its bytecode, which it
writes in the first of the processes. With `--check` the exit status is 1 if a goal is missed.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

PROCESSES = 11

TOOL = '''
from graphexec import AgentExecutor, create_tool_calling_agent, tool
from graphexec.models import ScriptedModel

@tool
def double(x: int) -> int:
    """Double a number."""
    return 2 * x
'''
EXECUTOR = """
executor = AgentExecutor(agent=create_tool_calling_agent(ScriptedModel([]), [double]), tools=[double])
"""
FIRST = f"""{TOOL}
import time
began = time.process_time()
{EXECUTOR}
print(time.process_time() - began)
"""

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def run_python(*arguments: str) -> str:
    """Run Python with these arguments, and return what it prints."""
    command = [sys.executable, *arguments]
    # The arguments are ours.
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, check=True, text=True).stdout  # noqa: S603


def seconds_of(*arguments: str) -> float:
    """Return the processor time of a process of Python with these arguments."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run_python(*arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def best(measured: Callable[[], float]) -> float:
    """Return the least of several measurements, in milliseconds."""
    return min(measured() for _ in range(PROCESSES)) * 1000


def main() -> int:
    """Measure, print, and return the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "my_agent.py"
        file.write_text(TOOL + EXECUTOR, encoding="utf-8")
        rows: tuple[tuple[str, Callable[[], float], float | None], ...] = (
            ("python -c pass", lambda: seconds_of("-c", "pass"), None),
            ("import graphexec", lambda: seconds_of("-c", "import graphexec"), None),
            ("import of the agent, and one tool", lambda: seconds_of("-c", TOOL), None),
            ("first executor of a process", lambda: float(run_python("-c", FIRST)), 40),
            ("graphexec --help", lambda: seconds_of("-m", "graphexec", "--help"), 250),
            ("graphexec check of one file", lambda: seconds_of("-m", "graphexec", "check", f"{file}:executor"), 400),
        )
        kept = True
        for name, measured, goal in rows:
            milliseconds = best(measured)
            missed = goal is not None and milliseconds > goal
            kept = kept and not missed
            described = "" if goal is None else f" (goal: at most {goal:g})"
            print(f"{name:<36}{milliseconds:>8.0f} ms{described}{' - MISSED' if missed else ''}")
    return 0 if kept or "--check" not in sys.argv else 1


if __name__ == "__main__":
    sys.exit(main())
