"""A chat model of LangChain as a model: Gemini, Vertex, Bedrock and all others that it has."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, final

from graphexec._arguments import Constraint, has_methods, optional, validate
from graphexec._mistakes import explain_calls, explain_class
from graphexec.errors import InputError, an
from graphexec.integrations.langchain.configs import add_outer_config
from graphexec.messages import (
    ChatRequest,
    CompletionRequest,
    Message,
    ModelReply,
    ModelRequest,
    ToolCall,
    Usage,
    UserMessage,
)
from graphexec.messages.turns import Conversation
from graphexec.models.bridges import bridging
from graphexec.models.history import HistoryForm, distinct_calls
from graphexec.models.http.dialect import Sampling
from graphexec.models.http.draft import FINISH_REASONS
from graphexec.models.http.json_bodies import to_json
from graphexec.models.http.json_values import JSON, mend_surrogates, to_object, to_objects
from graphexec.models.providers.openai_compatible import CHAT_COMPLETIONS
from graphexec.runtime.io import IO

_MODEL = has_methods("a chat model of LangChain", "invoke", "ainvoke", "stream", "astream")
_CONFIG = Constraint("a dict of callbacks, tags and metadata", lambda value: isinstance(value, Mapping))
# The members that have the reason of the end: of OpenAI and Gemini, Anthropic, Bedrock, Ollama.
_REASONS = ("finish_reason", "stop_reason", "stopReason", "done_reason")

# Stands for the messages where only the rest of a request is read.
_ANY = (UserMessage("..."),)


class _Bound(NamedTuple):
    """What the last request shares with the next: the model with its tools, options, and the form of its calls."""

    key: object
    model: Any
    options: JSON
    form: HistoryForm


# Any: the package is optional, so its types may be unknown; so in this module.
@final
@explain_class("LangChainModel(chat_model)")
class LangChainModel(bridging.BridgedModel):
    """A model that calls one of LangChain, for chats or text; `config` (callbacks, tags, metadata) goes to each call.

    Where a model is taken, one of LangChain is taken as it is, and becomes this one without a config. Raises
    `InputError` for another object, and if langchain-core (extra `langchain`) is missing. An error of the chat model is
    a `ModelError`.
    """

    def __init__(self, chat_model: Any, *, config: Mapping[str, Any] | None = None) -> None:
        self._types = bridging.require("langchain_core.messages", "langchain")
        validate("LangChainModel", ("chat_model", chat_model, _MODEL), ("config", config, optional(_CONFIG)))
        # Options may be bound to it.
        inner = getattr(chat_model, "bound", chat_model)
        names = [getattr(inner, name, None) for name in ("model_name", "model", "model_id")]
        name = next((one for one in names if isinstance(one, str) and one), type(inner).__name__)
        sampling = Sampling(name.removeprefix("models/"), provider=str(getattr(inner, "_llm_type", "")))
        super().__init__(_counting_usage(chat_model, inner), type(inner).__name__, sampling, inner)
        self._config = dict(config or {})
        self._has_schemas = type(inner).__module__.startswith("langchain_openai")
        self._bound: _Bound | None = None

    async def _ask(self, request: ModelRequest, _timeout: float | None, io: IO, /) -> JSON | ModelReply:
        model, history, options = self._prepare(request)
        config = add_outer_config(self._config)
        forms = (partial(form, history, config, **options) for form in (model.invoke, model.ainvoke))
        given = await io.either(*forms)
        # Models of text return strings.
        message = self._types.AIMessage(given) if isinstance(given, str) else given
        plain = None if request.stop else _read_plain(message)
        return self._end(_read(message), message, "stop") if plain is None else plain

    async def _chunks(self, request: ModelRequest, _timeout: float | None, io: IO, /) -> AsyncGenerator[JSON, None]:
        model, history, options = self._prepare(request)
        config = add_outer_config(self._config)
        forms = (partial(form, history, config, **options) for form in (model.stream, model.astream))
        whole = None
        async with aclosing(io.iterate(*forms)) as chunks:
            async for piece in chunks:
                chunk = self._types.AIMessageChunk(piece) if isinstance(piece, str) else piece
                whole = chunk if whole is None else whole + chunk
                yield _read(chunk)
        if whole is not None:
            # A fake model has neither a provider nor a reason of the end.
            default = "" if whole.response_metadata.get("model_provider") else "stop"
            yield self._end(bridging.make_chunk("", "", ()), whole, default)

    def _prepare(self, request: ModelRequest) -> tuple[Any, list[Any] | str, JSON]:
        """Return the model with the tools bound, the messages or the text, and the options of a call."""
        # The package refuses a schema beside tools that are not strict.
        native = self._has_schemas and not getattr(request, "tools", ())
        chat = bridging.to_chat_with_schema(request, has_schema=native)
        key = chat.tools, chat.tool_choice, chat.stop, chat.schema
        bound = self._bound
        if bound is None or bound.key != key:
            # Most requests of a run differ in their messages alone.
            self._bound = bound = self._bind(chat, key)
        if isinstance(request, CompletionRequest):
            return bound.model, mend_surrogates(request.prompt), {**bound.options}
        return bound.model, self._history(chat, bound.form), {**bound.options}

    def _bind(self, chat: ChatRequest, key: object) -> _Bound:
        body = self.prepare(replace(chat, messages=_ANY), has_schema=True)
        options: JSON = {name: body[name] for name in ("stop", "response_format") if name in body}
        form, model = replace(CHAT_COMPLETIONS.form(self._sampling), provider=self._sampling.provider), self._client
        if chat.tools:
            form = replace(form, names=frozenset(one.name for one in chat.tools))
            if not hasattr(model, "bind_tools"):
                # A chain, or a model with LangChain's retries.
                remedy = "give the chat model itself, such as retrying(chat_model), or use create_structured_agent"
                raise InputError(f"{an(type(model).__name__)} takes no tools; {remedy}")
            # LangChain's own name for required calls is "any".
            none: Any = {"type": "none"} if "anthropic" in self.provider else "none"
            wanted = {"auto": None, "required": "any", "none": none}.get(chat.tool_choice, chat.tool_choice)
            model = model.bind_tools(body["tools"], **({} if wanted is None else {"tool_choice": wanted}))
        return _Bound(key, model, options, form)

    def _history(self, chat: ChatRequest, form: HistoryForm) -> list[Any]:
        """Return the messages in LangChain's classes, of which each turn is converted once in a run."""
        messages = distinct_calls(chat.messages, form)

        def convert(part: Sequence[Message]) -> list[Any]:
            # Without lone surrogates, which cannot be sent.
            sent: list[JSON] = json.loads(to_json(CHAT_COMPLETIONS.write_messages(part, form)))
            return [self._convert(one) for one in sent]

        if type(messages) is Conversation and not form.alternates:
            return messages.derive_items((self, form), convert)
        return convert(messages)

    def _convert(self, sent: JSON) -> Any:
        own = bridging.restore(sent, lambda data: self._types.messages_from_dict([data])[0], _read)
        return own or self._types.convert_to_messages([sent])[0]

    def _end(self, chunk: JSON, given: Any, default: str) -> JSON:
        message = self._types.message_chunk_to_message(given)
        meta, used = message.response_metadata, to_object(message.usage_metadata)
        details = to_object(used.get("input_token_details"))
        kept = {name: value for name, value in message.additional_kwargs.items() if value and name != "tool_calls"}
        has_more = bool(kept) or not isinstance(message.content or "", str)
        # Of OpenAI's two protocols: beside the content, or a block of it.
        blocks = [one.get("refusal") for one in to_objects(message.content) if one.get("type") == "refusal"]
        refusals = [one for one in (message.additional_kwargs.get("refusal"), *blocks) if isinstance(one, str)]
        chunk["choices"][0]["delta"] |= {"refusal": "".join(refusals)} if refusals else {}
        return bridging.end_chunk(
            chunk,
            _read_reason(meta) or default,
            meta.get("model_name") or meta.get("model"),
            (used.get("input_tokens"), used.get("output_tokens"), details.get("cache_read")),
            self._types.messages_to_dict([message])[0] if has_more else None,
        )


