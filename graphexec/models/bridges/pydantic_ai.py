"""A model of Pydantic AI as a model: Gemini, Vertex, Bedrock and all others that it has."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from functools import partial
from itertools import groupby
from typing import Any, final

from graphexec._arguments import has_methods, validate
from graphexec._mistakes import explain_calls
from graphexec.errors import InputError, format_value
from graphexec.messages import ModelRequest
from graphexec.models.bridges import bridging
from graphexec.models.http.dialect import Sampling
from graphexec.models.http.endpoint import one_line
from graphexec.models.http.json_values import JSON
from graphexec.runtime.background_loop import call_client, iterate_client
from graphexec.runtime.io import IO

_MODEL = has_methods("a model of Pydantic AI, or its name", "request", "request_stream")


# Any: the package is optional, so its types may be unknown; so in this module.
@explain_calls("from_pydantic_ai", "from_pydantic_ai('openai:gpt-5-mini')", {})
def from_pydantic_ai(model: Any) -> PydanticAIModel:
    """Return a model that calls a model of Pydantic AI, given as such or by its name.

    Raises `InputError` for another object or an unknown name, and if pydantic-ai-slim (extra `pydantic-ai`) is missing.
    """
    models = bridging.require("pydantic_ai.models", "pydantic-ai")
    if not isinstance(model, str):
        validate("from_pydantic_ai", ("model", model, _MODEL))
    try:
        return PydanticAIModel(models.infer_model(model))
    except (RuntimeError, ValueError) as error:
        raise InputError(f"from_pydantic_ai has model={format_value(model)}; {one_line(str(error))}") from error


@final
class PydanticAIModel(bridging.BridgedModel):
    """A model that calls a model of Pydantic AI; `from_pydantic_ai` makes it."""

    def __init__(self, model: Any) -> None:
        sampling = Sampling(str(model.model_name), provider=str(model.system))
        super().__init__(model, type(model).__name__, sampling, getattr(model, "client", None))
        modules = (bridging.require(f"pydantic_ai.{name}", "pydantic-ai") for name in ("direct", "messages", "models"))
        self._direct, self._types, self._models = modules
        self._messages = self._types.ModelMessagesTypeAdapter

    async def _ask(self, request: ModelRequest, _timeout: float | None, io: IO, /) -> JSON:
        ask = partial(self._direct.model_request, self._client, **self._prepare(request))
        response = await call_client(io, None, ask)
        return self._end(_read(response), response, response.finish_reason or "stop")

    async def _chunks(self, request: ModelRequest, _timeout: float | None, io: IO, /) -> AsyncGenerator[JSON, None]:
        open_stream = partial(self._direct.model_request_stream, self._client, **self._prepare(request))
        async for event in iterate_client(io, None, partial(_iterate, open_stream)):
            if isinstance(event, self._types.ModelResponse):
                # Of chat completions without a reason of the end, the library makes a reply that has stopped.
                details: JSON = event.provider_details or {"finish_reason": ""}
                is_whole = event.state == "complete" and "finish_reason" in details
                reason = (event.finish_reason or "stop") if is_whole else None
                yield self._end(bridging.make_chunk("", "", ()), event, reason)
            elif event.event_kind in {"part_start", "part_delta"}:
                yield _read_event(event)

    def _prepare(self, request: ModelRequest) -> JSON:
        """Return the arguments of a request of the library."""
        # Some providers have tools and schemas, but not at once.
        native = not getattr(request, "tools", ()) and self._client.profile.get("supports_json_schema_output", False)
        body, choice = self.prepare(request, has_schema=native), getattr(request, "tool_choice", "auto")
        settings: JSON = {"stop_sequences": body["stop"]} if "stop" in body else {}
        shape: JSON = {}
        if "tools" in body:
            settings["tool_choice"] = choice if choice in {"auto", "none", "required"} else [choice]
            shape["function_tools"] = [self._define(**one["function"]) for one in body["tools"]]
        if "response_format" in body:
            output = self._models.OutputObjectDefinition(json_schema=body["response_format"]["json_schema"]["schema"])
            shape = {"output_mode": "native", "output_object": output}
        parameters = self._models.ModelRequestParameters(**shape)
        history = self._convert(body["messages"])
        return {"messages": history, "model_settings": settings, "model_request_parameters": parameters}

    def _define(self, parameters: JSON, **members: Any) -> Any:
        return self._models.ToolDefinition(parameters_json_schema=parameters, **members)

    def _convert(self, sent: list[JSON]) -> list[Any]:
        """Return messages as replies, and as requests of several parts between them."""
        names = {call["id"]: call["function"]["name"] for one in sent for call in one.get("tool_calls", ())}
        found: list[Any] = []
        for is_reply, several in groupby(sent, lambda one: one["role"] == "assistant"):
            if is_reply:
                found += map(self._to_reply, several)
            else:
                found.append(self._types.ModelRequest([self._to_part(one, names) for one in several]))
        return found

    def _to_reply(self, sent: JSON) -> Any:
        own = bridging.restore(sent, lambda data: self._messages.validate_python([data])[0], _read)
        functions = [(one["id"], one["function"]) for one in sent.get("tool_calls", ())]
        calls = [self._types.ToolCallPart(one["name"], one["arguments"], call_id) for call_id, one in functions]
        text = [self._types.TextPart(sent["content"])] if sent["content"] else []
        return own or self._types.ModelResponse([*text, *calls])

    def _to_part(self, sent: JSON, names: Mapping[str, str]) -> Any:
        content = sent["content"]
        match sent["role"]:
            case "system":
                return self._types.SystemPromptPart(content)
            case "tool":
                call_id = sent["tool_call_id"]
                return self._types.ToolReturnPart(names.get(call_id, ""), content, call_id)
            case _:
                shown = content if isinstance(content, str) else [_to_content(self._types, one) for one in content]
                return self._types.UserPromptPart(shown)

    def _end(self, chunk: JSON, response: Any, reason: str | None) -> JSON:
        has_more = any(one.part_kind not in {"text", "tool-call"} or one.provider_details for one in response.parts)
        used = response.usage
        return bridging.end_chunk(
            chunk,
            reason,
            response.model_name,
            (used.input_tokens, used.output_tokens, used.cache_read_tokens),
            self._messages.dump_python([response], mode="json")[0] if has_more else None,
        )


def _to_content(types: Any, part: JSON) -> Any:
    if part["type"] == "text":
        return part["text"]
    url: str = part["image_url"]["url"]
    return types.BinaryContent.from_data_uri(url) if url.startswith("data:") else types.ImageUrl(url)


def _read(response: Any) -> JSON:
    calls = [(None, one.tool_call_id, one.tool_name, one.args) for one in response.tool_calls]
    return bridging.make_chunk(response.text, response.thinking, calls)


def _read_event(event: Any) -> JSON:
    """Return a part that begins, or a piece of one, as a chunk."""
    part: Any = getattr(event, "part", None) or event.delta
    kind: str = getattr(part, "part_kind", "") or part.part_delta_kind
    content, name, arguments = (
        getattr(part, one, getattr(part, f"{one}_delta", None)) for one in ("content", "tool_name", "args")
    )
    calls = [(event.index, part.tool_call_id, name, arguments)] if kind in {"tool-call", "tool_call"} else []
    text, thoughts = (content if kind == shown else "" for shown in ("text", "thinking"))
    return bridging.make_chunk(text, thoughts, calls)


async def _iterate(open_stream: Any) -> AsyncGenerator[Any, None]:
    async with open_stream() as response:
        async for event in response:
            yield event
        yield response.get()
