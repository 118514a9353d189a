"""Mutation testing: change the code in every small way, and check that a test fails.

    python benchmarks/mutation.py [engine | executor | prover | graphexec/kernel/execution.py]... [--keep FOLDER]

With mutmut, in a copy of the repository; needs `fork`. Every mutant that no test detects (a survivor) is printed as a
diff, unless `benchmarks/mutants.md` explains it. The exit status is 1 if a survivor is not explained, or if a mutant
explained there no longer survives, for the modules that were run. The result is deterministic: Hypothesis runs
derandomised. Not mutated are tables, defaults and other code that runs at import, annotations, and the arguments of
`len` and `isinstance`. A test that loops endlessly is ended by a limit on processor time, and one that waits endlessly
by the watchdog of all tests; both kill the mutant.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mutmut.mutation.diff_apply import get_diff_for_mutant

TOP = Path(__file__).resolve().parent.parent
EXPLAINED = TOP / "benchmarks" / "mutants.md"


@dataclass(frozen=True)
class Subject:
    """Modules that are mutated together, and the tests that must detect it."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


_KERNEL = (
    *("tests/kernel", "tests/runtime", "tests/semantics"),
    *("tests/executor/test_time.py", "tests/test_wrong_options.py"),
)
_AGENT = ("tests/executor", "tests/agents", "tests/tools", "tests/semantics", "tests/runtime")
_PROVER = (
    *(
        f"tests/verify/test_{name}.py"
        for name in (
            "bounds",
            "flows",
            "independent_checkers",
            "loops",
            "products",
            "prover_details",
            "random_machines",
            "verdicts",
        )
    ),
    "tests/kernel/test_nesting.py",
    "tests/kernel/test_reserved.py",
)

SUBJECTS = {
    "engine": Subject(
        tuple(f"graphexec/kernel/{name}.py" for name in ("execution", "stepping", "meters", "subgraphs")),
        _KERNEL,
    ),
    "executor": Subject(tuple(f"graphexec/executor/{name}.py" for name in ("executor", "table")), _AGENT),
    "prover": Subject(
        tuple(
            f"graphexec/verify/proof/{name}.py"
            for name in (
                "flow",
                "ranking",
                "potential",
                "polynomial",
                "product",
                "bounds",
                "prove",
                "loops",
                "checker",
                "certificate",
            )
        ),
        _PROVER,
    ),
}

# The exit statuses of pytest for a failed test, and of a process that was ended because it took too long, or crashed.
FAILED = (1, 3)
ENDED = (-24, 24, 152, -9, -11)

# How many examples of a property are tried.
EXAMPLES = 25

UNWANTED = shutil.ignore_patterns(".*", "__pycache__", "mutants", "node_modules", "build", "dist")

# Tests of other processes, which the mutants are not in, and of other programs, which take long.
PASSED_OVER = "not of_the_program and not importing and not thousand and not spin and not tlc"

CONFIGURATION = """

[tool.mutmut]
source_paths = ["graphexec"]
only_mutate = {modules}
also_copy = ["README.md", "examples", "diagrams"]
pytest_add_cli_args = [
    "-n0", "-p", "no:cacheprovider", "--hypothesis-profile=mutation", "-k", "{passed_over}",
    "-m", "not slow and not local_model and not browser",
]
pytest_add_cli_args_test_selection = {tests}
# A server that has imported the tests and run none: what a run remembers would hide mutants.
process_isolation = "forkserver"
timeout_multiplier = 3.0
timeout_constant = 5.0
track_dependencies = false
use_git_change_detection = false
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


@dataclass(frozen=True)
class Mutant:
    """One change: the module and function, the line where it is, and the diff of the function."""

    module: str
    function: str
    line: int
    diff: str

    @property
    def changed(self) -> tuple[str, ...]:
        """The lines taken out and put in, which say what it is though other lines come and go."""
        return _changed(self.diff.splitlines())


@dataclass(frozen=True)
class Explained:
    """An entry of `mutants.md`: a change that nothing notices, and is not to."""

    module: str
    function: str
    changed: tuple[str, ...]


def main() -> int:
    """Run what the command line names; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help=f"{', '.join(SUBJECTS)}, or a module of these")
    parser.add_argument("--keep", type=Path, help="work in this folder, go on with what is there, and leave it")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many mutants at once")
    given = parser.parse_args()
    unexplained = False
    for name, modules in _select_subjects(given.subjects or list(SUBJECTS)):
        with tempfile.TemporaryDirectory() as temporary:
            folder = given.keep / name if given.keep else Path(temporary) / "copy"
            if folder.exists():
                _forget_survivors(folder, modules)
            _copy(folder, modules, SUBJECTS[name].tests)
            began = time.monotonic()
            _mutate(folder, given.jobs)
            unexplained |= _report(folder, modules, time.monotonic() - began)
    return int(unexplained)


