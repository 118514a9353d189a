"""The store of `--runs`, and what a person reads of a stored run: its questions, how to answer, and how it goes on."""

from __future__ import annotations

import re
import secrets
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from graphexec.cli.exit_codes import UsageError
from graphexec.errors import InputError
from graphexec.executor.executor import AgentExecutor
from graphexec.kernel.serialization import parse_json
from graphexec.runs.questions import Question, Waiting

if TYPE_CHECKING:
    from graphexec.runs.store import Runs
    from graphexec.runtime.stored import RunStore

_SCHEMES = ("postgresql://", "postgres://")
# The units of durations, the largest first.
_UNITS: Mapping[str, int] = {"w": 604_800, "d": 86_400, "h": 3600, "m": 60, "s": 1}


@dataclass(frozen=True, slots=True)
class StoredAs:
    """A run's store with its name on the command line, its id in it, and the executor of the user that it runs."""

    store: RunStore
    name: str
    run_id: str
    target: str | None = None
    migrate: bool = False

    @property
    def way_on(self) -> str:
        """The command that continues the run."""
        if self.target is None:
            return f"the same command with --runs {quote(self.name)} --id {quote(self.run_id)}"
        return f"graphexec runs resume {quote(self.name)} {quote(self.target)} {quote(self.run_id)}"


@contextmanager
def storing(
    executor: AgentExecutor, name: str | None, run_id: str | None, target: str | None
) -> Generator[StoredAs | None]:
    """Yield where a run is stored: in the store of this name or in the executor's own, under this id or a new one.

    Raises `UsageError` for an id without a store, and as `open_store` does.
    """
    made = secrets.token_hex(6) if run_id is None else run_id
    if name is not None:
        with open_store(name, new=True) as store:
            yield StoredAs(store, without_password(name), made, target)
    elif executor.runs is not None:
        yield StoredAs(executor.runs, str(getattr(executor.runs, "path", "FILE")), made, target)
    elif run_id is None:
        yield None
    else:
        raise UsageError(f"--id {run_id} needs a store; add --runs runs.db")


@contextmanager
def open_store(name: str, *, new: bool = False) -> Generator[Runs]:
    """Yield the store in a file, which may be `new`, or at an address of PostgreSQL.

    Raises `UsageError` for a file that is not there, and `InputError` for what is not a store.
    """
    from graphexec.runs import PostgresRuns, SQLiteRuns

    if "://" in name and not name.startswith(_SCHEMES):
        raise UsageError(f"{without_password(name)} is not the address of a store; write a file, or postgresql://...")
    is_file = not name.startswith(_SCHEMES)
    if is_file and not new and not Path(name).exists():
        raise UsageError(f"there is no file {name}; check its name, and the folder")
    with SQLiteRuns(name) if is_file else PostgresRuns(name) as store:
        yield store


def without_password(name: str) -> str:
    """Return the name of a store without the password of an address."""
    return re.sub(r"(://[^:/@]*:|[?&]password=)[^/&]+?(?=@|&|$)", r"\1***", name) if "://" in name else name


def parse_duration(text: str) -> float:
    """Return the seconds of a duration such as `30d`, `12h` or `90s`. Raises `UsageError`."""
    with suppress(KeyError, ValueError, IndexError):
        seconds = float(text[:-1]) * _UNITS[text[-1]]
        if 0 <= seconds < float("inf"):
            return seconds
    raise UsageError(f"{text} is not a duration; write a number with s, m, h, d or w, such as 30d")


def format_age(seconds: float) -> str:
    """Return a duration in its largest unit: `45 s`, `3 min`, `12 h`, `40 d`."""
    unit = next((unit for unit in "dhm" if seconds >= _UNITS[unit]), "s")
    return f"{max(seconds, 0) // _UNITS[unit]:.0f} {'min' if unit == 'm' else unit}"


def read_value(question: Question, text: str) -> object:
    """Return the reply that a person has written: JSON or text, but text if the schema takes text alone.

    The store checks it.
    """
    values: list[object] = [text]
    with suppress(ValueError):
        values.insert(question.schema.get("type") == "string", parse_json(text))
    for value in values:
        with suppress(InputError):
            question.read(value)
            return value
    # So the error of a mistake in JSON names its field.
    return values[0]


def question_lines(questions: Iterable[Question], name: str) -> Iterator[str]:
    """Yield the questions, each with its key, and the command that answers it."""
    for one in questions:
        kind, fields = one.schema.get("type", "JSON"), ", ".join(one.schema.get("properties", ()))
        hint = f" (a JSON {kind}{fields and f' with {fields}'})"
        yield f"{one.key}: {one}{'' if one.choices or kind == 'string' else hint}"
        yield f"  answer it: graphexec runs reply {quote(name)} {quote(one.run_id)} {quote(one.key)} VALUE"


def waiting_lines(waiting: Waiting, stored: StoredAs | None) -> Iterator[str]:
    """Yield what a run waits for, how to answer, and how it goes on; without a place, it is in a store of its own."""
    count = len(waiting.questions)
    yield f"the run {waiting.run_id} waits for {'an answer' if count == 1 else f'{count} answers'}"
    yield from question_lines(waiting.questions, "FILE" if stored is None else stored.name)
    if stored is not None:
        yield f"then go on: {stored.way_on}"


def question_data(question: Question) -> dict[str, Any]:
    """Return a question as data."""
    return {**asdict(question), "choices": [*question.choices]}


def waiting_data(waiting: Waiting) -> dict[str, Any]:
    """Return what a run waits for as data, for the record of its result."""
    return {"run_id": waiting.run_id, "questions": [*map(question_data, waiting.questions)]}
