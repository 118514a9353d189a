"""The commands `runs`, for stored runs: list, show, answer, continue, copy, cancel and delete them."""

from __future__ import annotations

import json as json_text
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Annotated, Any, Literal, TypeAlias

import typer

from graphexec.cli.exit_codes import ANSWERED, Debug, exit_on_error, option
from graphexec.cli.records import Records
from graphexec.cli.runs.building import NamedExecutor, build_executor
from graphexec.cli.runs.loop import RunSetup, follow
from graphexec.cli.runs.parameters import AgentOptions, decode_optional
from graphexec.cli.runs.stores import (
    StoredAs,
    format_age,
    open_store,
    parse_duration,
    question_data,
    question_lines,
    read_value,
    without_password,
)
from graphexec.cli.runs.termination import terminable
from graphexec.cli.runs.trace import AnswerPrinter, TracePrinter
from graphexec.cli.screen import print_table
from graphexec.cli.terminal import clean
from graphexec.draw.model.text import format_call, format_data
from graphexec.errors import GraphexecError
from graphexec.runs.fingerprint import fingerprint
from graphexec.runs.pages import recording_of_stored
from graphexec.runs.store import Runs, StoredRun

app = typer.Typer(no_args_is_help=True, add_completion=False)

_FILTER, _OUTPUT = "Filter", "Output"
# Characters of a reply, and of the arguments of a call, in a table.
_SHOWN = 60


# Any: as in typer.
def _argument(metavar: str, text: str) -> Any:
    return typer.Argument(metavar=metavar, help=text, show_default=False, callback=decode_optional)


Store: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="The file of graphexec run --runs, or the address of a PostgreSQL database, postgresql://...",
        show_default=False,
    ),
]
RunId: TypeAlias = Annotated[str, _argument("ID", "The id of a run, which graphexec runs list shows.")]
Json: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print JSON, one object on a line.", rich_help_panel=_OUTPUT)
]


@app.callback(
    epilog="\n\n".join(
        [
            "Examples:",
            'graphexec run --runs runs.db --id trip my_agent.py:executor "Book it."  # waits for a person',
            "graphexec runs list runs.db; graphexec runs show runs.db trip",
            "graphexec runs reply runs.db trip trip/3.0 approve",
            "graphexec runs resume runs.db my_agent.py:executor trip",
            "Exit codes: 0 done, 1 error, 2 wrong usage; resume as graphexec run, so 4 for a run that waits.",
        ]
    )
)
def runs() -> None:
    """List, answer, continue and delete stored runs.

    graphexec run --runs FILE stores a run, which can wait for people without a process.
    """


