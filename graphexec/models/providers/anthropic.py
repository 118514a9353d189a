"""A model behind Anthropic's Messages API or a compatible server, such as llama.cpp's."""

from __future__ import annotations

from graphexec._mistakes import explain_class
from graphexec._mistakes.remedies import MODEL_OPTIONS
from graphexec.models.http.dialect import REQUEST_WRITES_IT, Dialect
from graphexec.models.http.endpoint import Provider
from graphexec.models.http.json_bodies import stop_strings
from graphexec.models.http.refusals import TOOL_CHOICE, Parameter
from graphexec.models.http.remote import RemoteModel
from graphexec.models.providers.anthropic_reply import AnthropicStream, decode
from graphexec.models.providers.anthropic_request import encode, headers, route

ANTHROPIC = Provider(
    "https://api.anthropic.com",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_API_KEY",
    kind="that of a server for Anthropic's Messages API",
    hint="which ends before /v1/messages",
    example="http://127.0.0.1:8080",
)


MESSAGES = Dialect(
    ANTHROPIC,
    route,
    headers,
    encode,
    lambda body, request, endpoint: decode(body, endpoint, stops=stop_strings(request)),
    lambda request, endpoint: AnthropicStream(endpoint, stop_strings(request)),
    parameters=(
        Parameter("stop_sequences", aliases=("stop",)),
        Parameter("temperature"),
        Parameter("top_p"),
        Parameter("output_config.effort"),
        TOOL_CHOICE,
    ),
    reserved={
        **dict.fromkeys(("messages", "stop_sequences", "stream", "output_config.format"), REQUEST_WRITES_IT),
        "tool_choice": "pass tool_choice to create_tool_calling_agent, or in a ChatRequest",
        "output_config.effort": "pass reasoning_effort",
    },
    absent={"seed": "leave it out, or pass extra_body={'seed': ...} if your server takes it"},
    max_tokens=4096,
)


@explain_class("Anthropic('claude-sonnet-4-5')", options=MODEL_OPTIONS)
class Anthropic(RemoteModel):
    """A model that is called with Anthropic's Messages API.

    `base_url` is the server's address, which begins with `http://` or `https://` and ends before `/v1`. The default is
    the environment variable `ANTHROPIC_BASE_URL`, or else Anthropic's own server. The default of `api_key` is
    `ANTHROPIC_API_KEY`. `max_tokens` bounds a reply; `None` means 4096, since the API requires a number.
    `reasoning_effort` is sent as the effort of the API's `output_config`; `extra_body={"thinking": ...}` makes a model
    think. There is no `seed`. The other options are as in `OpenAICompatible`.

    System messages are joined and sent separately from the conversation. A `CompletionRequest` is sent as a user
    message. A blank stop string is a `BadRequestError`, since the API rejects it. The parts of a schema that the API
    does not support (ranges, sizes, patterns) are sent as descriptions. Prompt tokens include those of the API's cache.
    """

    _dialect = MESSAGES
