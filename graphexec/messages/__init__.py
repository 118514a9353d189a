"""Requests to a model and its replies, independent of any provider's format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphexec._mistakes import explain_names
from graphexec.messages.conversation import (
    AssistantMessage,
    Message,
    Reasoning,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    transcript,
    with_own_ids,
)
from graphexec.messages.images import Image
from graphexec.messages.model import (
    ChatRequest,
    CompletionRequest,
    FinishReason,
    Model,
    ModelReply,
    ModelRequest,
    ReplyDelta,
    ToolSpec,
    Usage,
    check_access,
    check_reply,
    images_of,
    request_parameters,
    require_reply,
    separate_reasoning,
)

__all__ = [
    "AssistantMessage",
    "ChatRequest",
    "CompletionRequest",
    "FinishReason",
    "Image",
    "Message",
    "Model",
    "ModelReply",
    "ModelRequest",
    "Reasoning",
    "ReplyDelta",
    "SystemMessage",
    "ToolCall",
    "ToolMessage",
    "ToolSpec",
    "Usage",
    "UserMessage",
    "check_access",
    "check_reply",
    "images_of",
    "request_parameters",
    "require_reply",
    "separate_reasoning",
    "transcript",
    "with_own_ids",
]

# Type checkers report a name that is not there.
if not TYPE_CHECKING:
    __getattr__ = explain_names(__name__)
