"""What must be green, in sessions: `nox -f .ci/noxfile.py -s lint`, say; without `-s`, all of them.

They run in the environment of the nox that runs them, which the README's test block makes; `thorough` makes its own.
`.ci/run` runs them for the oldest and the newest Python of the machine.
"""

import os
import sys
from pathlib import Path

import nox

nox.options.default_venv_backend = "none"
nox.options.sessions = ["all"]

TOP = Path(__file__).parent.parent
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
THOROUGH = "--hypothesis-profile=thorough"
# The usual tests, and those of medium length, which `pytest` alone leaves out.
USUAL = "not slow and not local_model and not browser"
# Some tests wait, as tests/conftest.py says.
WORKERS = str((os.cpu_count() or 1) + 1)

# The tests that cover the pure layers, which take three times as long while their coverage is measured.
PURE = (
    *(f"tests/{room}" for room in ("agents", "executor", "kernel", "nodes", "runtime", "semantics", "testing")),
    *(f"tests/{room}" for room in ("tools", "verify")),
    *(f"tests/draw/test_{name}.py" for name in ("ended_runs", "notebook", "prompts", "runs")),
)

# Where the tests are that need a browser, as tests/test_structure.py checks: to collect all others takes a while.
BROWSER = ("tests/browser", "tests/draw", "tests/live")

# What users install, and what the tests need beside it. The official clients and the type checkers want newer packages.
EXTRAS = ".[cli,draw,live,local,testing]"
TEST_TOOLS = (
    *("httpx-sse", "httpx2", "jsonschema", "pydot"),
    *("pytest-examples", "pytest-timeout", "pytest-xdist"),
)
NEED_MORE = ("tests/typing", "tests/models/test_official_packages.py")


def python(session: nox.Session, *arguments: str) -> None:
    """Run a module of this environment, from the top of the repository."""
    session.chdir(TOP)
    session.run(sys.executable, "-m", *arguments)


@nox.session
def lint(session: nox.Session) -> None:
    """Check the style, the layers, and the files that other programs read."""
    python(session, "ruff", "check")
    python(session, "ruff", "format", "--check")
    session.run(str(Path(sys.executable).with_name("lint-imports")))
    workflow = ".github/workflows/ci.yml"
    python(session, "check_jsonschema", "--builtin-schema", "vendor.github-workflows", workflow)
    python(session, "pre_commit", "validate-config")


@nox.session
def types(session: nox.Session) -> None:
    """Check the types as of this Python."""
    python(session, "mypy", "--python-version", VERSION)
    python(session, "pyright", "--pythonversion", VERSION, "--pythonpath", sys.executable)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the usual tests and those of medium length; arguments go to pytest."""
    python(session, "pytest", "-m", USUAL, *session.posargs)


@nox.session
def medium(session: nox.Session) -> None:
    """Run the tests of medium length alone."""
    python(session, "pytest", "-m", "medium and not slow")


@nox.session
def docs(session: nox.Session) -> None:
    """Do what `site` does, run the documented code and the examples, and compare what is generated."""
    site(session)
    python(session, "pytest", "-m", USUAL, "tests/docs")


@nox.session
def site(session: nox.Session) -> None:
    """Build the documentation site strictly, and the distribution, whose description an index page must show."""
    session.chdir(TOP)
    session.run(sys.executable, "docs/website.py", "build")
    folder = session.create_tmp()
    python(session, "hatchling", "build", "--directory", folder)
    python(session, "twine", "check", "--strict", *map(str, Path(folder).glob("graphexec_agents-*")))


@nox.session(venv_backend="uv")
def thorough(session: nox.Session) -> None:
    """Run the usual tests with many examples of each property and the lowest versions of what users install."""
    session.chdir(TOP)
    session.install("--resolution", "lowest-direct", "--editable", EXTRAS)
    # Leaves what is installed as it is.
    session.install(*TEST_TOOLS)
    parallel = ("python", "-m", "pytest", "-n", WORKERS, "--dist", "worksteal", "-m", USUAL, THOROUGH)
    session.run(*parallel, *(f"--ignore={path}" for path in NEED_MORE))


@nox.session
def coverage(session: nox.Session) -> None:
    """Run the tests that cover the pure layers, always with the same examples."""
    # pytest-cov wants to know of the workers before conftest.py can say so; and the package's own plugin would import
    # what is to be measured before the measuring begins. `sys.monitoring`, which is quicker, cannot measure branches
    # before Python 3.14.
    parallel = ("pytest", "-n", WORKERS, "--dist", "worksteal", "--hypothesis-seed=0", "-p", "no:graphexec")
    python(session, *parallel, "--cov", "--cov-report=term-missing:skip-covered", *PURE)


@nox.session
def long(session: nox.Session) -> None:
    """Run the long tests, with the model checkers, the local model and the browser, where these are installed."""
    python(session, "pytest", "-m", "slow and not local_model and not browser", THOROUGH)
    # A process has one browser, which takes more than one processor.
    python(session, "pytest", "-m", "browser and not local_model", "-n2", "--dist=worksteal", THOROUGH, *BROWSER)
    # Each process has a local model of its own, which takes another processor.
    python(session, "pytest", "-m", "local_model", "-n2", "--dist=worksteal", THOROUGH)


@nox.session(name="all")
def every(session: nox.Session) -> None:
    """Run all of them."""
    # `tests` has the rest of what `docs` runs, and `thorough` what `tests` runs, with more examples.
    for name in ("lint", "types", "site", "thorough", "coverage", "long"):
        session.notify(name)
