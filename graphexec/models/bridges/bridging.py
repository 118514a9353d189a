"""The base class of bridges: timeouts, stop strings and errors of a model of another library."""

from __future__ import annotations

import json
import os
import time
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, Never

from graphexec import errors, messages
from graphexec.messages import FinishReason, ModelReply, ModelRequest, ReplyDelta
from graphexec.models.http.dialect import Piece, Sampling
from graphexec.models.http.endpoint import Endpoint, Provider
from graphexec.models.http.failures import classify_response, timeout_error
from graphexec.models.http.json_bodies import conversation, instructions, stop_strings, write
from graphexec.models.http.json_values import JSON
from graphexec.models.http.remote import ClosableModel
from graphexec.models.http.stop_cutter import StopCutter
from graphexec.models.providers.openai_compatible import encode
from graphexec.models.secret import is_secret_name, remove_secrets, to_secret
from graphexec.runtime.io import IO
from graphexec.runtime.threads import NotDone

NOTHING: JSON = {}
_REASONS: dict[str, FinishReason] = {
    **dict.fromkeys(("stop", "end_turn", "stop_sequence"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "model_context_window_exceeded"), "length"),
    **dict.fromkeys(("tool_calls", "tool_call", "tool_use", "function_call"), "tool_calls"),
}


