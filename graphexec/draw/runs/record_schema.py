"""Records as lines of JSON, with the fields that each kind must have: a file from an unknown source is checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, NotRequired, TypeAlias

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from graphexec.draw.runs.data import Record
from graphexec.errors import InputError, format_value
from graphexec.kernel.serialization import INVALID_DATA_ERRORS, format_json, parse_json

# The remedy for a file that is not one.
NAME_A_TRACE = "pass the file that graphexec run --record wrote"

# The version of records; no other is read.
VERSION = 2

# Seconds; the upper bound excludes infinity.
_Seconds: TypeAlias = Annotated[float, Field(ge=0, le=1e12)]

# Counts and money; the usage of a machine's own meters may be either.
_Count: TypeAlias = Annotated[int, Field(ge=0)]
_Money: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]

# The fields that each kind of record must have.
REQUIRED: Mapping[str, Sequence[str]] = {
    "start": ("version",),
    "entered": ("node", "spent"),
    "asked": ("node", "effects"),
    "answered": ("node", "spent", "replies"),
    "moved": ("node", "outcome", "target"),
    "reported": ("node", "effects", "news", "text"),
    "alive": ("time",),
    "failed": ("node", "began", "seconds", "error"),
    "result": ("status", "output", "spent", "seconds"),
}


class _Tool(TypedDict):
    name: str
    description: NotRequired[str]
    parameters: NotRequired[dict[str, Any]]


class _Spent(TypedDict):
    iterations: _Count
    seconds: _Seconds
    model_calls: _Count
    tool_calls: _Count
    prompt_tokens: _Count
    completion_tokens: _Count
    tokens: _Count
    cached_tokens: NotRequired[_Count]
    cost: _Money
    budgets: dict[str, _Count | _Money]


class _Message(TypedDict):
    role: str
    content: str
    kept: NotRequired[_Count]
    images: NotRequired[list[str]]


class _Prompt(TypedDict):
    kept: _Count
    messages: list[_Message]


class _Request(TypedDict, total=False):
    tools: list[_Tool]
    stop: list[str]
    schema: dict[str, Any] | None
    tool_choice: str


class _Effect(TypedDict):
    effect: str
    tool: NotRequired[str]
    prompt: NotRequired[_Prompt]
    request: NotRequired[_Request]
    question: NotRequired[str]


class _Call(TypedDict):
    id: str
    name: str
    arguments: str


class _Reply(TypedDict):
    effect: str
    began: _Seconds
    seconds: _Seconds
    traceback: NotRequired[str]
    tool: NotRequired[str]
    status: NotRequired[str]
    error: NotRequired[str | None]
    content: NotRequired[str]
    tool_calls: NotRequired[list[_Call]]
    prompt_tokens: NotRequired[_Count]
    completion_tokens: NotRequired[_Count]
    cached_tokens: NotRequired[_Count]
    cost: NotRequired[_Money]
    reasoning: NotRequired[str]


class _CallId(TypedDict):
    run: str
    sequence: _Count
    member: _Count


class _Step(TypedDict):
    unread: NotRequired[str]


class _Error(TypedDict):
    type: str
    message: str
    traceback: NotRequired[str]


class _Record(TypedDict, total=False):
    """The fields of any record: what reads them may not look at its event."""

    version: int
    limits: dict[str, Any]
    budgets: dict[str, _Count | None]
    tools: list[_Tool]
    parameters: dict[str, Any]
    heartbeat: _Seconds
    node: str
    run: str
    time: _Seconds
    spent: _Spent
    seconds: _Seconds
    call: _CallId
    provider_id: str
    effects: list[_Effect]
    replies: list[_Reply]
    within: dict[str, _Count | _Money]
    outcome: str
    target: str
    news: str
    text: str
    reasoning: str
    status: str
    reason: str | None
    steps: list[_Step]
    unread: str


class _Start(_Record):
    began: NotRequired[str]


class _Failed(_Record):
    began: _Seconds
    error: _Error


class _Other(_Record):
    # The exception, if there was one.
    error: NotRequired[_Error | None]


def record_line(record: Record) -> str:
    """Return the line of a record, in ASCII."""
    return f"{format_json(record)}\n"


def read_record(line: str | bytes, place: str) -> Record:
    """Return the record of a line. Raises `InputError`, with the `place`, for an invalid line or another version."""
    try:
        record: Record = {**parse_json(line)}
        if not isinstance(record["event"], str):
            raise TypeError("an event is a string")
    except INVALID_DATA_ERRORS:
        raise InputError(f"{place} is not a record; {NAME_A_TRACE}") from None
    version = record.get("version")
    if record["event"] == "start" and version != VERSION:
        fact = f"has version {format_value(version)} of the records; this graphexec reads {VERSION}"
        raise InputError(f"{place} {fact}; record the run again, or install the version that wrote it")
    return record


def validate_record(record: Record, place: str) -> None:
    """Raise `InputError`, with the `place`, if a record has a missing or invalid field."""
    event = record["event"]
    missing = next((name for name in REQUIRED.get(event, ()) if name not in record), None)
    fact = None if missing is None else f"{missing}: Field required"
    try:
        _adapter(_KINDS.get(event, _Other)).validate_python(record, strict=True)
    except ValidationError as error:
        what = error.errors()[0]
        fact = fact or f"{'.'.join(map(str, what['loc']))}: {what['msg']}"
    if fact is not None:
        raise InputError(f"{place} is not a valid record: {event}.{fact}; {NAME_A_TRACE}")


_KINDS: Mapping[str, type] = {"start": _Start, "failed": _Failed}


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
