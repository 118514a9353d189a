"""A chat model of LangChain as a model: Gemini, Vertex, Bedrock and all others that it has."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any, final

from graphexec._arguments import has_methods, validate
from graphexec.messages import ModelReply, ModelRequest, ReplyDelta
from graphexec.models.bridges import bridging
from graphexec.models.http.dialect import Piece
from graphexec.models.http.json_values import JSON
from graphexec.runtime.io import IO

_MODEL = has_methods("a chat model of LangChain", "invoke", "ainvoke", "stream", "astream")
# The members that have the reason of the end: of OpenAI and Gemini, Anthropic, Bedrock, Ollama.
_REASONS = ("finish_reason", "stop_reason", "stopReason", "done_reason")


# Any: the package is optional, so its types may be unknown; so in this module.
def from_langchain(chat_model: Any, *, config: Mapping[str, Any] | None = None) -> LangChainModel:
    """Return a model that calls a chat model of LangChain; `config` (callbacks, tags, metadata) goes to each call.

    Raises `InputError` for another object, and if langchain-core (extra `langchain`) is missing.
    """
    types = bridging.require("langchain_core.messages", "langchain")
    validate("from_langchain", ("chat_model", chat_model, _MODEL))
    return LangChainModel(chat_model, dict(config or {}), types)


@final
class LangChainModel(bridging.BridgedModel):
    """A model that calls a chat model of LangChain; `from_langchain` makes it."""

    def __init__(self, model: Any, config: JSON, types: Any) -> None:
        # Options may be bound to it.
        inner = getattr(model, "bound", model)
        names = [getattr(inner, name, None) for name in ("model_name", "model", "model_id")]
        name = next((one for one in names if isinstance(one, str) and one), type(inner).__name__)
        provider = str(getattr(inner, "_llm_type", ""))
        super().__init__(model, type(inner).__name__, name.removeprefix("models/"), provider, inner)
        self._config, self._types = config, types
        self._stream_options: JSON = {"stream_usage": True} if hasattr(inner, "stream_usage") else {}
        self._has_schemas = type(inner).__module__.startswith("langchain_openai")

    async def _ask(self, request: ModelRequest, _timeout: float | None, io: IO, /) -> ModelReply:
        model, history, options = self._prepare(request)
        forms = (partial(form, history, self._config, **options) for form in (model.invoke, model.ainvoke))
        return self._read(await io.either(*forms))

    async def _pieces(self, request: ModelRequest, _timeout: float | None, io: IO, /) -> AsyncGenerator[Piece, None]:
        model, history, options = self._prepare(request)
        options |= self._stream_options
        forms = (partial(form, history, self._config, **options) for form in (model.stream, model.astream))
        whole, places = None, dict[object, int]()
        async with aclosing(io.iterate(*forms)) as chunks:
            async for chunk in chunks:
                whole = chunk if whole is None else whole + chunk
                for delta in _deltas(chunk, places):
                    yield delta
        meta: Any = bridging.NOTHING if whole is None else whole.response_metadata
        # A fake model has neither a provider nor a reason of the end.
        if whole is None or (meta.get("model_provider") and not any(map(meta.get, _REASONS))):
            raise self.invalid_reply("ended its stream before the reply was complete")
        yield self._read(whole)

    def _prepare(self, request: ModelRequest) -> tuple[Any, list[Any], JSON]:
        """Return the model with the tools bound, the messages, and the options of a call."""
        model: Any = self._client
        tools, wanted = getattr(request, "tools", ()), getattr(request, "tool_choice", "auto")
        # The package refuses a schema beside tools that are not strict.
        body = bridging.prepare(request, self.name, has_schema=self._has_schemas and not tools)
        options: JSON = {name: body[name] for name in ("stop", "response_format") if name in body}
        history: list[Any] = self._types.convert_to_messages(body["messages"])
        self.restore(request, history, lambda one: one.type == "ai", self._load, self._read)
        if not tools:
            return model, history, options
        # LangChain's own name for required calls is "any".
        none = {"type": "none"} if "anthropic" in self.provider else "none"
        chosen = {} if wanted == "auto" else {"tool_choice": {"required": "any", "none": none}.get(wanted, wanted)}
        return model.bind_tools(body["tools"], **chosen), history, options

    def _load(self, data: Any) -> Any:
        return self._types.messages_from_dict([data])[0]

    def _read(self, given: Any) -> ModelReply:
        message = self._types.message_chunk_to_message(given)
        # Of a stream, the strings as received: LangChain completes arguments that were cut.
        found = getattr(given, "tool_call_chunks", None) or [*message.tool_calls, *message.invalid_tool_calls]
        calls = [(one["id"], one["name"], one["args"]) for one in found]
        used: JSON = message.usage_metadata or bridging.NOTHING
        details: JSON = used.get("input_token_details") or bridging.NOTHING
        meta, blocks = message.response_metadata, message.content_blocks
        kept = {name: value for name, value in message.additional_kwargs.items() if value and name != "tool_calls"}
        has_more = bool(kept) or not isinstance(message.content, str)
        return self.make_reply(
            str(message.text),
            calls,
            (used.get("input_tokens"), used.get("output_tokens"), details.get("cache_read")),
            next((meta[name] for name in _REASONS if meta.get(name)), ""),
            meta.get("model_name") or meta.get("model"),
            "".join([one.get("reasoning", "") for one in blocks if one["type"] == "reasoning"]),
            self._types.messages_to_dict([message])[0] if has_more else None,
        )


def _deltas(chunk: Any, places: dict[object, int]) -> Iterator[ReplyDelta]:
    """Yield the deltas of a chunk; `places` has the positions of the calls by their indices, which begin anywhere."""
    for block in chunk.content_blocks:
        if block["type"] == "reasoning" and block.get("reasoning"):
            yield ReplyDelta(reasoning=block["reasoning"])
    if chunk.text:
        yield ReplyDelta(str(chunk.text))
    for one in chunk.tool_call_chunks:
        # Without an index, it is a whole call.
        place = places.setdefault(object() if one["index"] is None else one["index"], len(places))
        yield ReplyDelta("", place, one["id"] or "", one["name"] or "", one["args"] or "")
