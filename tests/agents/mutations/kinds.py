"""Every reader, with the replies that it reads and the changes to them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from graphexec.agents import Decision, react, structured, tool_calling
from graphexec.integrations.langchain.formats import json_actions, labelled_text, self_ask, xml
from graphexec.messages import ModelReply
from tests.agents.mutations import common, in_json, labelled, tagged


@dataclass(frozen=True)
class Kind:
    """A reader, the replies that it reads, and the changes that keep or blur what they mean."""

    read: Callable[[ModelReply], Decision]
    replies: Callable[[Random], tuple[common.Meaning, str]]
    keepers: Sequence[common.Change]
    # The changes of the whole reply, which come last.
    wrappers: Sequence[common.Change]
    breakers: Sequence[common.Change]


LABEL_KEEPERS = [
    labelled.fence_input,
    labelled.decorate_tool,
    labelled.write_labels_otherwise,
    labelled.spell_labels_otherwise,
    labelled.widen,
]
JSON_KEEPERS = [
    in_json.trail_commas,
    in_json.break_lines,
    in_json.quote_otherwise,
    in_json.widen_punctuation,
    in_json.list_it,
    in_json.rename_members,
]
WRAPPERS = [common.surround, common.think]
JSON_BREAKERS = [in_json.add_decision, in_json.cut, in_json.contradict, in_json.quote_within]


def json_kind(read: Callable[..., Decision], *breakers: common.Change) -> Kind:
    """Return the kind of an agent of LangChain's whose replies are JSON."""
    return Kind(
        lambda reply: read(reply, common.NAMES),
        in_json.as_json("Final Answer", "action_input"),
        JSON_KEEPERS,
        [in_json.fence, in_json.speak, common.explain, common.invent, *WRAPPERS],
        [*JSON_BREAKERS, *breakers],
    )


KINDS = {
    "react": Kind(
        lambda reply: react.read(reply, common.NAMES),
        labelled.labelled,
        [LABEL_KEEPERS[0], labelled.quote_input, *LABEL_KEEPERS[1:]],
        [common.explain, common.invent, labelled.fence_reply, common.end_reply, common.begin_reply, *WRAPPERS],
        [
            labelled.act_twice,
            labelled.act_or_answer_twice,
            labelled.act_in_another_way,
            labelled.act_on_one_line,
            labelled.drop_label,
        ],
    ),
    "mrkl": Kind(
        lambda reply: labelled_text.read_mrkl(reply, common.NAMES),
        labelled.labelled,
        LABEL_KEEPERS,
        [common.explain, common.invent, *WRAPPERS],
        [labelled.act_twice_or_drop_label],
    ),
    "conversational": Kind(
        lambda reply: labelled_text.read_conversational(reply, names=common.NAMES),
        labelled.spoken,
        LABEL_KEEPERS,
        [common.explain, common.invent, *WRAPPERS],
        [labelled.act_twice_with_inputs, labelled.drop_label],
    ),
    "structured": Kind(
        lambda reply: structured.read(reply, common.TOOLS),
        in_json.as_json("final_answer", "answer"),
        JSON_KEEPERS,
        [in_json.fence, in_json.speak, common.explain, common.end_reply, common.begin_reply, *WRAPPERS],
        [
            *JSON_BREAKERS,
            in_json.answer_beside,
            in_json.conclude_action,
            in_json.decide_in_member,
            in_json.label_decision,
        ],
    ),
    "chat": json_kind(json_actions.read_chat, in_json.conclude_too),
    "structured_chat": json_kind(json_actions.read_structured_chat),
    "json_chat": json_kind(json_actions.read_json_chat),
    "xml": Kind(
        lambda reply: xml.read(reply, common.NAMES),
        tagged.tagged,
        [tagged.leave_open, tagged.write_tags_otherwise, tagged.space_tags],
        [common.explain, *WRAPPERS],
        [tagged.tag_more, tagged.drop_tag],
    ),
    "self_ask": Kind(
        self_ask.read,
        tagged.asked,
        [tagged.write_questions_otherwise, tagged.spell_follow_up],
        [common.explain, *WRAPPERS],
        [tagged.ask_and_answer, tagged.drop_question],
    ),
    "tool_calling": Kind(
        lambda reply: tool_calling.read(reply, common.TOOLS),
        tagged.called,
        [tagged.explain_call, in_json.trail_commas, in_json.break_lines, in_json.quote_otherwise],
        [tagged.mark, common.end_reply, common.begin_reply, *WRAPPERS],
        [
            tagged.add_other_text,
            tagged.call_in_other_form,
            tagged.call_otherwise,
            tagged.cut_call,
            tagged.cut_tags,
            tagged.name_other_tool,
        ],
    ),
}
