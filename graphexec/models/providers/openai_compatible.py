"""A model behind an OpenAI-compatible server: OpenAI, llama.cpp, Ollama, vLLM, LM Studio and many others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from graphexec._mistakes import explain_class
from graphexec._mistakes.remedies import MODEL_OPTIONS
from graphexec.messages import AssistantMessage, ChatRequest, Image, Message, ToolMessage, UserMessage
from graphexec.models.history import HistoryForm, returned_reasoning
from graphexec.models.http.dialect import TOOL_CHOICE, Dialect, Sampling, describe_tool, option, written
from graphexec.models.http.json_bodies import instructions, stop_strings, valid_arguments
from graphexec.models.http.json_values import JSON
from graphexec.models.http.refusals import Member
from graphexec.models.http.remote import RemoteModel
from graphexec.models.providers.openai_repairs import MISTRAL_IDS, REPAIRS, take_turns
from graphexec.models.providers.openai_reply import CALL_EXTRAS, REASONING_MEMBERS, ChatStream
from graphexec.models.providers.schemas import plain_schema

# OpenAI refuses longer ids, and Anthropic and Bedrock behind gateways other characters.
_LONGEST_ID = 40
# The families of models whose servers have a dialect of their own, at any address, and the history that they take.
_FAMILIES = {
    "mistral": (
        r"m[ia][sx]tral|magistral|ministral|devstral|codestral|pixtral|voxtral",
        replace(MISTRAL_IDS, alternates=True),
    ),
    # LiteLLM's proxy puts the signature of Gemini's reasoning into the id, and reads it there.
    "gemini": (r"gemini", HistoryForm(_LONGEST_ID, marker="__thought__")),
    # Kimi reads its own ids in the history.
    "kimi": (r"kimi", HistoryForm(_LONGEST_ID, "_.:-")),
}


def _family(sampling: Sampling) -> tuple[str, HistoryForm]:
    """Return the name of a model's family, or an empty one, and the history that it takes."""
    place = f"{sampling.model} {sampling.provider}"
    found = ((name, form) for name, (names, form) in _FAMILIES.items() if re.search(names, place, re.IGNORECASE))
    return next(found, ("", HistoryForm(_LONGEST_ID)))


def _write_messages(messages: Sequence[Message], form: HistoryForm) -> list[JSON]:
    sent = list(_messages(messages, form))
    return take_turns(sent) if form.alternates else sent


def _messages(messages: Sequence[Message], form: HistoryForm) -> Iterator[JSON]:
    """Yield the messages; those with the results of one turn are followed by a user message with the images in them.

    The content of a tool message is text only (OpenAI's API reference, "Create chat completion").
    """
    if system := instructions(messages):
        # One at the beginning: the templates of many models refuse others.
        yield {"role": "system", "content": system}
    names: dict[str, str] = {}
    images: list[JSON] = []
    for message in form.fitted(messages):
        if images and not isinstance(message, ToolMessage):
            yield {"role": "user", "content": images}
            images = []
        match message:
            case UserMessage(content, ()):
                yield {"role": "user", "content": content}
            case UserMessage(content, shown):
                # The text is last: a ReAct prompt ends with the words that the model continues.
                yield {"role": "user", "content": [*map(_image, shown), *([_text(content)] if content else [])]}
            case AssistantMessage(content, calls):
                names = {call.id: call.name for call in calls}
                if calls or content.strip():
                    # An empty one is refused.
                    yield _reply(message, form)
            case ToolMessage(call_id, content, found):
                yield {"role": "tool", "tool_call_id": call_id, "content": content}
                if found:
                    images += [_text(f"The images in the result of {names.get(call_id, 'the tool')} ({call_id}):")]
                    images += [_image(image) for image in found]
    if images:
        yield {"role": "user", "content": images}


def _reply(message: AssistantMessage, form: HistoryForm) -> JSON:
    calls = message.tool_calls
    if not calls:
        return {"role": "assistant", "content": message.content}
    sent_calls: list[JSON] = [
        {"id": one.id, "type": "function", "function": {"name": one.name, "arguments": valid_arguments(one.arguments)}}
        for one in calls
    ]
    sent: JSON = {"role": "assistant", "content": message.content or None, "tool_calls": sent_calls}
    for data in returned_reasoning(message, form.provider).values():
        sent |= {name: value for name, value in data.items() if name in REASONING_MEMBERS}
        extras: dict[str, JSON] = {form.fit_id(one): added for one, added in data.get(CALL_EXTRAS, {}).items()}
        by_place: list[JSON] = list(extras.values()) if len(extras) == len(calls) else [{}] * len(calls)
        for place, call in enumerate(calls):
            sent_calls[place].update(extras.get(call.id, by_place[place]))
    return sent


