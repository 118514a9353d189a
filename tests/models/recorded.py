"""Recorded responses of llama.cpp's server (with shortened ids), and the expected replies."""

from graphexec.messages import ModelReply, ToolCall, Usage

CHAT = (
    b'{"choices":[{"finish_reason":"stop","index":0,"message":{"role":"assistant","content":'
    b'"Caf\xc3\xa9 costs \\u20ac4."}}],'
    b'"created":1795198287,"model":"tiny","system_fingerprint":"b0-unknown","object":"chat.completion",'
    b'"usage":{"completion_tokens":12,"prompt_tokens":37,"total_tokens":49,"prompt_tokens_details":{"cached_tokens":0}},'
    b'"id":"chatcmpl-j9X","timings":{"cache_n":0,"prompt_n":37,"prompt_ms":156.772}}'
)
CHAT_REPLY = ModelReply("Café costs €4.", (), Usage(37, 12), "stop", "tiny")

CALLS = (
    b'{"choices":[{"finish_reason":"tool_calls","index":0,"message":{"role":"assistant","content":null,"tool_calls":['
    b'{"type":"function","function":{"name":"add","arguments":"{\\"a\\": 17, \\"b\\": 25}"},"id":"yO5m"}]}}],'
    b'"object":"chat.completion","usage":{"completion_tokens":36,"prompt_tokens":320,"total_tokens":356}}'
)
CALLS_REPLY = ModelReply("", (ToolCall("yO5m", "add", '{"a": 17, "b": 25}'),), Usage(320, 36), "tool_calls")

COMPLETION = (
    b'{"choices":[{"text":"-digit numbers","index":0,"logprobs":null,"finish_reason":"length"}],'
    b'"object":"text_completion","usage":{"completion_tokens":8,"prompt_tokens":3,"total_tokens":11}}'
)
COMPLETION_REPLY = ModelReply("-digit numbers", (), Usage(3, 8), "length")

STREAM = (
    b'data: {"model":"tiny","choices":[{"finish_reason":null,"index":0,"delta":'
    b'{"role":"assistant","content":null}}]}\n\n'
    b'data: {"choices":[{"finish_reason":null,"index":0,"delta":{"content":"Caf\xc3\xa9"}}]}\n\n'
    b'data: {"choices":[{"finish_reason":null,"index":0,"delta":{"content":" costs \xe2\x82\xac4."}}]}\n\n'
    b'data: {"choices":[{"finish_reason":"stop","index":0,"delta":{}}]}\n\n'
    b'data: {"choices":[],"usage":{"completion_tokens":12,"prompt_tokens":37,"total_tokens":49}}\n\n'
    b"data: [DONE]\n\n"
)

CALLS_STREAM = (
    b'data: {"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}]}\n\n'
    b'data: {"choices":[{"finish_reason":null,"index":0,"delta":{"tool_calls":[{"index":0,"id":"yO5m",'
    b'"type":"function","function":{"name":"add","arguments":"{"}}]}}]}\n\n'
    b'data: {"choices":[{"finish_reason":null,"index":0,"delta":{"tool_calls":[{"index":0,'
    b'"function":{"arguments":"\\"a\\": 17,"}}]}}]}\n\n'
    b'data: {"choices":[{"finish_reason":null,"index":0,"delta":{"tool_calls":[{"index":0,'
    b'"function":{"arguments":" \\"b\\": 25}"}}]}}]}\n\n'
    b'data: {"choices":[{"finish_reason":"tool_calls","index":0,"delta":{}}]}\n\n'
    b'data: {"choices":[],"usage":{"completion_tokens":36,"prompt_tokens":320,"total_tokens":356}}\n\n'
    b"data: [DONE]\n\n"
)

OVERFLOW = (
    b'{"error":{"code":400,"message":"request (5031 tokens) exceeds the available context size (4096 tokens), '
    b'try increasing it","type":"exceed_context_size_error","n_prompt_tokens":5031,"n_ctx":4096}}'
)