@app.command("list", epilog="Example: graphexec runs list runs.db --status waiting")
def list_runs(
    file: Store,
    *,
    status: Annotated[
        Literal["running", "waiting", "ready", "failed", "done", "cancelled"] | None,
        option(_FILTER, None, "Only the runs of this status."),
    ] = None,
    limit: Annotated[int, option(_FILTER, "N", "The most runs that are listed. Default: 100.", min=1)] = 100,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """List runs, the last changed one first: status, id, age, and the answer, the error or the question.

    A run whose process has ended in the middle is shown as interrupted.
    """
    with exit_on_error(debug=debug, json_to=sys.stdout if json else None), open_store(file) as store:
        found = store.list(status, limit=limit)
        if json:
            _print_json(map(asdict, found))
            return
        rows = [(*_describe(one), clean(format_data(one.note, 2 * _SHOWN))) for one in found]
        if sys.stdout.isatty():
            print_table(("status", "id", "changed", "note"), rows, sys.stdout)
        else:
            for row in rows:
                print(*row, sep="\t")


@app.command(epilog="Example: graphexec runs show runs.db trip")
def show(file: Store, run_id: RunId, *, json: Json = False, debug: Debug = False) -> None:
    """Show a run: its status, its calls with their replies, its attempts, and its open questions."""
    with exit_on_error(debug=debug, json_to=sys.stdout if json else None), open_store(file) as store:
        found = store.get(run_id)
        records = recording_of_stored(store, run_id).records
        attempts, calls = 1 + sum(one.get("news") == "Restarted" for one in records), _read_calls(records)
        questions = store.questions(run_id)
        if json:
            known = {"attempts": attempts, "calls": calls, "questions": [*map(question_data, questions)]}
            _print_json([asdict(found) | known])
            return
        status, _, age = _describe(found)
        print(clean(f"{run_id}: {status}, changed {age}"))
        if found.status != "waiting" and found.note:
            print(clean(found.note))
        print(f"attempts: {attempts}")
        print_table(("call", "node", "asks for", "with", "reply"), map(_row, calls), sys.stdout)
        for line in question_lines(questions, without_password(file)):
            print(clean(line))


@app.command(epilog="Example: graphexec runs reply runs.db trip trip/3.0 approve")
def reply(
    file: Store,
    run_id: RunId,
    key: Annotated[str, _argument("KEY", "The key of an open question, which graphexec runs show prints.")],
    value: Annotated[
        str,
        _argument(
            "VALUE",
            "The answer: text, or JSON if the question takes something else. One word is enough for an answer with one "
            "necessary field, such as approve.",
        ),
    ],
    *,
    debug: Debug = False,
) -> None:
    """Answer an open question of a run; the first answer counts.

    The run goes on with graphexec runs resume.
    """
    with exit_on_error(debug=debug), open_store(file) as store:
        store.get(run_id)
        question = next((one for one in store.questions(run_id) if one.key == key), None)
        is_closed = question is None and store.find_question(run_id, key) is not None
        if is_closed or not store.reply(run_id, key, value if question is None else read_value(question, value)):
            raise GraphexecError(f"the question {key} was answered before, or has expired; the first answer counts")
        left = len(store.questions(run_id))
        _say(f"answered; {f'{left} more to answer' if left else 'the run is ready to go on'}")


@app.command(
    epilog="\n\n".join(
        [
            "Examples:",
            "graphexec runs resume runs.db my_agent.py:executor trip",
            "graphexec runs resume runs.db my_agent.py:executor  # all that are ready",
            "Exit codes: as graphexec run, that of the first run that has another than 0.",
        ]
    )
)
def resume(
    file: Store,
    target: Annotated[
        str,
        _argument(
            "TARGET",
            "The executor of the run, as my_agent.py:executor or package.module:executor, or a function without "
            "parameters that makes one. The file is imported, and so run.",
        ),
    ],
    run_id: Annotated[
        str | None, _argument("ID", "The id of a run. Default: all runs of this executor that are ready.")
    ] = None,
    *,
    migrate: Annotated[
        bool,
        typer.Option(
            "--migrate", help="Continue a run that another version began, as far as it asks for the same calls."
        ),
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per event.", rich_help_panel=_OUTPUT)
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only the answers, no trace.", rich_help_panel=_OUTPUT)
    ] = False,
    debug: Debug = False,
) -> None:
    """Continue a run, or all that are ready: those with all answers, and those whose process has ended.

    The answer of a run that is done is printed again.
    """
    out, code = sys.stdout, ANSWERED
    with exit_on_error(debug=debug, json_to=out if json else None), terminable(), open_store(file) as store:
        named = build_executor(AgentOptions(target=target))
        for one in _ready_runs(store, named) if run_id is None else [store.get(run_id).run_id]:
            display = Records(out) if json else (AnswerPrinter if quiet else TracePrinter)(out, sys.stderr)
            stored = StoredAs(store, without_password(file), one, target, migrate)
            setup = RunSetup(None, named.executor, named.model, named.agent, stored=stored)
            ended = follow(setup, [display], debug=debug)
            code = code or ended
            if ended > 128:  # noqa: PLR2004 - a signal, which ends the command
                break
        if code != ANSWERED:
            raise typer.Exit(code)


@app.command(epilog="Example: graphexec runs fork runs.db trip --at 3 --id trip-2")
def fork(
    file: Store,
    run_id: RunId,
    *,
    at: Annotated[int | None, option(None, "N", "Copy the first N replies. Default: all.", min=0)] = None,
    new_id: Annotated[
        str | None, option(None, "NEW", "The id of the copy. Default: a new one.", "--id", callback=decode_optional)
    ] = None,
    debug: Debug = False,
) -> None:
    """Copy a run with its first replies, and print the id of the copy, which is ready to go on."""
    with exit_on_error(debug=debug), open_store(file) as store:
        print(clean(store.fork(run_id, at=at, new_id=new_id)))


@app.command(epilog="Example: graphexec runs cancel runs.db trip")
def cancel(file: Store, run_id: RunId, *, debug: Debug = False) -> None:
    """Cancel a run: it does not go on, and a process that carries it on stops before its next call."""
    with exit_on_error(debug=debug), open_store(file) as store:
        store.cancel(run_id)
        if store.get(run_id).status == "done":
            raise GraphexecError(f"the run {run_id} is done, and stays so; delete old runs with graphexec runs prune")
        _say(f"{run_id} is cancelled")


@app.command(epilog="Example: graphexec runs prune runs.db --older-than 30d")
def prune(
    file: Store,
    *,
    older_than: Annotated[
        str, option(None, "TIME", "Only runs that have not changed for so long: a number with s, m, h, d or w, as 30d.")
    ],
    debug: Debug = False,
) -> None:
    """Delete runs that are done or cancelled, and have not changed for some time."""
    with exit_on_error(debug=debug):
        seconds = parse_duration(older_than)
        with open_store(file) as store:
            _say(f"runs deleted: {store.prune(older_than=seconds)}")


def _say(text: str) -> None:
    print(f"graphexec: {clean(text)}", file=sys.stderr)


def _print_json(records: Iterable[Mapping[str, Any]]) -> None:
    for one in records:
        print(json_text.dumps(one))


def _describe(found: StoredRun) -> tuple[str, str, str]:
    status = "interrupted" if found.status == "running" and found.is_ready else found.status
    return status, clean(found.run_id), f"{format_age(time.time() - found.updated)} ago"


def _ready_runs(store: Runs, named: NamedExecutor) -> list[str]:
    """Return the runs of an executor that are ready."""
    ready, machine = store.ready(limit=sys.maxsize), fingerprint(named.executor.graph)
    own = [one for one in ready if store.machine_of(one)["fingerprint"] == machine]
    if len(own) < len(ready):
        _say(f"of {len(ready)} runs that are ready, {len(ready) - len(own)} are of another machine, and left")
    if not own:
        _say("no run is ready to go on; graphexec runs list shows all")
    return own


def _read_calls(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the calls in the records of a run, each with what it asks for, and its reply if there is one."""
    calls: dict[tuple[int, int], dict[str, Any]] = {}
    for record in records:
        match record:
            case {"event": "asked", "node": node, "call": {"sequence": one, "member": member}, "effects": [asked]}:
                calls[one, member] = {"call": f"{one}.{member}", "node": node, "asked": asked, "reply": None}
            case {"event": "answered", "call": {"sequence": one, "member": member}, "replies": [reply]}:
                calls[one, member]["reply"] = reply
            case _:
                pass
    return [*calls.values()]


def _row(call: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a call for a table."""
    asked, answered = call["asked"], call["reply"] or {"value": "(none)"}
    given = next((asked[name] for name in ("question", "value") if name in asked), "")
    text = format_call(asked["tool"], asked["tool_input"], _SHOWN) if "tool" in asked else format_data(given, _SHOWN)
    reply = next((answered[name] for name in ("observation", "content", "value") if name in answered), "")
    return tuple(map(clean, (call["call"], call["node"], asked["effect"], text, format_data(reply, _SHOWN))))
