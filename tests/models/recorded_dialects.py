"""Examples of Anthropic's and OpenAI's references, recorded responses of llama.cpp, and the expected replies."""

import json
from typing import NamedTuple

from graphexec.messages import ModelReply, Reasoning, ToolCall, Usage
from tests.models.recorded import CALLS, CALLS_REPLY, CALLS_STREAM, CHAT, CHAT_REPLY, STREAM


def _write_events(*events: bytes) -> bytes:
    """Return a stream of these events, each under its type."""
    return b"".join(b"event: %s\ndata: %s\n\n" % (json.loads(one)["type"].encode(), one) for one in events)


MESSAGE = (
    b'{"id":"msg_01","type":"message","role":"assistant","model":"claude-9","content":['
    b'{"type":"thinking","thinking":"Hm.","signature":"EqQB"},{"type":"text","text":"Caf\xc3\xa9"},'
    b'{"type":"text","text":" costs \\u20ac4."}],"stop_reason":"end_turn","stop_sequence":null,'
    b'"usage":{"input_tokens":7,"cache_creation_input_tokens":10,"cache_read_input_tokens":20,"output_tokens":12,'
    b'"service_tier":"standard"}}'
)
# The address of the scripted servers names the provider of the reasoning.
_THINKING = Reasoning("Hm.", '{"type": "thinking", "thinking": "Hm.", "signature": "EqQB"}', "127.0.0.1:1")
MESSAGE_REPLY = ModelReply("Café costs €4.", (), Usage(37, 12, 20), "stop", "claude-9", reasoning=(_THINKING,))

MESSAGE_STREAM = _write_events(
    b'{"type":"message_start","message":{"id":"msg_01","type":"message","role":"assistant","content":[],'
    b'"model":"claude-9","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":7,'
    b'"cache_creation_input_tokens":10,"cache_read_input_tokens":20,"output_tokens":1}}}',
    b'{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}',
    b'{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm."}}',
    b'{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQB"}}',
    b'{"type":"content_block_stop","index":0}',
    b'{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}',
    b'{"type": "ping"}',
    b'{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Caf\xc3\xa9"}}',
    b'{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":" costs \xe2\x82\xac4."}}',
    b'{"type":"content_block_stop","index":1}',
    b'{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":12}}',
    b'{"type":"message_stop"}',
)

TOOL_USE = (
    b'{"id":"chatcmpl-Z","type":"message","role":"assistant","content":[{"type":"text","text":"Let me add."},'
    b'{"type":"tool_use","id":"MMvR","name":"add","input":{"a":17,"b":25}},'
    b'{"type":"tool_use","id":"MMvS","name":"now","input":{}}],"model":"tiny","stop_reason":"tool_use",'
    b'"stop_sequence":null,"usage":{"cache_read_input_tokens":1,"input_tokens":319,"output_tokens":36}}'
)
_TOOL_CALLS = (ToolCall("MMvR", "add", '{"a": 17, "b": 25}'), ToolCall("MMvS", "now", "{}"))
TOOL_USE_REPLY = ModelReply("Let me add.", _TOOL_CALLS, Usage(320, 36, 1), "tool_calls", "tiny")

TOOL_USE_STREAM = _write_events(
    b'{"type":"message_start","message":{"id":"chatcmpl-6","type":"message","role":"assistant","content":[],'
    b'"model":"tiny","stop_reason":null,"stop_sequence":null,"usage":{"cache_read_input_tokens":1,'
    b'"input_tokens":319,"output_tokens":0}}}',
    b'{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}',
    b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Let me add."}}',
    b'{"type":"content_block_stop","index":0}',
    b'{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"MMvR","name":"add","input":{}}}',
    b'{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":""}}',
    b'{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\\"a\\": 17,"}}',
    b'{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":" \\"b\\": 25}"}}',
    b'{"type":"content_block_stop","index":1}',
    b'{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"MMvS","name":"now","input":{}}}',
    b'{"type":"content_block_stop","index":2}',
    b'{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":36}}',
    b'{"type":"message_stop"}',
)

_USED = (
    b'"usage":{"input_tokens":37,"output_tokens":12,"total_tokens":49,'
    b'"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens_details":{"reasoning_tokens":0}}'
)
_ASKED = b'"parallel_tool_calls":true,"tool_choice":"auto","tools":[],"created_at":1795299454,"object":"response"'
_MESSAGE = (
    b'{"id":"msg_1","type":"message","role":"assistant","status":"completed","content":['
    b'{"type":"output_text","annotations":[],"logprobs":[],"text":"Caf\xc3\xa9 costs \\u20ac4."}]}'
)
_CALLED = (
    b'{"id":"fc_rR","type":"function_call","status":"completed","arguments":"{\\"a\\": 17, \\"b\\": 25}",'
    b'"call_id":"call_rR","name":"add"}'
)

