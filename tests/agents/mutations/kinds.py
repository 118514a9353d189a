"""Every reader, with the replies that it reads and the changes to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from graphexec.agents import Decision, react, structured, tool_calling
from graphexec.agents.langchain import chat, conversational, json_chat, mrkl, self_ask, structured_chat, xml
from graphexec.messages import ModelReply
from tests.agents.mutations.common import (
    NAMES,
    TOOLS,
    Change,
    Meaning,
    begin_reply,
    end_reply,
    explain,
    invent,
    surround,
    think,
)
from tests.agents.mutations.in_json import (
    add_decision,
    answer_beside,
    as_json,
    break_lines,
    conclude_action,
    conclude_too,
    contradict,
    cut,
    decide_in_member,
    fence,
    label_decision,
    list_it,
    quote_otherwise,
    quote_within,
    rename_members,
    speak,
    trail_commas,
    widen_punctuation,
)
from tests.agents.mutations.labelled import (
    act_in_another_way,
    act_on_one_line,
    act_or_answer_twice,
    act_twice,
    act_twice_or_drop_label,
    act_twice_with_inputs,
    decorate_tool,
    drop_label,
    fence_input,
    fence_reply,
    labelled,
    quote_input,
    spell_labels_otherwise,
    spoken,
    widen,
    write_labels_otherwise,
)
from tests.agents.mutations.tagged import (
    add_other_text,
    ask_and_answer,
    asked,
    call_in_other_form,
    call_otherwise,
    called,
    cut_call,
    cut_tags,
    drop_question,
    drop_tag,
    explain_call,
    leave_open,
    mark,
    name_other_tool,
    space_tags,
    spell_follow_up,
    tag_more,
    tagged,
    write_questions_otherwise,
    write_tags_otherwise,
)


@dataclass(frozen=True)
class Kind:
    """A reader, the replies that it reads, and the changes that keep or blur what they mean."""

    read: Callable[[ModelReply], Decision]
    replies: Callable[[Random], tuple[Meaning, str]]
    keepers: Sequence[Change]
    # The changes of the whole reply, which come last.
    wrappers: Sequence[Change]
    breakers: Sequence[Change]


LABEL_KEEPERS = [fence_input, decorate_tool, write_labels_otherwise, spell_labels_otherwise, widen]
JSON_KEEPERS = [trail_commas, break_lines, quote_otherwise, widen_punctuation, list_it, rename_members]
WRAPPERS = [surround, think]
JSON_BREAKERS = [add_decision, cut, contradict, quote_within]

KINDS = {
    "react": Kind(
        lambda reply: react.read(reply, NAMES),
        labelled,
        [LABEL_KEEPERS[0], quote_input, *LABEL_KEEPERS[1:]],
        [explain, invent, fence_reply, end_reply, begin_reply, *WRAPPERS],
        [act_twice, act_or_answer_twice, act_in_another_way, act_on_one_line, drop_label],
    ),
    "mrkl": Kind(
        lambda reply: mrkl.read(reply, NAMES),
        labelled,
        LABEL_KEEPERS,
        [explain, invent, *WRAPPERS],
        [act_twice_or_drop_label],
    ),
    "conversational": Kind(
        lambda reply: conversational.read(reply, names=NAMES),
        spoken,
        LABEL_KEEPERS,
        [explain, invent, *WRAPPERS],
        [act_twice_with_inputs, drop_label],
    ),
    "structured": Kind(
        lambda reply: structured.read(reply, TOOLS),
        as_json("final_answer", "answer"),
        JSON_KEEPERS,
        [fence, speak, explain, end_reply, begin_reply, *WRAPPERS],
        [*JSON_BREAKERS, answer_beside, conclude_action, decide_in_member, label_decision],
    ),
    "chat": Kind(
        lambda reply: chat.read(reply, NAMES),
        as_json("Final Answer", "action_input"),
        JSON_KEEPERS,
        [fence, speak, explain, invent, *WRAPPERS],
        [*JSON_BREAKERS, conclude_too],
    ),
    "structured_chat": Kind(
        lambda reply: structured_chat.read(reply, NAMES),
        as_json("Final Answer", "action_input"),
        JSON_KEEPERS,
        [fence, speak, explain, invent, *WRAPPERS],
        JSON_BREAKERS,
    ),
    "json_chat": Kind(
        lambda reply: json_chat.read(reply, NAMES),
        as_json("Final Answer", "action_input"),
        JSON_KEEPERS,
        [fence, speak, explain, invent, *WRAPPERS],
        JSON_BREAKERS,
    ),
    "xml": Kind(
        lambda reply: xml.read(reply, NAMES),
        tagged,
        [leave_open, write_tags_otherwise, space_tags],
        [explain, *WRAPPERS],
        [tag_more, drop_tag],
    ),
    "self_ask": Kind(
        self_ask.read,
        asked,
        [write_questions_otherwise, spell_follow_up],
        [explain, *WRAPPERS],
        [ask_and_answer, drop_question],
    ),
    "tool_calling": Kind(
        lambda reply: tool_calling.read(reply, TOOLS),
        called,
        [explain_call, trail_commas, break_lines, quote_otherwise],
        [mark, end_reply, begin_reply, *WRAPPERS],
        [add_other_text, call_in_other_form, call_otherwise, cut_call, cut_tags, name_other_tool],
    ),
}