# Any: a module of a package that may be missing, and whose types are not known then.
def require(module: str, extra: str) -> Any:
    """Return a module. Raises `InputError` that names the extra if its package is missing."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if (error.name or "").partition(".")[0] != package:
            raise
        raise errors.InputError(
            f"the package of {package} is missing; install it with pip install 'graphexec-agents[{extra}]'"
        ) from None


class BridgedModel(ClosableModel):
    """A model of another library, `kind`. Its clients are not closed, and retries and limits of replies are theirs.

    A blocking call with a `timeout` ends in time; a blocking stream at the first piece behind it.
    """

    # Any: objects of the library, here and below.
    def __init__(self, client: Any, kind: str, name: str, provider: str, *key_holders: Any) -> None:
        self._client = client
        self.name = name
        self.provider = provider
        # Of reasoning that only this library can send back.
        self._origin = f"{kind} {provider}"
        options = f"the options of {kind}"
        own = Provider("", options, options, kind=f"that of {kind}", hint="if it has one", example="https://host/v1")
        known = tuple(one for one in map(to_secret, _secrets_of(*key_holders)) if one is not None)
        self._endpoint = Endpoint(name or kind, kind, provider=own, others=known)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def __reduce_ex__(self, _: object) -> Never:
        raise errors.SecretError(
            f"{self!r} cannot be pickled or copied, since it has a client; make it where it is used"
        )

    @abstractmethod
    async def _ask(self, request: ModelRequest, timeout: float | None, io: IO, /) -> ModelReply: ...

    @abstractmethod
    def _pieces(self, request: ModelRequest, timeout: float | None, io: IO, /) -> AsyncGenerator[Piece, None]: ...

    async def _complete(self, request: ModelRequest, timeout: float | None, io: IO) -> ModelReply:
        call = partial(self._ask, request, timeout, io)
        try:
            with self._errors(timeout):
                reply = await call() if timeout is None else await io.within(call, timeout)
                if isinstance(reply, NotDone):
                    raise TimeoutError
                return _cut(reply, StopCutter(stop_strings(request)))
        except errors.ModelError as error:
            remove_secrets(error, self._endpoint.secrets)
            raise

    async def _stream(self, request: ModelRequest, timeout: float | None, io: IO) -> AsyncGenerator[Piece, None]:
        cutter, left = StopCutter(stop_strings(request)), timeout
        try:
            with self._errors(timeout):
                async with aclosing(self._pieces(request, timeout, io)) as pieces:
                    while True:
                        began = io.now()
                        async with io.timeout(left):
                            piece = await anext(pieces, None)
                        left = None if left is None else left - (io.now() - began)
                        if piece is None:
                            break
                        if left is not None and left <= 0:
                            raise TimeoutError
                        for shown in _show(piece, cutter):
                            yield shown
        except errors.ModelError as error:
            remove_secrets(error, self._endpoint.secrets)
            raise

    async def _close(self, io: IO) -> None:
        """Do nothing: the client belongs to the user."""

    @contextmanager
    def _errors(self, timeout: float | None) -> Generator[None, None, None]:
        """Convert an exception of the library to a `ModelError`."""
        try:
            yield
        except errors.GraphexecError:
            raise
        except Exception as error:  # noqa: BLE001 - a library may raise any
            # It has the request, and may quote the reply.
            raise self._explain(error, timeout) from None

    def _explain(self, error: Exception, timeout: float | None) -> errors.ModelError:
        endpoint = self._endpoint
        fact = f"{type(error).__name__}: {endpoint.quote(str(error))}"
        names: set[str] = set()
        for one in _causes(error):
            status, headers, body = _response_of(one)
            if status is not None:
                return classify_response(endpoint, status, headers, body, now=time.time()).error
            names |= {base.__name__ for base in type(one).__mro__}
        if any(name.endswith(("Timeout", "TimeoutError")) for name in names):
            if timeout is not None:
                return timeout_error(endpoint, timeout)
            return errors.ModelTimeoutError(
                f"{endpoint} did not answer in time ({fact}); allow its client a longer timeout"
            )
        if any(name.endswith(("ConnectionError", "ConnectError", "TransportError")) for name in names):
            return errors.ModelConnectionError(
                f"the connection to {endpoint} failed ({fact}); check its address and network"
            )
        if names & {"UnexpectedModelBehavior", "ValidationError", "JSONDecodeError"}:
            return self.invalid_reply(f"sent a reply that cannot be read ({fact})")
        if isinstance(error, NotImplementedError):
            return errors.BadRequestError(f"{endpoint} has no such calls ({fact}); use create_structured_agent")
        return errors.ModelError(f"{endpoint} failed ({fact}); see what its library says of this error")

    # Any: messages of the library, and their JSON.
    def restore(
        self,
        request: ModelRequest,
        history: list[Any],
        is_reply: Callable[[Any], bool],
        load: Callable[[Any], Any],
        read: Callable[[Any], ModelReply],
    ) -> None:
        """Replace the replies in a history by the whole messages that this bridge kept in their reasoning.

        Reasoning of another provider is left out, and that of a reply whose text or calls differ in the history.
        """
        places = [place for place, one in enumerate(history) if is_reply(one)]
        replies = [one for one in conversation(request) if isinstance(one, messages.AssistantMessage)]
        for place, message in zip(places, replies, strict=True) if len(places) == len(replies) else ():
            for part in message.reasoning:
                if part.data and part.provider == self._origin:
                    own = load(json.loads(part.data))
                    if _same(read(own), read(history[place])):
                        history[place] = own

    def make_reply(
        self,
        content: str | None,
        calls: Sequence[tuple[str | None, str | None, object]],
        counts: Sequence[int | None],
        reason: object,
        model: str | None,
        thoughts: str | None,
        data: Any,
    ) -> ModelReply:
        """Return a reply. `calls` are ids, names and arguments; `data` is the message, if there is more in it."""
        if not all(name for _, name, _ in calls):
            raise self.invalid_reply("sent a tool call without a name")
        made = [
            messages.ToolCall(call_id or f"call_{place}", name or "", to_json(arguments))
            for place, (call_id, name, arguments) in enumerate(calls)
        ]
        finish: FinishReason = _REASONS.get(str(reason).lower(), "other") if reason else "stop"
        kept = "" if data is None else json.dumps(data, default=str)
        return ModelReply(
            content or "",
            tuple(made),
            messages.Usage(*(count or 0 for count in counts)),
            "tool_calls" if calls and finish == "stop" else finish,
            model or "",
            reasoning=(messages.Reasoning(thoughts or "", kept, self._origin),) if thoughts or kept else (),
        )

    def invalid_reply(self, fact: str) -> errors.InvalidReplyError:
        """Return the error for a reply that cannot be read."""
        return errors.InvalidReplyError(f"{self._endpoint} {fact}; try again, or look at its library")


def _cut(reply: ModelReply, cutter: StopCutter) -> ModelReply:
    """Return a reply without the text behind the first stop string, and without the calls behind that."""
    text = cutter.take(reply.content) + cutter.rest()
    return replace(reply, content=text, tool_calls=(), finish_reason="stop") if cutter.done else reply


def _show(piece: Piece, cutter: StopCutter) -> Iterator[Piece]:
    if isinstance(piece, ModelReply):
        rest = cutter.rest()
        yield from [ReplyDelta(rest)] if rest else []
        yield _cut(piece, StopCutter(cutter.stops))
    elif piece.content:
        text = cutter.take(piece.content)
        yield from [replace(piece, content=text)] if text else []
    elif piece.index is None or not cutter.done:
        yield piece


def _causes(error: BaseException | None) -> Iterator[Any]:
    """Yield an exception and its causes; libraries wrap those of their clients."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


