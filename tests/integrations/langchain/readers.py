"""The readers of LangChain's formats, by the kinds of their agents."""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from graphexec.agents import Decision
from graphexec.agents.reading.answers import AnswerReader, make_json_reader, make_label_reader
from graphexec.agents.reading.labels import FINAL_ANSWER
from graphexec.integrations.langchain.formats import json_actions, labelled_text, self_ask, xml

Read: TypeAlias = Callable[..., Decision]

READERS: dict[str, Read] = {
    "mrkl": labelled_text.read_mrkl,
    "conversational": labelled_text.read_conversational,
    "chat": json_actions.read_chat,
    "structured_chat": json_actions.read_structured_chat,
    "json_chat": json_actions.read_json_chat,
    "xml": xml.read,
    "self_ask": self_ask.read,
}

# The readers of an answer while it streams, as their agents have them.
STREAMED: dict[str, Callable[[], AnswerReader]] = {
    "mrkl": partial(make_label_reader, FINAL_ANSWER),
    "structured_chat": partial(make_json_reader, ("actioninput",)),
    "xml": xml.make_answer_reader,
    "self_ask": self_ask.make_answer_reader,
}