def _counting_usage(chat_model: Any, inner: Any) -> Any:
    """Return a chat model that reports the usage of a stream, unless its user said whether it does.

    It is a field: as an option of a call, OpenAI's Responses API refuses it.
    """
    if getattr(inner, "stream_usage", False) is not None:
        return chat_model
    counting = inner.model_copy(update={"stream_usage": True})
    return counting if inner is chat_model else chat_model.model_copy(update={"bound": counting})


def _read_reason(meta: Mapping[str, Any]) -> Any:
    """Return why a reply ended; `None` if its metadata do not say."""
    named = [meta.get(name) for name in _REASONS]
    # Of Gemini, which blocked the request; then of OpenAI's Responses API.
    blocked = to_object(meta.get("prompt_feedback")).get("block_reason")
    cut, status = to_object(meta.get("incomplete_details")).get("reason"), meta.get("status")
    return next(filter(None, (*named, blocked, cut, "stop" if status == "completed" else status)), None)


def _read_plain(message: Any) -> ModelReply | None:
    """Return the reply of a message that has a text and calls alone, as most have; `None` if there is more to read."""
    meta, calls, used = message.response_metadata, message.tool_calls, to_object(message.usage_metadata)
    reason = FINISH_REASONS.get(str(_read_reason(meta) or "stop").lower())
    if reason is None or message.invalid_tool_calls or any(message.additional_kwargs.values()):
        return None
    if not isinstance(message.content, str) or not (message.content or calls):
        return None
    # Servers may send one id for several calls, or a name with the marks of a template.
    if len({one["id"] for one in calls if one["id"] and one["name"].isidentifier()}) < len(calls):
        return None
    details = to_object(used.get("input_token_details"))
    counts = used.get("input_tokens"), used.get("output_tokens"), details.get("cache_read")
    return ModelReply(
        mend_surrogates(message.content),
        tuple([ToolCall(one["id"], one["name"], json.dumps(one["args"])) for one in calls]),
        Usage(*[count or 0 for count in counts]),
        "tool_calls" if calls and reason == "stop" else reason,
        str(meta.get("model_name") or meta.get("model") or ""),
    )


def _read(message: Any) -> JSON:
    """Return a message, or a piece of one, as a chunk."""
    thoughts = "".join([one.get("reasoning", "") for one in message.content_blocks if one["type"] == "reasoning"])
    # Of a stream, the strings as received: LangChain completes arguments that were cut.
    found = getattr(message, "tool_call_chunks", None) or [*message.tool_calls, *message.invalid_tool_calls]
    calls = [(one.get("index"), one["id"], one["name"], one["args"]) for one in found]
    return bridging.make_chunk(str(message.text), thoughts, calls)


@explain_calls("from_langchain", "from_langchain(chat_model)", {})
def from_langchain(chat_model: Any, *, config: Mapping[str, Any] | None = None) -> LangChainModel:
    """Return a `LangChainModel`, which calls a chat model of LangChain."""
    return LangChainModel(chat_model, config=config)