# Any: an exception of any client, here and below.
def _response_of(error: Any) -> tuple[int | None, Mapping[str, str], bytes]:
    """Return the status, the headers and the body of the response that an exception reports, as far as it has them."""
    response = getattr(error, "response", None)
    body = getattr(error, "body", None)
    found = [getattr(error, "status_code", None), getattr(response, "status_code", None), getattr(error, "code", None)]
    match response:
        case {"ResponseMetadata": {"HTTPStatusCode": status}}:
            # Of AWS, whose message is in the exception's text.
            found.append(status)
        case _:
            pass
    status = next((one for one in found if isinstance(one, int) and one in range(400, 600)), None)
    headers: Any = getattr(response, "headers", None) or getattr(error, "headers", None) or NOTHING
    if isinstance(body, dict) and "error" not in body:
        body = {"error": body}  # pyright: ignore[reportUnknownVariableType]
    text = json.dumps(body, default=str) if isinstance(body, dict) else body or str(error)
    return status, headers, str(text).encode(errors="replace")


def prepare(request: ModelRequest, model: str, *, has_schema: bool) -> JSON:
    """Return the body of a request for chat completions, with one system message, which is the first.

    The schema of the reply is in that message, unless the library `has_schema` of its own.
    """
    history, system = conversation(request), instructions(conversation(request))
    options: JSON = {"stop": stop_strings(request)}
    if isinstance(request, messages.ChatRequest):
        options |= {"tools": request.tools, "tool_choice": request.tool_choice}
        if request.schema is not None and has_schema:
            options["schema"] = request.schema
        elif request.schema is not None:
            shape = json.dumps(request.schema, default=dict)
            system = f"{system}\n\nReply only with JSON that follows this schema: {shape}".lstrip()
    said = [one for one in history if not isinstance(one, messages.SystemMessage)]
    chat = messages.ChatRequest([*([messages.SystemMessage(system)] if system else []), *said], **options)
    return json.loads(write(encode(chat, Sampling(model), stream=False)))  # type: ignore[no-any-return]


def to_json(arguments: object) -> str:
    """Return the arguments of a call, which may be a string of JSON already."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments or {})


def _same(kept: ModelReply, sent: ModelReply) -> bool:
    ids = ([call.id for call in reply.tool_calls] for reply in (kept, sent))
    return kept.content == sent.content and next(ids) == next(ids)


def _secrets_of(*owners: Any) -> Iterator[object]:
    """Yield the keys in the environment, and those among the attributes of objects: `api_key`, and secret strings."""
    yield from (value for name, value in os.environ.items() if is_secret_name(name))
    for owner in owners:
        yield getattr(owner, "api_key", None)
        yield from (value for value in getattr(owner, "__dict__", {}).values() if hasattr(value, "get_secret_value"))
