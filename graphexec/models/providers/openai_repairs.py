"""Forms of a request that some servers demand, and the sentences in which they refuse the usual one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from graphexec.models.history import HistoryForm
from graphexec.models.http.json_bodies import to_json
from graphexec.models.http.json_values import JSON, to_objects
from graphexec.models.http.refusals import Repair
from graphexec.models.providers.schemas import close_schema

# The ids that Mistral's servers take.
MISTRAL_IDS = HistoryForm(9, "", exact=True)
# Between results and the user: the models of Mistral are trained on an answer there.
_ANSWER = "I have read the results."


def take_turns(messages: list[JSON]) -> list[JSON]:
    """Return messages in which user and assistant take turns, with an answer between results and the user."""
    turns: list[JSON] = []
    for message in messages:
        last = turns[-1] if turns else {}
        role = message["role"]
        if role == "user" and last.get("role") == "tool":
            turns.append({"role": "assistant", "content": _ANSWER})
        if role == last.get("role") and role in {"user", "assistant"} and "tool_calls" not in last:
            turns[-1] = {**last, **message, "content": _join(last.get("content"), message.get("content"))}
        else:
            turns.append(message)
    return turns


# Any: a content is a string, a list of parts, or nothing.
def _join(first: Any, second: Any) -> Any:
    if not (first and second):
        return first or second
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    before, after = ([{"type": "text", "text": one}] if isinstance(one, str) else one for one in (first, second))
    return before + after


def _changes(name: str, change: Callable[[list[JSON]], Iterable[JSON]]) -> Callable[[JSON], JSON]:
    """Return the change of a body that changes one of its lists."""
    return lambda body: {**body, name: [*change(body[name])]} if name in body else body


def _without_system(messages: list[JSON]) -> list[JSON]:
    """Write the instructions before the first message of the user."""
    if not messages or messages[0]["role"] != "system":
        return messages
    return take_turns([{**messages[0], "role": "user"}, *messages[1:]])


# The member with the schema of the answer, its member within that, and the one with the instructions, of each protocol.
_FORMATS = (
    ("response_format", "json_schema", "messages"),
    ("text", "format", "instructions"),
    ("output_config", "format", "system"),
)


def _without_format(body: JSON) -> JSON:
    """Ask for the schema in the instructions instead."""
    for name, inner, place in _FORMATS:
        form: JSON = body.get(name) or {}
        if inner not in form:
            continue
        asked = f"Answer with JSON alone, which follows this schema: {to_json(form[inner]['schema'])}"
        # What else the protocol has there, such as an effort, stays.
        rest = {member: one for member, one in form.items() if member not in {inner, "type"}}
        body = {member: one for member, one in body.items() if member != name} | ({name: rest} if rest else {})
        if place != "messages":
            return {**body, place: _join(body.get(place), asked)}
        messages: list[JSON] = body[place]
        has_system = bool(messages) and messages[0]["role"] == "system"
        content = _join(messages[0]["content"], asked) if has_system else asked
        return {**body, place: [{"role": "system", "content": content}, *messages[has_system:]]}
    return body


def _with_reasoning(message: JSON) -> JSON:
    """Write empty reasoning beside calls without any, as those of another model: DeepSeek and Kimi demand it."""
    if "tool_calls" in message:
        return {"reasoning_content": "", **message}
    types = {block.get("type") for block in to_objects(message.get("content"))}
    if "tool_use" in types and "thinking" not in types:
        return {**message, "content": [{"type": "thinking", "thinking": ""}, *message["content"]]}
    return message


def _with_short_ids(message: JSON) -> JSON:
    if "tool_call_id" in message:
        return {**message, "tool_call_id": MISTRAL_IDS.fit_id(message["tool_call_id"])}
    calls = [{**call, "id": MISTRAL_IDS.fit_id(call["id"])} for call in message.get("tool_calls", ())]
    return {**message, "tool_calls": calls} if calls else message


def _strict_format(body: JSON) -> JSON:
    """Write the schema of the answer by the rules of OpenAI's strict mode, in the body of either API."""
    for name, inner, _ in _FORMATS:
        form: JSON = body.get(name) or {}
        if inner in form:
            schema = close_schema(form[inner]["schema"], strict=True)
            return {**body, name: {**form, inner: {**form[inner], "schema": schema}}}
    return body


STRICT_SCHEMA = Repair(
    "optional properties in a schema",
    "a schema that requires all",
    re.compile(
        r"additionalProperties\b.{0,40}(?:required|must|set to|false)|\brequired\W{1,3} is required"
        r"|(?:including|contain) every key|(?:all|every) (?:fields?|keys?|propert\w+) must be required",
        re.IGNORECASE,
    ),
    _strict_format,
)
FORMAT = Repair(
    "response_format",
    "a schema in the instructions",
    re.compile(
        r"(?:response|output)[ _]?(?:config|format|schema|mime)|text\.format|json[ _]?(?:schema|mode|object)"
        r"|structured[ _]outputs?|guided[ _]|grammar"
        # Of a request without tools, it can be about nothing else.
        r"|\A(?!.*\b(?:tools?|functions?)\b).*\bschema\b",
        re.IGNORECASE | re.DOTALL,
    ),
    _without_format,
)
REASONING = Repair(
    "calls without reasoning",
    "calls with empty reasoning",
    re.compile(
        r"(?:reasoning_content|thinking)\b.{0,40}(?:missing|must be passed)|missing reasoning_content", re.IGNORECASE
    ),
    _changes("messages", partial(map, _with_reasoning)),
)
REPAIRS = (
    REASONING,
    # Before the one that sends no schema at all.
    STRICT_SCHEMA,
    FORMAT,
    Repair(
        "the ids of calls",
        "ids of nine letters and digits",
        re.compile(r"tool call ids?\b.{0,120}\blength (?:of )?9\b", re.IGNORECASE),
        _changes("messages", partial(map, _with_short_ids)),
    ),
    Repair(
        "a system message",
        "a message of the user",
        re.compile(r"system (?:role|message|prompt)s?\b.{0,20}(?:not|un)\W?supported|no system", re.IGNORECASE),
        _changes("messages", _without_system),
    ),
    Repair(
        "the order of messages",
        "an answer between results and the user",
        re.compile(
            r"roles? .{0,60}(?:alternat|after|order|turn|follow)|unexpected role|expected last role|after (?:a )?role"
            r"|must alternate|(?:consecutive|same) role|jinja",
            re.IGNORECASE,
        ),
        _changes("messages", take_turns),
    ),
)
