"""Members of other types beside the answer: none of them costs it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from graphexec.errors import InvalidReplyError
from graphexec.messages import ModelReply
from graphexec.models.http.json_values import to_object
from tests.models.call_modes import call_blocking, stream_blocking
from tests.models.wire_corpus import EVENTS, JSON, Shape, ask, serve, to_stream
from tests.parameters import cases

ODD: tuple[Any, ...] = (None, "x", "", 1.5, -1, 10**400, True, [], [7], [{}], [None], {}, {"a": 1}, [{"text": 5}])

# Members that stand beside an answer, by the place where they stand.
BESIDE: dict[str, JSON] = json.loads(Path(__file__).with_name("odd_members.json").read_text(encoding="utf-8"))


def chat(body: JSON, choice: JSON, said: JSON, *, member: str) -> JSON:
    return {"choices": [{**choice, "finish_reason": "stop", member: {**said, "content": "Hi."}}], **body}


def anthropic_whole(body: JSON, thinking: JSON) -> JSON:
    blocks = [{"type": "thinking", **thinking}, {"type": "text", "text": "Hi."}]
    return {"stop_reason": "end_turn", "content": blocks, **body}


def responses_whole(body: JSON, reasoning: JSON, message: JSON, part: JSON) -> JSON:
    content = [{"type": "output_text", "text": "Hi.", **part}]
    output = [{"type": "reasoning", **reasoning}, {"type": "message", "content": content, **message}]
    return {"status": "completed", "output": output, **body}


def responses_streamed(*groups: JSON) -> JSON:
    return {"type": "response.completed", "response": responses_whole(*groups)}


def odd_versions(groups: tuple[JSON, ...]) -> Iterator[tuple[str, tuple[JSON, ...]]]:
    """Yield the groups of members with one of them, at any depth, of each other type."""
    for number, group in enumerate(groups):
        for name, value in group.items():
            paths: list[tuple[str, ...]] = [(name,), *((name, inner) for inner in to_object(value))]
            for path in paths:
                for odd in ODD:
                    changed = copy.deepcopy(groups)
                    place: Any = changed[number]
                    for outer in path[:-1]:
                        place = place[outer]
                    place[path[-1]] = odd
                    yield f"{'.'.join(path)} = {str(odd)[:9]}", changed


def read(api: str, body: JSON, *, streamed: bool) -> Any:
    content = to_stream([f"data: {json.dumps(body)}", "data: [DONE]"]) if streamed else json.dumps(body).encode()
    shape = Shape(api, {}, api)
    model = serve(shape, content, EVENTS if streamed else "application/json").model()
    return ask(model, shape.request, stream_blocking if streamed else call_blocking)


@pytest.mark.medium
@cases(
    ("api", "make", "places", "streamed"),
    ("chat", partial(chat, member="message"), "chat choice message", False),
    ("chat", partial(chat, member="delta"), "chat choice message", True),
    ("anthropic", anthropic_whole, "claude thinking", False),
    ("responses", responses_whole, "response reasoning said part", False),
    ("responses", responses_streamed, "response reasoning said part", True),
)
def test_odd_member_beside_the_answer_costs_nothing(api: str, make: Any, places: str, streamed: bool) -> None:
    lost: list[str] = []
    for description, changed in odd_versions(tuple([BESIDE[place] for place in places.split()])):
        outcome = read(api, make(*changed), streamed=streamed)
        is_read = isinstance(outcome, ModelReply) and (outcome.content, outcome.finish_reason) == ("Hi.", "stop")
        if not is_read or outcome.tool_calls:
            lost.append(f"{description}: {outcome}")
    assert not lost


@cases("odd", "x", 1.5, True, [7], [{}], {"a": 1})
@cases("finish", "tool_calls", None)
def test_odd_calls_are_an_error_where_a_call_may_be_lost(odd: Any, finish: str | None) -> None:
    call = {"id": "a", "function": {"name": "add", "arguments": "{}"}}
    for text, calls, reason in (("Hi.", odd, finish), ("", odd, "stop"), ("Hi.", [call, 7], "stop")):
        message = {"content": text, "tool_calls": calls}
        body = {"choices": [{"message": message, "finish_reason": reason}]}
        assert isinstance(read("chat", body, streamed=False), InvalidReplyError)
