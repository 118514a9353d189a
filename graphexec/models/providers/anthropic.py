"""A model behind Anthropic's Messages API, or a server that speaks it, such as llama.cpp's."""

from __future__ import annotations

from graphexec.models.http.dialect import Dialect
from graphexec.models.http.endpoint import Provider
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
    lambda body, _, endpoint: decode(body, endpoint),
    lambda _, endpoint: AnthropicStream(endpoint),
    max_tokens=4096,
)


class Anthropic(RemoteModel):
    """A model that is asked over Anthropic's Messages API.

    `base_url` is the server's address, from `http://` or `https://` up to and without `/v1`; without it, the
    environment's `ANTHROPIC_BASE_URL`, else Anthropic's own. The key is `api_key`, else `ANTHROPIC_API_KEY`.
    `max_tokens` bounds a reply, to 4096 where `None`, since the API requires a number. The other options are those of
    `OpenAICompatible`.

    System messages are sent apart from the conversation, joined; a `CompletionRequest` is sent as a user message; a
    blank stop text is a `BadRequestError`, since the API refuses it. The parts of a schema that the API does not
    support (ranges, sizes, patterns) are sent as descriptions. Prompt tokens include those of the API's cache.
    """

    _dialect = MESSAGES
