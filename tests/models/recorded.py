"""Responses that are shapes of the corpus, whole and streamed, and the expected replies."""

import json
from typing import NamedTuple

from graphexec.messages import ModelReply, Reasoning, ToolCall, Usage
from tests.models.wire_corpus import FILES, to_stream


class Recording(NamedTuple):
    """A response of a server, whole and streamed, and the expected reply."""

    body: bytes
    stream: bytes
    reply: ModelReply


def _read(name: str, reply: ModelReply) -> Recording:
    file = json.loads((FILES / f"{name}.json").read_text(encoding="utf-8"))
    return Recording(json.dumps(file["whole"], ensure_ascii=False).encode(), to_stream(file["stream"]), reply)


_SUM = '{"a": 17, "b": 25}'
# The address of the scripted servers names the provider of the reasoning.
_THINKING = Reasoning("Hm.", '{"type": "thinking", "thinking": "Hm.", "signature": "EqQB"}', "127.0.0.1:1")
_TOOL_CALLS = (ToolCall("MMvR", "add", _SUM), ToolCall("MMvS", "now", "{}"))

CHAT_TEXT = _read("llama_cpp_text", ModelReply("Café costs €4.", (), Usage(37, 12), "stop", "tiny"))
CHAT_CALLS = _read("llama_cpp_calls", ModelReply("", (ToolCall("yO5m", "add", _SUM),), Usage(320, 36), "tool_calls"))
CLAUDE_TEXT = _read(
    "claude_thinking", ModelReply("Café costs €4.", (), Usage(37, 12, 20), "stop", "claude-9", reasoning=(_THINKING,))
)
CLAUDE_CALLS = _read("claude_calls", ModelReply("Let me add.", _TOOL_CALLS, Usage(320, 36, 1), "tool_calls", "tiny"))
GPT_TEXT = _read("responses_text", ModelReply("Café costs €4.", (), Usage(37, 12), "stop", "gpt-9"))
GPT_CALL = _read(
    "responses_call", ModelReply("", (ToolCall("call_rR", "add", _SUM),), Usage(37, 12), "tool_calls", "gpt-9")
)
CHAT, STREAM, CHAT_REPLY = CHAT_TEXT
CALLS, CALLS_STREAM, CALLS_REPLY = CHAT_CALLS

COMPLETION = (
    b'{"choices":[{"text":"-digit numbers","index":0,"logprobs":null,"finish_reason":"length"}],'
    b'"object":"text_completion","usage":{"completion_tokens":8,"prompt_tokens":3,"total_tokens":11}}'
)
COMPLETION_REPLY = ModelReply("-digit numbers", (), Usage(3, 8), "length")

OVERFLOW = (
    b'{"error":{"code":400,"message":"request (5031 tokens) exceeds the available context size (4096 tokens), '
    b'try increasing it","type":"exceed_context_size_error","n_prompt_tokens":5031,"n_ctx":4096}}'
)
