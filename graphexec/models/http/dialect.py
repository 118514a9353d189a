"""A dialect: one protocol of model servers, as a value that a provider's own client is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from graphexec.errors import BadRequestError
from graphexec.messages import AssistantMessage, ChatRequest, CompletionRequest, Message, ModelRequest, ToolSpec
from graphexec.models.history import HistoryForm, distinct_calls
from graphexec.models.http.draft import Draft
from graphexec.models.http.json_bodies import encode_messages, merge_bodies, to_chat, tool_choice_of
from graphexec.models.http.json_values import JSON
from graphexec.models.http.refusals import Member, Repair

# The options of a model under the names that a body has for them.
OPTIONS = ("model", "temperature", "max_tokens", "top_p", "seed", "reasoning_effort")

# Members that each request writes, and that are there for the request rather than for the model.
_REQUEST_WRITES_IT = "each request writes it; leave it out"
# A model that must not call tools is told so in any case.
TOOL_CHOICE = Member(
    "tool_choice",
    kept=("none", {"type": "none"}),
    remedy="pass tool_choice to create_tool_calling_agent, or in a ChatRequest",
)


def written(path: str, *, refusable: bool = False, aliases: tuple[str, ...] = ()) -> Member:
    """Return a member that each request writes itself."""
    return Member(path, refusable=refusable, remedy=_REQUEST_WRITES_IT, aliases=aliases)


def option(name: str, path: str = "", *, instead: str = "", aliases: tuple[str, ...] = ()) -> Member:
    """Return the member with the value of an option, which a server may refuse; the path is by default its name."""
    return Member(path or name, name, instead=instead, aliases=aliases)


@dataclass(frozen=True, slots=True)
class Sampling:
    """The settings of a model for all requests; `None` is the server's default. `max_tokens` bounds a reply.

    `extra_body` has further members of the body. `provider` is the name of the provider, whose reasoning is sent back.
    """

    model: str
    temperature: float | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    seed: int | None = None
    reasoning_effort: str | None = None
    extra_body: Mapping[str, Any] | None = None
    provider: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One protocol: how its requests are written, and its replies read.

    A provider's own client is a dialect, the `Draft` that it names, and a `RemoteModel` with the dialect and the
    `Provider`; sending, retries, limits, secrets, and what a server refuses are the same for all.
    """

    # The class of the drafts, which read replies.
    draft: type[Draft]
    # What a body may have: the options by their places, and what a server may refuse or `extra_body` may not set.
    members: tuple[Member, ...]
    # Returns the path below the base URL, with its query, if it has one, for a request to the model of this name, which
    # may ask for a stream.
    route: Callable[[ModelRequest, str, bool], str]
    # Returns the headers with the API key, if there is one: by default that of OpenAI and most other servers.
    headers: Callable[[str], dict[str, str]] = lambda key: {"Authorization": f"Bearer {key}"} if key else {}
    # The member with the conversation, and what writes a part of it: its beginning, a turn, or all of it. A turn begins
    # with a message of the assistant, and has the results of its calls.
    conversation: str = "messages"
    write_messages: Callable[[Sequence[Message], HistoryForm], list[JSON]]
    # Returns the members beside the conversation: instructions, tools, stop strings, a schema. `None` is not sent; so
    # `"model": None` leaves out the model, which a body has otherwise.
    write_others: Callable[[ChatRequest, Sampling], JSON]
    # Returns the members for a tool choice: `none`, `required` or the name of a tool.
    write_choice: Callable[[str], JSON]
    # Returns the members of a completion; without it, that is sent as a message of the user.
    write_completion: Callable[[CompletionRequest], JSON] | None = None
    # Returns the form of the calls in a history.
    form: Callable[[Sampling], HistoryForm] = lambda _: HistoryForm()
    # The members that ask for a stream.
    streaming: JSON = field(default_factory=lambda: {"stream": True})
    # Bounds a reply if the user does not; `None` is the server's default.
    max_tokens: int | None = None
    # The other forms of a request that a server may demand.
    repairs: tuple[Repair, ...] = ()

    def encode(self, request: ModelRequest, sampling: Sampling, *, stream: bool) -> JSON:
        """Return the body of the POST.

        Raises `BadRequestError` if the protocol cannot express the request, and for a tool choice that the request does
        not offer.
        """
        extra = sampling.extra_body or {}
        if isinstance(request, CompletionRequest) and self.write_completion is not None:
            sampling = replace(sampling, reasoning_effort=None)
            extra = {name: value for name, value in extra.items() if name != "tools"}
            asked = self.write_completion(request)
        else:
            asked = self._encode_chat(to_chat(request), sampling)
        body: JSON = {"model": sampling.model, **asked, **(self.streaming if stream else {})}
        for member in self.members:
            value = getattr(sampling, member.option, None)
            if value is not None:
                outer, _, inner = member.path.partition(".")
                body[outer] = {**(body.get(outer) or {}), inner: value} if inner else value
        return merge_bodies(body, extra)

    def _encode_chat(self, chat: ChatRequest, sampling: Sampling) -> JSON:
        names = frozenset(tool.name for tool in chat.tools)
        form = replace(self.form(sampling), names=names, provider=sampling.provider)
        messages, write = distinct_calls(chat.messages, form), self.write_messages

        def write_apart(part: Sequence[Message]) -> list[JSON] | None:
            items = write(part, form)
            return items if not form.alternates or _is_apart(part, items) else None

        sent = encode_messages(messages, (write, form), write_apart) or write(messages, form)
        if form.alternates and not sent:
            raise BadRequestError(
                f"{sampling.model} has no message to answer: all but the system's are blank; add a user message "
                "with text"
            )
        choice = tool_choice_of(chat, sampling.model)
        chosen = {} if choice is None else self.write_choice(choice)
        return {self.conversation: sent, **self.write_others(chat, sampling), **chosen}

    @property
    def options(self) -> frozenset[str]:
        """The options that the protocol has."""
        return frozenset(["model", "max_tokens", *(member.option for member in self.members if member.option)])

    def remedies(self, *absent: str) -> dict[str, str]:
        """Return what to write instead of the members that `extra_body` may not set, by their paths.

        Those of `absent` options it may set, too.
        """
        options = {name: f"pass {name}" for name in OPTIONS if name in self.options and name not in absent}
        members = {one.path: one.remedy or options.get(one.option, "") for one in self.members}
        return {"stream": _REQUEST_WRITES_IT, **options, **{path: one for path, one in members.items() if one}}


def _is_apart(part: Sequence[Message], items: Sequence[JSON]) -> bool:
    """Return whether a part of a conversation need not be joined with what stands around it, where roles alternate."""
    if not items or items[-1]["role"] != "user":
        return False
    return items[0]["role"] != "user" or not isinstance(part[0], AssistantMessage)


def describe_tool(tool: ToolSpec) -> JSON:
    """Return a tool as OpenAI's protocols describe a function."""
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
