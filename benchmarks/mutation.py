"""Mutation score: change the code of the core in small ways, and count the changes that a quick test notices.

    python benchmarks/mutation.py [--sample 400] [--seed 1] [--jobs N] [graphexec/kernel/execution.py]...

With mutmut, in a copy of the repository; needs `fork`. The sample is drawn from the modules named, or of kernel,
runtime, executor and the proof. Every mutant of it that no test detects is printed as a diff: an equivalent program,
the text of an assertion, or a missing test. Not mutated are functions with a decorator, tables, defaults and other
code that runs at import, annotations, and the arguments of `len` and `isinstance`. A test that loops endlessly is
ended by a limit on processor time, and one that waits endlessly by the watchdog of all tests; both kill the mutant.
Hypothesis runs derandomised.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from mutmut.mutation.diff_apply import get_diff_for_mutant

TOP = Path(__file__).resolve().parent.parent

FOLDERS = ("kernel", "runtime", "executor", "verify/proof", "verify/checker")
TESTS = ("kernel", "runtime", "executor", "verify", "semantics", "nodes", "test_wrong_options.py")

# What a status of pytest says of a mutant; a process that took too long or crashed has a signal's.
SURVIVED, WITHOUT_TESTS = 0, (5, 33)

# How many examples of a property are tried.
EXAMPLES = 25

UNWANTED = shutil.ignore_patterns(".*", "__pycache__", "mutants", "node_modules", "build", "dist")

# Tests of other processes, which the mutants are not in, and of other programs, which take long; and those that count
# calls or read the source, which mutmut changes.
PASSED_OVER = " and ".join(
    f"not {name}"
    for name in (
        *("importing", "thousand", "spin", "tlc", "call_counts", "no_interrupt_misses", "habit_is_answered"),
        *("requests_per_minute", "verified_once", "wrong_options_name"),
    )
)

CONFIGURATION = """

[tool.mutmut]
source_paths = ["graphexec"]
only_mutate = {modules}
also_copy = ["README.md", "examples", "diagrams"]
pytest_add_cli_args = [
    "-n0", "-p", "no:cacheprovider", "--hypothesis-profile=mutation", "-k", "{passed_over}",
    "-m", "not slow and not medium and not full and not local_model and not browser",
]
pytest_add_cli_args_test_selection = {tests}
# A server that has imported the tests and run none: what a run remembers would hide mutants.
process_isolation = "forkserver"
timeout_multiplier = 3.0
timeout_constant = 5.0
track_dependencies = false
use_git_change_detection = false
"""

# Makes the mutants, and runs none.
GENERATE = """
import os
from mutmut import __main__ as mutmut

mutmut.set_mutant_under_test("mutant_generation")
os.makedirs("mutants", exist_ok=True)
mutmut.copy_src_dir()
mutmut.copy_also_copy_files()
mutmut.setup_source_paths()
mutmut.store_lines_covered_by_tests()
mutmut.create_mutants(os.cpu_count())
"""

# For the copy's conftest. What is remembered is forgotten before the tests, since it was made without the mutant.
HABITS = '''

import functools
import gc
import signal
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import Phase

settings.register_profile(
    "mutation",
    settings.get_profile("quick"),
    derandomize=True,
    database=None,
    max_examples={examples},
    phases=(Phase.explicit, Phase.generate),
    print_blob=False,
)

# Processor time; no test that passes takes as much.
SECONDS = 20.0


class RunsForEver(BaseException):
    """A test that takes so long does not end."""


def pytest_sessionstart(session: Any) -> None:
    # The garbage collector does not report frozen objects.
    gc.unfreeze()
    for one in gc.get_objects():
        if isinstance(one, functools._lru_cache_wrapper) and str(one.__module__).startswith("graphexec"):
            one.cache_clear()
    for name, module in [*sys.modules.items()]:
        for one in vars(module).values() if name.startswith("graphexec") else ():
            if isinstance(one, weakref.WeakKeyDictionary):
                one.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: Any) -> Iterator[None]:
    def enough(number: int, frame: Any) -> None:
        raise RunsForEver

    signal.signal(signal.SIGPROF, enough)
    signal.setitimer(signal.ITIMER_PROF, SECONDS, 1.0)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
'''


def main() -> int:
    """Draw a sample of mutants, run it, and print the survivors and the score."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "modules", nargs="*", metavar="MODULE", help="a file of the package; by default those of the core"
    )
    parser.add_argument("--sample", type=int, default=400, help="how many mutants are drawn")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many mutants at once")
    given = parser.parse_args()
    modules = given.modules or sorted(
        str(path.relative_to(TOP)) for one in FOLDERS for path in (TOP / "graphexec" / one).rglob("*.py")
    )
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "copy"
        _copy(folder, modules)
        subprocess.run([sys.executable, "-c", GENERATE], cwd=folder, check=True)  # noqa: S603 - ours, too
        names = sorted(_statuses(folder))
        sample = random.Random(given.seed).sample(names, min(given.sample, len(names)))  # noqa: S311 - no secret
        # Beside the interpreter, and not `python -m mutmut`, which would load it twice.
        mutmut = str(Path(sys.executable).with_name("mutmut"))
        command = [mutmut, "run", "--max-children", str(given.jobs), *sample]
        ended = subprocess.run(command, cwd=folder, capture_output=True, check=False, text=True)  # noqa: S603 - it is ours
        if ended.returncode:
            sys.exit(f"mutmut gave up; do all the tests pass?\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}")
        statuses = {name: _word(status) for name, status in _statuses(folder).items() if name in sample}
        with contextlib.chdir(folder):
            for name in sorted(name for name, word in statuses.items() if word != "killed"):
                module, _, function = name.rpartition("__mutmut_")[0].rpartition(".")
                path = f"{module.replace('.', '/')}.py"
                print(
                    f"\n{path}: {function.replace('ǁ', '.')}: {statuses[name]}\n{get_diff_for_mutant(name, path=path)}"
                )
    counted = Counter(statuses.values())
    print(f"{len(sample)} of {len(names)} mutants: {', '.join(f'{count} {word}' for word, count in counted.items())}")
    return 0


def _copy(folder: Path, modules: Sequence[str]) -> None:
    """Make the copy to mutate, and configure mutmut."""
    shutil.copytree(TOP, folder, ignore=UNWANTED)
    # Fewer examples of each property: what a mutant does, it does nearly always.
    for path in (folder / "tests").rglob("*.py"):
        given = re.sub(r"max_examples=(\d+|examples\([\d_, ]+\))", f"max_examples={EXAMPLES}", path.read_text("utf-8"))
        path.write_text(given, "utf-8")
    with (folder / "tests/conftest.py").open("a", encoding="utf-8") as conftest:
        conftest.write(HABITS.replace("{examples}", str(EXAMPLES)))
    tests = [f"tests/{name}" for name in TESTS]
    with (folder / "pyproject.toml").open("a", encoding="utf-8") as configuration:
        configuration.write(CONFIGURATION.format(modules=list(modules), tests=tests, passed_over=PASSED_OVER))


def _statuses(folder: Path) -> dict[str, int | None]:
    """Return the status with which pytest ended for each mutant, `None` for one that did not run."""
    found: dict[str, int | None] = {}
    for path in (folder / "mutants/graphexec").rglob("*.meta"):
        found |= json.loads(path.read_text("utf-8"))["exit_code_by_key"]
    return found


def _word(status: int | None) -> str:
    if status == SURVIVED:
        return "survived"
    return "without tests" if status in WITHOUT_TESTS or status is None else "killed"


if __name__ == "__main__":
    sys.exit(main())