RESPONSE = (
    b'{"id":"resp_8","model":"gpt-9","error":null,"incomplete_details":null,"output":['
    b'{"id":"rs_1","type":"reasoning","summary":[]},' + _MESSAGE + b'],"status":"completed",' + _ASKED + b"," + _USED
) + b"}"
RESPONSE_REPLY = ModelReply("Café costs €4.", (), Usage(37, 12), "stop", "gpt-9")

RESPONSE_CALL = (
    b'{"id":"resp_8","model":"gpt-9","output":[' + _CALLED + b'],"status":"completed",' + _ASKED + b"," + _USED + b"}"
)
_CALL = ToolCall("call_rR", "add", '{"a": 17, "b": 25}')
RESPONSE_CALL_REPLY = ModelReply("", (_CALL,), Usage(37, 12), "tool_calls", "gpt-9")

_CREATED = (
    b'{"type":"response.created","sequence_number":0,"response":{"id":"resp_8",'
    b'"model":"gpt-9","status":"in_progress","output":[],' + _ASKED + b"}}"
)
RESPONSE_STREAM = _write_events(
    _CREATED,
    b'{"type":"response.output_item.added","output_index":0,'
    b'"sequence_number":1,"item":{"content":[],"id":"msg_1","role":"assistant","status":"in_progress",'
    b'"type":"message"}}',
    b'{"type":"response.content_part.added","item_id":"msg_1",'
    b'"output_index":0,"content_index":0,"sequence_number":2,"part":{"type":"output_text","text":"",'
    b'"annotations":[]}}',
    b'{"type":"response.output_text.delta","item_id":"msg_1",'
    b'"output_index":0,"content_index":0,"sequence_number":3,"logprobs":[],"delta":"Caf\xc3\xa9"}',
    b'{"type":"response.output_text.delta","item_id":"msg_1",'
    b'"output_index":0,"content_index":0,"sequence_number":4,"logprobs":[],"delta":" costs \xe2\x82\xac4."}',
    b'{"type":"response.output_text.done","item_id":"msg_1",'
    b'"output_index":0,"content_index":0,"sequence_number":5,"logprobs":[],"text":"Caf\xc3\xa9 costs \\u20ac4."}',
    b'{"type":"response.output_item.done","output_index":0,"sequence_number":6,"item":' + _MESSAGE + b"}",
    b'{"type":"response.completed","sequence_number":7,"response":{"id":"resp_8",'
    b'"model":"gpt-9","output":[' + _MESSAGE + b'],"status":"completed",' + _ASKED + b"," + _USED + b"}}",
)
RESPONSE_CALL_STREAM = _write_events(
    _CREATED,
    b'{"type":"response.output_item.added","output_index":0,'
    b'"sequence_number":1,"item":{"id":"fc_rR","arguments":"","call_id":"call_rR","name":"add",'
    b'"type":"function_call","status":"in_progress"}}',
    b'{"type":"response.function_call_arguments.delta",'
    b'"delta":"{\\"a\\": 17,","item_id":"fc_rR","output_index":0,"sequence_number":2}',
    b'{"type":"response.function_call_arguments.delta",'
    b'"delta":" \\"b\\": 25}","item_id":"fc_rR","output_index":0,"sequence_number":3}',
    b'{"type":"response.function_call_arguments.done",'
    b'"arguments":"{\\"a\\": 17, \\"b\\": 25}","item_id":"fc_rR","name":"add","output_index":0,'
    b'"sequence_number":4}',
    b'{"type":"response.output_item.done","output_index":0,"sequence_number":5,"item":' + _CALLED + b"}",
    b'{"type":"response.completed","sequence_number":6,"response":{"id":"resp_8",'
    b'"model":"gpt-9","output":[' + _CALLED + b'],"status":"completed",' + _ASKED + b"," + _USED + b"}}",
)


class Recording(NamedTuple):
    """A response of a server, whole and streamed, and the expected reply."""

    body: bytes
    stream: bytes
    reply: ModelReply


CLAUDE_TEXT = Recording(MESSAGE, MESSAGE_STREAM, MESSAGE_REPLY)
CLAUDE_CALLS = Recording(TOOL_USE, TOOL_USE_STREAM, TOOL_USE_REPLY)
GPT_TEXT = Recording(RESPONSE, RESPONSE_STREAM, RESPONSE_REPLY)
GPT_CALL = Recording(RESPONSE_CALL, RESPONSE_CALL_STREAM, RESPONSE_CALL_REPLY)

CHAT_TEXT = Recording(CHAT, STREAM, CHAT_REPLY)
CHAT_CALLS = Recording(CALLS, CALLS_STREAM, CALLS_REPLY)
