"""The readers of LangChain's formats, by the kinds of their agents."""

from collections.abc import Callable
from typing import TypeAlias

from graphexec.agents import Decision
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
