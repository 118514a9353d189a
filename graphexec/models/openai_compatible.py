"""A model behind an OpenAI-compatible server: OpenAI, llama.cpp, Ollama, vLLM, LM Studio and many others."""

from __future__ import annotations

from graphexec.messages import ChatRequest, ModelReply, ModelRequest
from graphexec.models.chat_wire import encode, route
from graphexec.models.dialect import Dialect, bearer
from graphexec.models.endpoint import OPENAI, Endpoint
from graphexec.models.remote import RemoteModel
from graphexec.models.reply_wire import Fold, decode


def _decode(body: bytes, request: ModelRequest, endpoint: Endpoint) -> ModelReply:
    return decode(body, endpoint, chat=isinstance(request, ChatRequest))


def _fold(_request: ModelRequest, endpoint: Endpoint) -> Fold:
    return Fold(endpoint)


CHAT_COMPLETIONS = Dialect(OPENAI, route, bearer, encode, _decode, _fold)


class OpenAICompatible(RemoteModel):
    """A model that is asked over OpenAI's Chat Completions and Completions protocols.

    `base_url` is the server's address, from `http://` or `https://` up to and with `/v1`; without it, the environment's
    `OPENAI_BASE_URL`, else OpenAI's own. The key is `api_key`, else `OPENAI_API_KEY`; a server on this machine needs
    none, and `api_key=""` says that another one does not either. `temperature` and `max_tokens` (of the reply) are the
    server's where `None`.

    `timeout` is how many seconds an attempt waits for the server to say something; the `timeout` of a call bounds all
    its attempts and waits together. A rate limit, a server error or a broken connection is tried `max_retries` times
    more, after the wait that the server asks for. Where that is more than 60 s, the error is raised at once instead. A
    `client` or `async_client` of yours (an `httpx.Client`, or one like it) is used as it is and not closed.

    Raises `InputError` for an option that cannot be; every failure of a call is a `ModelError`. Threads and event loops
    may share a model.
    """

    _dialect = CHAT_COMPLETIONS
