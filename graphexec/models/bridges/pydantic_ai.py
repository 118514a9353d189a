"""A model of Pydantic AI as a model: Gemini, Vertex, Bedrock and all others that it has."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from functools import partial
from typing import Any, final

from graphexec import messages
from graphexec._arguments import has_methods, validate
from graphexec.messages import ModelReply, ModelRequest, ReplyDelta
from graphexec.models.bridges import bridging
from graphexec.models.http.dialect import Piece
from graphexec.models.http.json_bodies import JSON, stop_strings, valid_arguments
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
        super().__init__(model, str(model.model_name), str(model.system), getattr(model, "client", None))
        self._model = model
        modules = (bridging.require(f"pydantic_ai.{name}", "pydantic-ai") for name in ("direct", "messages", "models"))
        self._direct, self._types, self._models = modules

    async def _ask(self, request: ModelRequest, _timeout: float | None, io: IO, /) -> ModelReply:
        ask = partial(self._direct.model_request, self._model, **self._prepare(request))
        return self._read(await call_client(io, None, ask))

    async def _pieces(self, request: ModelRequest, _timeout: float | None, io: IO, /) -> AsyncGenerator[Piece, None]:
        open_stream = partial(self._direct.model_request_stream, self._model, **self._prepare(request))
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
        tools, choice, schema = bridging.options_of(request)
        settings: JSON = {"stop_sequences": list(stop_strings(request))} if stop_strings(request) else {}
        shape: JSON = {}
        if tools:
            make = self._models.ToolDefinition
            made = [
                make(name=t.name, description=t.description, parameters_json_schema={**t.parameters}) for t in tools
            ]
            shape["function_tools"] = made
            settings["tool_choice"] = choice if choice in {"auto", "none", "required"} else [choice]
        elif schema is not None and self._model.profile.get("supports_json_schema_output"):
            # Some providers have tools and schemas, but not at once.
            output = self._models.OutputObjectDefinition(json_schema={**schema})
            shape |= {"output_mode": "native", "output_object": output}
        history = self._convert(bridging.prepare_messages(request, has_schema="output_object" in shape))
        parameters = self._models.ModelRequestParameters(**shape)
        return {"messages": history, "model_settings": settings, "model_request_parameters": parameters}

    def _convert(self, history: Iterator[messages.Message]) -> list[Any]:
        types, names, found = self._types, dict[str, str](), list[Any]()
        load: Callable[[Any], Any] = lambda data: types.ModelMessagesTypeAdapter.validate_python([data])[0]  # noqa: E731
        for message in history:
            match message:
                case messages.AssistantMessage(content, calls):
                    names |= {call.id: call.name for call in calls}
                    parts = [types.TextPart(content)] if content else []
                    parts += [types.ToolCallPart(one.name, valid_arguments(one.arguments), one.id) for one in calls]
                    found.append(self.restore(message, load, self._read) or types.ModelResponse(parts))
                    continue
                case messages.SystemMessage(content):
                    part = types.SystemPromptPart(content)
                case messages.UserMessage(content, images):
                    # The text is last: a ReAct prompt ends with the words that the model continues.
                    makers = types.ImageUrl, types.BinaryContent.from_data_uri
                    shown = [makers[image.is_data](image.url) for image in images]
                    part = types.UserPromptPart([*shown, content] if images else content)
                case messages.ToolMessage(call_id, content):
                    part = types.ToolReturnPart(names.get(call_id, ""), content, call_id)
            if not found or found[-1].kind == "response":
                found.append(types.ModelRequest([]))
            found[-1].parts.append(part)
        return found

    def _read(self, response: Any) -> ModelReply:
        parts, used = response.parts, response.usage
        called = [part for part in parts if part.part_kind == "tool-call"]
        has_more = any(one.part_kind not in {"text", "tool-call"} or one.provider_details for one in parts)
        return self.make_reply(
            "".join([part.content for part in parts if part.part_kind == "text"]),
            [bridging.make_call(one.tool_call_id, one.tool_name, one.args, n) for n, one in enumerate(called)],
            (used.input_tokens, used.output_tokens, used.cache_read_tokens),
            response.finish_reason,
            response.model_name,
            "".join([part.content for part in parts if part.part_kind == "thinking"]),
            self._types.ModelMessagesTypeAdapter.dump_python([response], mode="json")[0] if has_more else None,
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
        piece = bridging.make_call(name and part.tool_call_id, name, arguments, 0)
        yield ReplyDelta("", places.setdefault(index, len(places)), name and piece.id, name, piece.arguments)