def _text(content: str) -> JSON:
    return {"type": "text", "text": content}


def _image(image: Image) -> JSON:
    return {"type": "image_url", "image_url": {"url": image.url}}


def _write_others(request: ChatRequest, sampling: Sampling) -> JSON:
    tools: list[JSON] = [{"type": "function", "function": describe_tool(tool)} for tool in request.tools]
    schema = request.schema
    if _family(sampling)[0] == "gemini":
        tools, schema = list(map(plain_schema, tools)), schema and plain_schema(schema)
    body: JSON = {"stop": stop_strings(request) or None, "tools": tools or None}
    if schema is not None:
        # Not `strict`: OpenAI's strict mode rejects schemas that local servers accept (oneOf, optional fields). Its
        # rules are followed where a server demands them.
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}
    return body


def _write_choice(choice: str) -> JSON:
    is_tool = choice not in {"none", "required"}
    return {"tool_choice": {"type": "function", "function": {"name": choice}} if is_tool else choice}


# OpenAI's Chat Completions and Completions.
CHAT_COMPLETIONS = Dialect(
    draft=ChatStream,
    members=(
        *map(written, ("messages", "prompt", "response_format")),
        written("stop", refusable=True),
        option("temperature"),
        option("top_p"),
        option("seed"),
        # OpenAI's reasoning models want the second name, Mistral and older deployments of Azure the first one.
        option("max_tokens", instead="max_completion_tokens"),
        Member("max_completion_tokens", remedy="pass max_tokens, which is sent under the name that the server accepts"),
        option("reasoning_effort", aliases=("effort",)),
        TOOL_CHOICE,
        Member("stream_options", aliases=("include_usage",)),
        *(Member(f"messages.*.{name}") for name in REASONING_MEMBERS),
        Member("n", remedy="one reply is read; leave it out", refusable=False),
        Member("stream_options.include_usage", remedy="a limit on tokens needs it; leave it out", refusable=False),
    ),
    route=lambda request, _model, _stream: "chat/completions" if isinstance(request, ChatRequest) else "completions",
    write_messages=_write_messages,
    write_others=_write_others,
    write_choice=_write_choice,
    write_completion=lambda request: {"prompt": request.prompt, "stop": stop_strings(request) or None},
    form=lambda sampling: _family(sampling)[1],
    # Without this option a stream has no usage, and a limit on tokens would not work.
    streaming={"stream": True, "stream_options": {"include_usage": True}},
    repairs=REPAIRS,
)


@explain_class("OpenAICompatible('gpt-5-mini')", options=MODEL_OPTIONS)
class OpenAICompatible(RemoteModel):
    """A model that is called with OpenAI's Chat Completions and Completions protocols.

    `base_url` is the server's address, which begins with `http://` or `https://` and usually ends with `/v1`. The
    default is the environment variable `OPENAI_BASE_URL`, or else OpenAI's own server. The default of `api_key` is
    `OPENAI_API_KEY`; a server on this machine needs no key, and for another server without keys pass `api_key=""`. It
    may be a `Secret`, or a `SecretStr` of pydantic, and is never shown.

    The defaults of `temperature`, `top_p`, `seed`, `reasoning_effort` (such as "low") and `max_tokens` (of the reply)
    are the server's. `extra_body` has further members of the request, `extra_headers` further headers, which replace
    those of the same name. Objects in `extra_body` are merged with those of the request, and lists are joined; members
    that the request or another option writes are refused. If a server refuses an option, stop strings, a schema or the
    order of the messages, the call is repeated at once without them or in another form, the model remembers it, and
    reports it as `OptionRefused`; replies are cut before the first stop string in any case.

    `timeout` bounds a call in seconds, with all its attempts and the waits between them, whatever the server sends, or
    does not send; the `timeout` of a call may shorten it. A rate limit, a server error or a broken connection is
    retried up to `max_retries` times, after the wait that the server asks for, unless that is more than 60 s or than
    the time left. A reply of more than `max_reply_bytes` is a `ReplyLimitError`, and not retried.

    A `client` or `async_client` that you pass (an `httpx.Client`, or one like it) is not closed. With an `async_client`
    the `timeout` holds as well. A `client` of your own bounds each wait for the server by the time left when the
    attempt began, and the time is checked between the pieces of a body: a server that stalls in the middle of its reply
    can take twice the `timeout`, and one that sends its headers byte by byte longer. Raises `InputError` for an invalid
    option; every failure of a call is a `ModelError`. Threads and event loops may share a model.
    """

    _dialect = CHAT_COMPLETIONS
