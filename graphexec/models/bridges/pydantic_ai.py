"""A model of Pydantic AI as a model: Gemini, Vertex, Bedrock and all others that it has."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from functools import partial
from typing import Any, final

from graphexec._arguments import has_methods, validate
from graphexec.messages import ModelReply, ModelRequest, ReplyDelta
from graphexec.models.bridges import bridging
from graphexec.models.bridges.pydantic_ai_messages import convert
from graphexec.models.http.dialect import Piece
from graphexec.models.http.json_values import JSON
from graphexec.runtime.background_loop import call_client, iterate_client
from graphexec.runtime.io import IO

_MODEL = has_methods("a model of Pydantic AI, or its name", "request", "request_stream")


# Any: the package is optional, so its types may be unknown; so in this module.
def from_pydantic_ai(model: Any) -> PydanticAIModel:
    """Return a model that calls a model of Pydantic AI, given as such or by its name.

    Raises `InputError` for another object, and if pydantic-ai-slim (extra `pydantic-ai`) is missing.
    """
    models = bridging.require("pydantic_ai.models", "pydantic-ai")
    if not isinstance(model, str):
        validate("from_pydantic_ai", ("model", model, _MODEL))
    return PydanticAIModel(models.infer_model(model))


@final
class PydanticAIModel(bridging.BridgedModel):
    """A model that calls a model of Pydantic AI; `from_pydantic_ai` makes it."""

    def __init__(self, model: Any) -> None:
        kind, client = type(model).__name__, getattr(model, "client", None)
        super().__init__(model, kind, str(model.model_name), str(model.system), client)
        modules = (bridging.require(f"pydantic_ai.{name}", "pydantic-ai") for name in ("direct", "messages", "models"))
        self._direct, self._types, self._models = modules

    async def _ask(self, request: ModelRequest, _timeout: float | None, io: IO, /) -> ModelReply:
        ask = partial(self._direct.model_request, self._client, **self._prepare(request))
        return self._read(await call_client(io, None, ask))

    async def _pieces(self, request: ModelRequest, _timeout: float | None, io: IO, /) -> AsyncGenerator[Piece, None]:
        open_stream = partial(self._direct.model_request_stream, self._client, **self._prepare(request))
        places: dict[int, int] = {}
        async for event in iterate_client(io, None, partial(_iterate, open_stream)):
            if isinstance(event, self._types.ModelResponse):
                # Of chat completions without a reason of the end, the library makes a reply that has stopped.
                details: JSON = event.provider_details or {"finish_reason": ""}
                if event.state != "complete" or "finish_reason" not in details:
                    raise self.invalid_reply("ended its stream before the reply was complete")
                yield self._read(event)
            elif event.event_kind in {"part_start", "part_delta"}:
                for delta in _deltas(getattr(event, "part", None) or event.delta, event.index, places):
                    yield delta

    def _prepare(self, request: ModelRequest) -> JSON:
        """Return the arguments of a request of the library."""
        # Some providers have tools and schemas, but not at once.
        native = not getattr(request, "tools", ()) and self._client.profile.get("supports_json_schema_output", False)
        body, choice = bridging.prepare(request, self.name, has_schema=native), getattr(request, "tool_choice", "auto")
        settings: JSON = {"stop_sequences": body["stop"]} if "stop" in body else {}
        shape: JSON = {}
        if "tools" in body:
            settings["tool_choice"] = choice if choice in {"auto", "none", "required"} else [choice]
            shape["function_tools"] = [self._define(**one["function"]) for one in body["tools"]]
        if "response_format" in body:
            output = self._models.OutputObjectDefinition(json_schema=body["response_format"]["json_schema"]["schema"])
            shape = {"output_mode": "native", "output_object": output}
        history = convert(self._types, body["messages"])
        self.restore(request, history, lambda one: one.kind == "response", self._load, self._read)
        parameters = self._models.ModelRequestParameters(**shape)
        return {"messages": history, "model_settings": settings, "model_request_parameters": parameters}

    def _define(self, parameters: JSON, **members: Any) -> Any:
        return self._models.ToolDefinition(parameters_json_schema=parameters, **members)

    def _load(self, data: Any) -> Any:
        return self._types.ModelMessagesTypeAdapter.validate_python([data])[0]

    def _read(self, response: Any) -> ModelReply:
        calls = [(one.tool_call_id, one.tool_name, one.args) for one in response.tool_calls]
        used, adapter = response.usage, self._types.ModelMessagesTypeAdapter
        has_more = any(one.part_kind not in {"text", "tool-call"} or one.provider_details for one in response.parts)
        return self.make_reply(
            response.text,
            calls,
            (used.input_tokens, used.output_tokens, used.cache_read_tokens),
            response.finish_reason,
            response.model_name,
            response.thinking,
            adapter.dump_python([response], mode="json")[0] if has_more else None,
        )


async def _iterate(open_stream: Any) -> AsyncGenerator[Any, None]:
    async with open_stream() as response:
        async for event in response:
            yield event
        yield response.get()


def _deltas(part: Any, index: int, places: dict[int, int]) -> Iterator[ReplyDelta]:
    """Yield the deltas of a part that begins, or of a piece of one; `places` has the positions of the calls."""
    kind: str = getattr(part, "part_kind", "") or part.part_delta_kind
    members = ("content", "tool_name", "args")
    text, name, arguments = (getattr(part, one, getattr(part, f"{one}_delta", "")) or "" for one in members)
    if kind in {"text", "thinking"} and text:
        yield ReplyDelta(text) if kind == "text" else ReplyDelta(reasoning=text)
    if kind in {"tool-call", "tool_call"}:
        text = bridging.to_json(arguments)
        yield ReplyDelta("", places.setdefault(index, len(places)), name and part.tool_call_id, name, text)