def _select_subjects(subjects: Iterable[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The subjects asked for, with the modules of each that are."""
    asked = set(subjects)
    for name, subject in SUBJECTS.items():
        modules = subject.modules if name in asked else tuple(one for one in subject.modules if one in asked)
        asked -= {name, *modules}
        if modules:
            yield name, modules
    if asked:
        sys.exit(f"there is no subject {', '.join(sorted(asked))}; give {', '.join(SUBJECTS)}, or a module of these")


def _copy(folder: Path, modules: Sequence[str], tests: Sequence[str]) -> None:
    """Create or update the copy to mutate, and configure mutmut."""
    shutil.copytree(TOP, folder, ignore=UNWANTED, dirs_exist_ok=True)
    for module in modules:
        path = folder / module
        path.write_text(_undecorated(path.read_text("utf-8")), "utf-8")
    # Fewer examples of each property: what a mutant does, it does nearly always.
    for path in (folder / "tests").rglob("*.py"):
        given = re.sub(r"max_examples=(\d+|examples\([\d_, ]+\))", f"max_examples={EXAMPLES}", path.read_text("utf-8"))
        path.write_text(given, "utf-8")
    with (folder / "tests/conftest.py").open("a", encoding="utf-8") as conftest:
        conftest.write(HABITS.replace("{examples}", str(EXAMPLES)))
    with (folder / "pyproject.toml").open("a", encoding="utf-8") as configuration:
        configuration.write(CONFIGURATION.format(modules=list(modules), tests=list(tests), passed_over=PASSED_OVER))


def _forget_survivors(folder: Path, modules: Iterable[str]) -> None:
    """Leave only those mutants done with that a test has noticed."""
    (folder / "mutants/mutmut-stats.json").unlink(missing_ok=True)
    for module in modules:
        if (path := _meta(folder, module)).exists():
            data = json.loads(path.read_text("utf-8"))
            codes: dict[str, int | None] = data["exit_code_by_key"]
            data["exit_code_by_key"] = {
                name: code if code in (*FAILED, *ENDED) else None for name, code in codes.items()
            }
            path.write_text(json.dumps(data), "utf-8")


def _undecorated(source: str) -> str:
    """Write the decorators of functions as assignments below them: mutmut passes over a function that has any."""
    lines = source.splitlines()
    tree = ast.parse(source)
    below: dict[int, str] = {}
    for body in [tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef))]:
        for node in body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            written = [ast.unparse(one) for one in node.decorator_list]
            if not written or {"staticmethod", "classmethod", "overload"} & set(written):
                continue
            for number in range(node.decorator_list[0].lineno, node.lineno):
                lines[number - 1] = ""
            assert node.end_lineno is not None, "ast.parse gives it"
            indent = " " * node.col_offset
            below[node.end_lineno] = f"{indent}{node.name} = {'('.join([*written, node.name])}{')' * len(written)}"
    return "\n".join(f"{line}\n{below[number]}" if number in below else line for number, line in enumerate(lines, 1))


def _mutate(folder: Path, jobs: int) -> None:
    """Run mutmut in the folder, where its log is kept."""
    # Beside the interpreter, and not `python -m mutmut`, which would load it twice.
    mutmut = Path(sys.executable).with_name("mutmut")
    log = folder / "mutmut.log"
    with log.open("w", encoding="utf-8") as output:
        command = [str(mutmut), "run", "--max-children", str(jobs)]
        ended = subprocess.run(command, cwd=folder, stdout=output, stderr=output, check=False)  # noqa: S603 - it is ours
    if ended.returncode:
        sys.exit(f"mutmut gave up; do all the tests pass?\n{log.read_text('utf-8')[-2000:]}")


def _meta(folder: Path, module: str) -> Path:
    return folder / "mutants" / f"{module}.meta"


def _stands(folder: Path, modules: Iterable[str]) -> dict[str, str]:
    """Return the status of each mutant of some modules, by its name."""
    codes: dict[str, int | None] = {}
    for module in modules:
        # A module of which there is nothing to mutate has none.
        if (path := _meta(folder, module)).exists():
            codes |= json.loads(path.read_text("utf-8"))["exit_code_by_key"]
    return {name: _word(code) for name, code in codes.items()}


def _word(code: int | None) -> str:
    match code:
        case 0:
            return "survived"
        case 5 | 33:
            return "without tests"
        case _ if code in FAILED:
            return "killed"
        case _ if code in ENDED:
            return "ended"
        case _:
            return f"broken ({code})"


def _report(folder: Path, modules: Sequence[str], seconds: float) -> bool:
    """Print what came of the mutants of some modules; return whether it is not as `mutants.md` says."""
    stands = _stands(folder, modules)
    with contextlib.chdir(folder):
        survivors = [
            _mutant(name, get_diff_for_mutant(name, path=_place(name)[0]))
            for name, status in stands.items()
            if status not in ("killed", "ended")
        ]
    explained = [one for one in _explained(EXPLAINED.read_text("utf-8")) if one.module in modules]
    known = {(one.module, one.function, one.changed) for one in explained}
    new = [one for one in survivors if (one.module, one.function, one.changed) not in known]
    gone = known - {(one.module, one.function, one.changed) for one in survivors}
    for one in new:
        print(f"\n{one.module}:{one.line}: {one.function} survives\n{one.diff}")
    for module, function, changed in sorted(gone):
        print(
            f"\n{module}: {function}: remove this from {EXPLAINED.name}, it is not a survivor:\n" + "\n".join(changed)
        )
    print()
    counted = Counter((_place(name)[0], status) for name, status in stands.items())
    for module in modules:
        ways = {status: count for (place, status), count in sorted(counted.items()) if place == module}
        counts = ", ".join(f"{count} {status}" for status, count in ways.items()) or "none"
        print(f"{module}: {sum(ways.values())} mutants: {counts}")
    print(
        f"{seconds:.0f} seconds; {len(survivors) - len(new)} survivors explained, {len(new)} not; {len(gone)} obsolete"
    )
    return bool(new or gone)


def _place(name: str) -> tuple[str, str]:
    """The module and the function of a mutant's name: `graphexec.kernel.execution.xǁExecutionǁrun__mutmut_3`."""
    dotted, _, mangled = name.rpartition("__mutmut_")[0].rpartition(".")
    function = ".".join(mangled.split("ǁ")[1:]) if "ǁ" in mangled else mangled.removeprefix("x_")
    return dotted.replace(".", "/") + ".py", function


def _mutant(name: str, shown: str) -> Mutant:
    module, function = _place(name)
    # The first two lines name the file.
    hunks = shown.splitlines()[2:]
    return Mutant(module, function, _line(module, function, hunks), "\n".join(hunks))


def _changed(diff: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{line[0]} {line[1:].strip()}" for line in diff if line.startswith(("-", "+")))


def _line(module: str, function: str, hunks: Sequence[str]) -> int:
    """Return the position of the first removed line in the repository's file."""
    source = (TOP / module).read_text("utf-8")
    place: ast.AST = ast.parse(source)
    for part in function.split("."):
        place = next(
            node
            for node in ast.iter_child_nodes(place)
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name == part
        )
    assert isinstance(place, ast.FunctionDef | ast.AsyncFunctionDef), f"{function} is a function"
    taken = next((line[1:].strip() for line in hunks if line.startswith("-")), "")
    header = re.match(r"@@ -(\d+)", hunks[0])
    assert header, f"a diff begins with its place, not with {hunks[0]}"
    before = next(number for number, line in enumerate(hunks[1:]) if line[:1] in "-+")
    near = place.lineno + int(header[1]) - 1 + before
    lines = enumerate(source.splitlines(), 1)
    fitting = [n for n, line in lines if place.lineno <= n <= (place.end_lineno or n) and line.strip() == taken]
    return min(fitting, key=lambda number: abs(number - near), default=near)


def _explained(text: str) -> Iterator[Explained]:
    """The entries of `mutants.md`: under a heading with module and function, each block that is a diff."""
    module = function = ""
    block: list[str] | None = None
    for line in text.splitlines():
        if heading := re.match(r"## (\S+\.py) (\S+)", line):
            module, function = heading.groups()
        elif line.startswith("```") and block is None:
            block = []
        elif line.startswith("```"):
            yield Explained(module, function, _changed(block or ()))
            block = None
        elif block is not None:
            block.append(line)


if __name__ == "__main__":
    sys.exit(main())
