"""A model behind OpenAI's Responses API, or a server that speaks it."""

from __future__ import annotations

from graphexec.messages import ModelReply, ModelRequest
from graphexec.models.dialect import Dialect, bearer
from graphexec.models.endpoint import OPENAI, Endpoint
from graphexec.models.remote import RemoteModel
from graphexec.models.responses_reply import Fold, decode
from graphexec.models.responses_request import encode, route
from graphexec.models.stop_cut import Cut


def _decode(body: bytes, request: ModelRequest, endpoint: Endpoint) -> ModelReply:
    return decode(body, endpoint, stop=request.stop)


def _fold(request: ModelRequest, endpoint: Endpoint) -> Fold:
    return Fold(endpoint, Cut(request.stop))


RESPONSES = Dialect(OPENAI, route, bearer, encode, _decode, _fold)


class OpenAIResponses(RemoteModel):
    """A model that is asked over OpenAI's Responses API. The server is told to store nothing.

    The API knows no stop texts. So the model writes on beyond them, its reply is cut here before the first one, also
    while it streams, and `usage` counts what was written and cut off. Calls after that place are dropped.

    System messages are told as `instructions`, joined, wherever they stand in the conversation; a `CompletionRequest`
    is asked as a user message. What a model reasoned is not in a conversation, and so not told to it again.

    `max_tokens` bounds a reply with its reasoning. The options are those of `OpenAICompatible`, and so are the
    environment's variables. Every failure is a `ModelError`. Threads and event loops may share a model.
    """

    _dialect = RESPONSES
