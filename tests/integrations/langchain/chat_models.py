"""A scripted chat model of LangChain's with a tool, and a handler that records its callbacks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool


class Scripted(BaseChatModel):
    """A chat model that gives these replies, or raises them; it keeps what it is given."""

    # Any: LangChain's classes take values of many types, here and below.
    replies: list[Any]
    given: list[Any] = []  # noqa: RUF012 - pydantic copies it
    options: list[Any] = []  # noqa: RUF012
    bound: list[Any] = []  # noqa: RUF012

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        self.bound.append(tools)
        return self.bind(**options)

    def _take(self, messages: Any, **options: Any) -> Any:
        self.given.append(messages)
        self.options.append(options)
        reply = self.replies[len(self.given) - 1]
        if isinstance(reply, Exception):
            raise reply
        return reply

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._take(messages, stop=stop, **options))])


class Streaming(Scripted):
    """A chat model whose replies are lists of chunks."""

    def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> Iterator[Any]:
        for chunk in self._take(messages, stop=stop, **options):
            yield ChatGenerationChunk(message=chunk)


def scripted(*replies: Any) -> Scripted:
    return Scripted(replies=[*replies])


def call(name: str, call_id: str = "c1", /, **arguments: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": call_id}])


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def adding() -> Scripted:
    """Return a model that adds 1 and 2, and answers."""
    return scripted(call("add", a=1, b=2), AIMessage("3"))


class Recording(BaseCallbackHandler):
    """A handler that keeps what has begun: its kind, its parent, and its tags and the keys of its metadata."""

    def __init__(self) -> None:
        self.begun: dict[Any, tuple[str, Any, set[str]]] = {}

    def _keep(self, kind: str, values: Any) -> None:
        self.begun[values["run_id"]] = kind, values["parent_run_id"], {*values["tags"], *values["metadata"]}

    def on_chat_model_start(self, *_: Any, **values: Any) -> None:
        self._keep("model", values)

    def on_tool_start(self, *_: Any, **values: Any) -> None:
        self._keep("tool", values)

    def on_chain_start(self, *_: Any, **values: Any) -> None:
        self._keep("chain", values)

    def tree(self, *marks: str) -> list[tuple[str, str]]:
        """Return the kinds of what has these tags and keys of metadata, and of their parents."""
        found = [(kind, parent) for kind, parent, known in self.begun.values() if {*marks} <= known]
        return [(kind, self.begun[parent][0] if parent in self.begun else "") for kind, parent in found]
