"""Decisions, errors and messages of LangChain's classes in those of this package.

Only `restore_messages` imports LangChain: its classes are recognized by their attributes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, TypeGuard

from graphexec.actions import AgentAction, AgentFinish
from graphexec.errors import AgentError, InputError, ParseError, format_value
from graphexec.integrations.langchain.originals import dump_original
from graphexec.messages import AssistantMessage, ChatRequest, Message, SystemMessage, ToolCall, ToolMessage, UserMessage
from graphexec.messages.stored import Original


# Any: messages of LangChain's classes, here and below.
def convert_messages(messages: Iterable[Any]) -> tuple[Message, ...]:
    """Return messages of LangChain in our classes, as the input `chat_history` takes them; ours stay as they are.

    Raises `InputError` for another object, and for a content with more than text, such as an image.
    """
    return tuple(map(_convert_message, messages))


def _convert_message(message: Any) -> Message:
    if isinstance(message, SystemMessage | UserMessage | AssistantMessage | ToolMessage):
        return message
    match getattr(message, "type", None):
        case "ai" | "AIMessageChunk":
            return convert_reply(message)
        case "system":
            return SystemMessage(_require_text(message))
        case "human":
            return UserMessage(_require_text(message))
        case "tool":
            return ToolMessage(message.tool_call_id, _require_text(message))
        case _:
            remedy = "give system, human, AI and tool messages"
            raise InputError(f"{format_value(message)} is not such a message of LangChain; {remedy}")


def restore_messages(inputs: dict[str, Any]) -> dict[str, Any]:
    """Return inputs with messages of ours in LangChain's classes, of which its prompts require a list."""
    found = {key: _to_dicts(value) for key, value in inputs.items() if _are_ours(value)}
    if not found:
        return inputs
    # Any: the package is optional.
    library: Any = import_module("langchain_core.messages")
    return inputs | {key: library.convert_to_messages(value) for key, value in found.items()}


def _are_ours(value: Any) -> TypeGuard[Sequence[Message]]:
    given: Any = value
    ours = SystemMessage | UserMessage | AssistantMessage | ToolMessage
    return isinstance(value, (list, tuple)) and all(isinstance(one, ours) for one in given)


def _to_dicts(messages: Sequence[Message]) -> list[Any]:
    # Imported here, since few programs need them.
    from graphexec.models.http.dialect import Sampling
    from graphexec.models.http.json_bodies import write
    from graphexec.models.providers.openai_compatible import CHAT_COMPLETIONS

    request = ChatRequest(tuple(messages))
    return (
        json.loads(write(CHAT_COMPLETIONS.encode(request, Sampling(""), stream=False)))["messages"] if messages else []
    )


def convert_reply(message: Any) -> AssistantMessage:
    """Return a model's message: its text and its tool calls."""
    calls: Iterable[Mapping[str, Any]] = getattr(message, "tool_calls", None) or ()
    written = (ToolCall(one.get("id") or "", one["name"], json.dumps(one["args"], default=str)) for one in calls)
    return AssistantMessage(text_of(message.content), tuple(written))


def _require_text(message: Any) -> str:
    content: Any = message.content
    given: Any = () if isinstance(content, str) else content
    others = [block.get("type") for block in given if not isinstance(block, str) and block.get("type") != "text"]
    if others:
        raise InputError(
            f"a {message.type} message has a block of type {others[0]}; pass text, and images in the input images"
        )
    return text_of(content)


def convert_error(error: ValueError) -> ParseError | None:
    """Return the error of LangChain's output parsers as a `ParseError`; `None` for any other error."""
    # Any: the class of the error is not known here.
    other: Any = error
    if isinstance(error, ParseError) or not hasattr(other, "llm_output"):
        return None
    return ParseError(str(error), observation=getattr(other, "observation", None), llm_output=other.llm_output or "")


def convert_decision(name: str, decision: Any) -> Any:
    """Return a decision of another library in our classes. Raises `AgentError` for a value that is no decision."""
    if isinstance(decision, (list, tuple)):
        several: list[Any] = list(decision)  # pyright: ignore[reportUnknownArgumentType]
        return [convert_decision(name, one) for one in several]
    if isinstance(decision, (AgentAction, AgentFinish)):
        return decision
    if hasattr(decision, "return_values"):
        return AgentFinish(decision.return_values, decision.log)
    if hasattr(decision, "tool_input"):
        return _convert_action(decision)
    raise AgentError(f"the agent {name} returned {format_value(decision)}; {_remedy(decision)}")


def _remedy(decision: Any) -> str:
    """Return what to write instead of a runnable that returned something else than a decision."""
    if hasattr(decision, "tool_calls"):
        return "end it with an output parser: prompt | model | ToolsAgentOutputParser()"
    if isinstance(decision, str) or hasattr(decision, "content"):
        return "end it with an output parser: prompt | model | ReActSingleInputOutputParser()"
    if isinstance(decision, Mapping) and ("messages" in decision or "output" in decision):
        return (
            "it runs a loop of its own, so it is no agent for an executor: call it yourself, or in a tool; or pass the "
            "agent that it runs"
        )
    return "return an AgentAction, a list of them, or an AgentFinish"


# Any: an action of LangChain's classes.
def _convert_action(action: Any) -> AgentAction:
    """Return an action in our class, with the original. A native tool call has its id and the model's message."""
    log: Iterable[Any] = getattr(action, "message_log", None) or ()
    message = next((one for one in reversed(list(log)) if hasattr(one, "content")), None)
    call_id: Any = getattr(action, "tool_call_id", None)
    return AgentAction(
        action.tool,
        action.tool_input,
        action.log,
        call_id if isinstance(call_id, str) else None,
        None if message is None else convert_reply(message),
        original=Original(action, dump_original),
    )


def text_of(content: Any) -> str:
    """Return the text of a message's content in LangChain's form: a string, or a list of strings and blocks."""
    if not isinstance(content, (list, tuple)):
        return content if isinstance(content, str) else ""
    blocks: list[Any] = list(content)  # pyright: ignore[reportUnknownArgumentType]
    return "".join(block if isinstance(block, str) else _text_of_block(block) for block in blocks)


def _text_of_block(block: Any) -> str:
    # Other blocks hold reasoning, images and tool calls.
    text: Any = block.get("text") if isinstance(block, Mapping) and block.get("type") == "text" else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return text if isinstance(text, str) else ""
