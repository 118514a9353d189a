"""Parse an action that is a JSON object in a text."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any, TypeGuard

from graphexec.actions import Decision, ToolInput
from graphexec.agents.prompt import format_observation
from graphexec.agents.reading.answers import make_json_reader
from graphexec.agents.reading.json_text import Region, has_action_name, is_answer, read_decision_fields
from graphexec.agents.reading.text_parsing import find_tool, make_unreadable_error
from graphexec.agents.reading.turns import ReplyText
from graphexec.errors import ParseError
from graphexec.messages import ModelReply


def read_decision(region: Region, read: ReplyText, reply: ModelReply, names: Collection[str]) -> Decision:
    """Parse the decision in a region: an action, or the action `Final Answer`, whose input is the answer.

    A missing input is an empty object. The `names` are those of the known tools. Raises `ParseError` for anything else.
    """
    fields = read_decision_fields(region, reply, lambda why: make_action_error(why, read.text))
    action = fields["action"]
    # Any: values of arbitrary JSON.
    given: Any = fields.get("actioninput")
    if is_answer(action):
        output = "" if given is None else format_observation(given)
        return read.finish(output)
    tool_input: ToolInput = {} if given is None else given if _is_input(given) else format_observation(given)
    return read.act(find_tool(action.strip(), names), tool_input)


def _is_input(given: Any) -> TypeGuard[ToolInput]:
    # The keys of a JSON object are strings.
    return isinstance(given, (dict, str))


# Extracts the answer while the reply streams.
make_answer_reader = partial(make_json_reader, ("actioninput",))


def is_action(region: Region) -> bool:
    """Return whether a region is an action, or looks like one, and not the answer."""
    try:
        fields = read_decision_fields(region, ModelReply(""), lambda why: make_action_error(why, region.text))
    except ParseError:
        return has_action_name(region)
    return not is_answer(fields["action"])


def make_action_error(why: str, text: str) -> ParseError:
    """Return the error for a reply without exactly one valid action; its observation repeats the format."""
    form = 'To act, write one JSON object, {"action": "<tool>", "action_input": <its input>}.'
    return make_unreadable_error(why, text, form, prose="{" not in text)
