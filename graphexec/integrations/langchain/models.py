"""A chat model of LangChain as a model: Gemini, Vertex, Bedrock and all others that it has."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any, final

from graphexec._arguments import Constraint, has_methods, optional, validate
from graphexec._mistakes import explain_calls
from graphexec.messages import ModelRequest
from graphexec.models.bridges import bridging
from graphexec.models.http.dialect import Sampling
from graphexec.models.http.json_values import JSON, to_object, to_objects
from graphexec.runtime.io import IO

_MODEL = has_methods("a chat model of LangChain", "invoke", "ainvoke", "stream", "astream")
_CONFIG = Constraint("a dict of callbacks, tags and metadata", lambda value: isinstance(value, Mapping))
# The members that have the reason of the end: of OpenAI and Gemini, Anthropic, Bedrock, Ollama.
_REASONS = ("finish_reason", "stop_reason", "stopReason", "done_reason")


# Any: the package is optional, so its types may be unknown; so in this module.
@explain_calls("from_langchain", "from_langchain(chat_model)", {})
def from_langchain(chat_model: Any, *, config: Mapping[str, Any] | None = None) -> LangChainModel:
    """Return a model that calls a chat model of LangChain; `config` (callbacks, tags, metadata) goes to each call.

    Raises `InputError` for another object, and if langchain-core (extra `langchain`) is missing.
    """
    types = bridging.require("langchain_core.messages", "langchain")
    validate("from_langchain", ("chat_model", chat_model, _MODEL), ("config", config, optional(_CONFIG)))
    return LangChainModel(chat_model, dict(config or {}), types)


@final
class LangChainModel(bridging.BridgedModel):
    """A model that calls a chat model of LangChain; `from_langchain` makes it."""

    def __init__(self, model: Any, config: JSON, types: Any) -> None:
        # Options may be bound to it.
        inner = getattr(model, "bound", model)
        names = [getattr(inner, name, None) for name in ("model_name", "model", "model_id")]
        name = next((one for one in names if isinstance(one, str) and one), type(inner).__name__)
        sampling = Sampling(name.removeprefix("models/"), provider=str(getattr(inner, "_llm_type", "")))
        super().__init__(model, type(inner).__name__, sampling, inner)
        self._config, self._types = config, types
        self._stream_options: JSON = {"stream_usage": True} if hasattr(inner, "stream_usage") else {}
        self._has_schemas = type(inner).__module__.startswith("langchain_openai")

    async def _ask(self, request: ModelRequest, _timeout: float | None, io: IO, /) -> JSON:
        model, history, options = self._prepare(request)
        forms = (partial(form, history, self._config, **options) for form in (model.invoke, model.ainvoke))
        message = await io.either(*forms)
        return self._end(_read(message), message, "stop")

    async def _chunks(self, request: ModelRequest, _timeout: float | None, io: IO, /) -> AsyncGenerator[JSON, None]:
        model, history, options = self._prepare(request)
        options |= self._stream_options
        forms = (partial(form, history, self._config, **options) for form in (model.stream, model.astream))
        whole = None
        async with aclosing(io.iterate(*forms)) as chunks:
            async for chunk in chunks:
                whole = chunk if whole is None else whole + chunk
                yield _read(chunk)
        if whole is not None:
            # A fake model has neither a provider nor a reason of the end.
            default = "" if whole.response_metadata.get("model_provider") else "stop"
            yield self._end(bridging.make_chunk("", "", ()), whole, default)

    def _prepare(self, request: ModelRequest) -> tuple[Any, list[Any], JSON]:
        """Return the model with the tools bound, the messages, and the options of a call."""
        model: Any = self._client
        tools, wanted = getattr(request, "tools", ()), getattr(request, "tool_choice", "auto")
        # The package refuses a schema beside tools that are not strict.
        body = self.prepare(request, has_schema=self._has_schemas and not tools)
        options: JSON = {name: body[name] for name in ("stop", "response_format") if name in body}
        history = [self._convert(one) for one in body["messages"]]
        if not tools:
            return model, history, options
        # LangChain's own name for required calls is "any".
        none = {"type": "none"} if "anthropic" in self.provider else "none"
        chosen = {} if wanted == "auto" else {"tool_choice": {"required": "any", "none": none}.get(wanted, wanted)}
        return model.bind_tools(body["tools"], **chosen), history, options

    def _convert(self, sent: JSON) -> Any:
        own = bridging.restore(sent, lambda data: self._types.messages_from_dict([data])[0], _read)
        return own or self._types.convert_to_messages([sent])[0]

    def _end(self, chunk: JSON, given: Any, default: str) -> JSON:
        message = self._types.message_chunk_to_message(given)
        meta, used = message.response_metadata, to_object(message.usage_metadata)
        details = to_object(used.get("input_token_details"))
        kept = {name: value for name, value in message.additional_kwargs.items() if value and name != "tool_calls"}
        has_more = bool(kept) or not isinstance(message.content, str)
        # Of OpenAI's two protocols: beside the content, or a block of it.
        blocks = [one.get("refusal") for one in to_objects(message.content) if one.get("type") == "refusal"]
        refusals = [one for one in (message.additional_kwargs.get("refusal"), *blocks) if isinstance(one, str)]
        chunk["choices"][0]["delta"] |= {"refusal": "".join(refusals)} if refusals else {}
        return bridging.end_chunk(
            chunk,
            next((meta[name] for name in _REASONS if meta.get(name)), default),
            meta.get("model_name") or meta.get("model"),
            (used.get("input_tokens"), used.get("output_tokens"), details.get("cache_read")),
            self._types.messages_to_dict([message])[0] if has_more else None,
        )


def _read(message: Any) -> JSON:
    """Return a message, or a piece of one, as a chunk."""
    thoughts = "".join([one.get("reasoning", "") for one in message.content_blocks if one["type"] == "reasoning"])
    # Of a stream, the strings as received: LangChain completes arguments that were cut.
    found = getattr(message, "tool_call_chunks", None) or [*message.tool_calls, *message.invalid_tool_calls]
    calls = [(one.get("index"), one["id"], one["name"], one["args"]) for one in found]
    return bridging.make_chunk(str(message.text), thoughts, calls)
