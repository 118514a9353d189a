"""Forms of a request that some servers demand, and the sentences in which they refuse the usual one."""

from __future__ import annotations

import re
from typing import Any

from graphexec.models.http.json_bodies import Encoded, to_json
from graphexec.models.http.json_values import JSON
from graphexec.models.http.refusals import Repair
from graphexec.models.providers.schemas import close_schema, plain_schema

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


def _items(body: JSON, name: str) -> list[JSON]:
    items: list[JSON] | Encoded | None = body.get(name)
    return items.decode() if isinstance(items, Encoded) else list(items or ())


def _reorder(body: JSON) -> bool:
    messages = _items(body, "messages")
    body["messages"] = take_turns(messages)
    return len(body["messages"]) != len(messages)


def _without_system(body: JSON) -> bool:
    """Write the instructions before the first message of the user."""
    messages = _items(body, "messages")
    if not messages or messages[0]["role"] != "system":
        return False
    body["messages"] = take_turns([{**messages[0], "role": "user"}, *messages[1:]])
    return True


def _without_format(body: JSON) -> bool:
    """Ask for the schema in the instructions instead."""
    form: JSON | None = body.pop("response_format", None)
    if form is None:
        return False
    asked = f"Answer with JSON alone, which follows this schema: {to_json(form['json_schema']['schema'])}"
    messages = _items(body, "messages")
    system = messages.pop(0)["content"] if messages and messages[0]["role"] == "system" else ""
    body["messages"] = [{"role": "system", "content": _join(system, asked)}, *messages]
    return True


def _with_reasoning(body: JSON) -> bool:
    """Write empty reasoning beside calls without any, as those of another model: DeepSeek and Kimi demand it."""
    messages = _items(body, "messages")
    body["messages"] = [{"reasoning_content": "", **one} if "tool_calls" in one else one for one in messages]
    return bool(body["messages"] != messages)


def _strict_format(body: JSON) -> bool:
    """Write the schema of the answer by the rules of OpenAI's strict mode, in the body of either API."""
    for name, inner in (("response_format", "json_schema"), ("text", "format")):
        form: JSON = body.get(name) or {}
        if inner in form:
            schema = close_schema(form[inner]["schema"], strict=True)
            body[name] = {**form, inner: {**form[inner], "schema": schema}}
            return bool(schema != form[inner]["schema"])
    return False


def _plain_tools(body: JSON) -> bool:
    tools = _items(body, "tools")
    if tools:
        body["tools"] = list(map(plain_schema, tools))
    return bool(tools) and body["tools"] != tools


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
REPAIRS = (
    Repair(
        "calls without reasoning",
        "calls with empty reasoning",
        re.compile(r"reasoning_content.{0,40}(?:missing|must be passed back)|missing reasoning_content", re.IGNORECASE),
        _with_reasoning,
    ),
    # Before the one that sends no schema at all.
    STRICT_SCHEMA,
    Repair(
        "response_format",
        "a schema in the instructions",
        re.compile(
            r"response[ _]?(?:format|schema|mime)|json[ _]?(?:schema|mode|object)|structured[ _]outputs?"
            r"|guided[ _]|grammar"
            # Of a request without tools, it can be about nothing else.
            r"|\A(?!.*\b(?:tools?|functions?)\b).*\bschema\b",
            re.IGNORECASE | re.DOTALL,
        ),
        _without_format,
    ),
    Repair(
        "the keywords of a schema",
        "a schema without them",
        re.compile(r"\$(?:ref|defs)|additionalProperties|\bschema\b|function_declarations|unknown name", re.IGNORECASE),
        _plain_tools,
    ),
    Repair(
        "a system message",
        "a message of the user",
        re.compile(r"system (?:role|message|prompt)s?\b.{0,20}(?:not|un)\W?supported|no system", re.IGNORECASE),
        _without_system,
    ),
    Repair(
        "the order of messages",
        "an answer between results and the user",
        re.compile(
            r"roles? .{0,60}(?:alternat|after|order|turn|follow)|unexpected role|expected last role|after (?:a )?role"
            r"|must alternate|(?:consecutive|same) role|jinja",
            re.IGNORECASE,
        ),
        _reorder,
    ),
)
