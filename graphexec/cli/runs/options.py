"""The model, agent, tools and memory that the options of `run` select."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict

from graphexec.agents import (
    Agent,
    WorkedExample,
    create_chat_agent,
    create_conversational_agent,
    create_json_chat_agent,
    create_mrkl_agent,
    create_structured_agent,
    create_structured_chat_agent,
    create_xml_agent,
)
from graphexec.agents.structured import STRUCTURED_PROMPT
from graphexec.cli.exit_codes import UsageError
from graphexec.cli.files import unwritable
from graphexec.cli.targets import tools_at
from graphexec.create import REPEAT_RULES, make_agent_of_kind
from graphexec.errors import InputError
from graphexec.messages import Image, Model
from graphexec.messages.images import MOST_IMAGE_BYTES
from graphexec.runtime.files import open_private, read_regular
from graphexec.tools import AnyTool, tools_by_name
from graphexec.tools.everyday import EVERYDAY_TOOLS

if TYPE_CHECKING:
    from graphexec.memory import FileHistory, TokenWindowMemory

# Worked examples for the tools of `EVERYDAY_TOOLS`, with numbers that are seldom asked for.
EVERYDAY_EXAMPLES: tuple[WorkedExample, ...] = (
    WorkedExample("What is 317 * 46?", (("calculator", {"expression": "317 * 46"}, "14582"),), "14582"),
    WorkedExample("What day is it today?", (("today", {}, "Tuesday, 2025-03-04"),), "Tuesday, 2025-03-04"),
    WorkedExample(
        "I have 17 bags with 43 coins each. How many coins do I have?",
        (("calculator", {"expression": "17 * 43"}, "731"),),
        "731",
    ),
    WorkedExample("638*47", (("calculator", {"expression": "638 * 47"}, "29986"),), "29986"),
)

# Tokens of one reply: a confused small model does not stop before its limit.
_LONGEST = 256
# Estimated tokens of an earlier conversation: leaves space for a few steps in the 4,096 of a local model. Those of
# providers have more.
_REMEMBERED_LOCALLY, _REMEMBERED = 1_500, 16_000

# The default number of retries of a failed request.
_RETRIES = 2
# The input key that memories provide and agents read.
HISTORY_KEY = "chat_history"

# Without the self-ask agent, which needs a tool of its own.
AgentName: TypeAlias = Literal[
    "structured", "tool_calling", "react", "mrkl", "conversational", "chat", "structured_chat", "json_chat", "xml"
]


class ReplyOptions(TypedDict, total=False):
    """The options of a model's replies, which every model has; `timeout` is in seconds."""

    temperature: float
    max_tokens: int
    timeout: float


@dataclass(frozen=True, slots=True)
class ChosenModel:
    """A model, its name, whether it runs on this computer, and the named weights that it needs, if any.

    `full_name` is the name if it has a provider, such as `openai:gpt-5-mini`.
    """

    model: Model
    name: str
    local: bool
    weights: str | None = None
    full_name: str | None = None


def make_model(
    name: str | None,
    base_url: str | None,
    gguf: Path | None,
    *,
    retries: int | None = None,
    cache: Path | None = None,
    settings: ReplyOptions | None = None,
) -> ChosenModel:
    """Make the model of the options, by default the built-in one, without downloading its weights.

    Raises `UsageError`, and `InputError` for a file that is not a cache.
    """
    chosen = _choose_model(name, base_url, gguf, retries, settings or {})
    if cache is None:
        return chosen
    from graphexec.models import SQLiteCache, cached

    return replace(chosen, model=cached(chosen.model, SQLiteCache(cache)))


def _choose_model(
    name: str | None, base_url: str | None, gguf: Path | None, retries: int | None, settings: ReplyOptions
) -> ChosenModel:
    local: ReplyOptions = {"max_tokens": _LONGEST, **settings}
    from graphexec.models import LocalModel, OpenAICompatible
    from graphexec.models.http.endpoint import has_scheme
    from graphexec.models.local.weights import CATALOGUE, DEFAULT

    if gguf is not None:
        if name is not None or base_url is not None:
            raise UsageError("--gguf runs a file on this computer; leave out --model and --base-url")
        _refuse_retries(retries)
        if not gguf.is_file():
            raise UsageError(f"there is no file {gguf}; --gguf takes the path of a GGUF file")
        return ChosenModel(LocalModel(gguf, **local), gguf.name, local=True)
    # Do not print the address: there may be a password in it.
    if base_url is not None and not has_scheme(base_url.strip()):
        raise UsageError(
            "--base-url begins with neither http:// nor https://; write the full URL, such as http://127.0.0.1:8080/v1"
        )
    if name is None and base_url is not None:
        raise UsageError("--base-url needs the name of a model of that server; add --model NAME")
    if name is not None and not name.strip():
        raise UsageError("--model is empty; write a provider and its model, such as --model openai:gpt-5-mini")
    named = DEFAULT if name is None else name
    if base_url is None and named in CATALOGUE:
        _refuse_retries(retries)
        return ChosenModel(LocalModel(model=named, **local), named, local=True, weights=named)
    if base_url is not None:
        # The whole name is the server's: `mistral:7b` is not a model of Mistral's then.
        server = OpenAICompatible(named, base_url=base_url, max_retries=_attempts(retries), **settings)
        return ChosenModel(server, f"{named} at {_host(base_url)}", local=False)
    return _name_model(named, retries, settings)


def _host(address: str) -> str:
    """Return the host and port of an address, without the name and the password before them."""
    return re.split(r"[/?#]", address.partition("//")[2], maxsplit=1)[0].rpartition("@")[2]


def _name_model(name: str, retries: int | None, settings: ReplyOptions) -> ChosenModel:
    from graphexec.models.http.endpoint import OPENAI, has_scheme
    from graphexec.models.local.weights import CATALOGUE
    from graphexec.models.naming import create_model, has_native_tool_calls, has_provider, split_name
    from graphexec.models.provider_names import LOCAL, find_provider

    if has_scheme(name.strip()):
        # The address may contain a password.
        raise UsageError("--model is an address; give the name of the model, and the address with --base-url")
    # A name alone may be one of OpenAI's known models.
    full_name = f"openai:{name.strip()}" if has_native_tool_calls("openai", name.strip()) else name
    try:
        provider, model = split_name(full_name)
        if provider != LOCAL:
            client = create_model(full_name, max_retries=_attempts(retries), **settings)
            address = os.environ.get(OPENAI.base_url_variable) if provider == "openai" else None
            shown = f"{name} at {_host(address)}" if address else name
            return ChosenModel(client, shown, local=False, full_name=full_name)
        _refuse_retries(retries)
        local: ReplyOptions = {"max_tokens": _LONGEST, **settings}
        client = create_model(full_name, **local)
    except InputError as error:
        if (owner := find_provider(name.partition(":")[0])) in _ADDRESSES:
            service, remedy = _ADDRESSES[owner]
            raise UsageError(f"--model is {name!r}, and {service} needs an address of its own; {remedy}") from error
        otherwise = "" if has_provider(name) else "; or name its server with --base-url"
        raise UsageError(f"--{error}{otherwise}") from error
    return ChosenModel(client, model, local=True, weights=model if model in CATALOGUE else None, full_name=name)


# The services whose address differs for each customer, and what to write instead.
_ADDRESSES = {
    "azureopenai": (
        "Azure",
        "write --model DEPLOYMENT --base-url https://RESOURCE.openai.azure.com/openai/v1, and set OPENAI_API_KEY to "
        "its key",
    ),
    "bedrock": (
        "Bedrock",
        "write --model NAME --base-url https://bedrock-runtime.REGION.amazonaws.com/openai/v1, and set OPENAI_API_KEY "
        "to its key",
    ),
    "vertexai": ("Vertex AI", "write --model gemini:NAME, and set GEMINI_API_KEY to a key of the Gemini API"),
}


def _attempts(retries: int | None) -> int:
    return _RETRIES if retries is None else retries


def _refuse_retries(retries: int | None) -> None:
    if retries is not None:
        raise UsageError("--retries applies to a server, and this model is local; leave it out")


def fetch_weights(chosen: ChosenModel) -> None:
    """Download the weights that the model needs, with a progress bar. Raises `WeightsError`."""
    if chosen.weights is not None:
        from graphexec.models.local.weights import pull

        pull(chosen.weights)


def load_tools(references: Sequence[str]) -> tuple[AnyTool, ...]:
    """Load the named tools, or the built-in ones.

    Raises `UsageError`, and `ToolDefinitionError` if two tools have the same name.
    """
    if not references:
        return EVERYDAY_TOOLS
    return tuple(tools_by_name([tool for reference in references for tool in tools_at(reference)]).values())


def load_images(references: Sequence[str]) -> tuple[Image, ...]:
    """Load the images at these addresses and in these files. Raises `UsageError`."""
    return tuple(map(_load_image, references))


def _load_image(reference: str) -> Image:
    try:
        if "://" in reference or reference.startswith("data:"):
            return Image(reference)
        return Image.from_bytes(read_regular(reference, most=MOST_IMAGE_BYTES))
    except OSError as error:
        fact = f"{error.strerror}; --image takes a file or an https:// address"
    except InputError:
        fact = "it is not an image; --image takes a file of PNG, JPEG, GIF or WebP, or an https:// address"
    raise UsageError(f"{reference} cannot be used: {fact}")


def make_agent(
    name: AgentName,
    model: Model,
    tools: Sequence[AnyTool],
    *,
    system: str | None = None,
    examples: Sequence[WorkedExample] | None = None,
) -> Agent:
    """Make the agent of that name; `system` is text, and only the structured agent shows worked `examples`."""
    match name:
        case "structured":
            prompt = f"{_escape(system)}{STRUCTURED_PROMPT}"
            if examples is not None:
                return create_structured_agent(model, tools, prompt=prompt, examples=examples)
            if not tools or not all(tool in EVERYDAY_TOOLS for tool in tools):
                return create_structured_agent(model, tools, prompt=prompt)
            names = [tool.name for tool in tools]
            everyday = [one for one in EVERYDAY_EXAMPLES if all(tool in names for tool, _, _ in one.calls)]
            return create_structured_agent(model, tools, prompt=prompt, examples=everyday)
        case "tool_calling" | "react":
            return make_agent_of_kind(name, model, tools, system)
        case _:
            factory = _FACTORIES[name]
            prompt = f"{_escape(system)}{signature(factory).parameters['prompt'].default}"
            return replace(factory(model, tools, prompt=prompt), rules=REPEAT_RULES)


def _escape(system: str | None) -> str:
    """Return instructions as the beginning of a template."""
    return "" if system is None else system.replace("{", "{{").replace("}", "}}") + "\n\n"


_FACTORIES: Mapping[str, Callable[..., Agent]] = {
    "mrkl": create_mrkl_agent,
    "conversational": create_conversational_agent,
    "chat": create_chat_agent,
    "structured_chat": create_structured_chat_agent,
    "json_chat": create_json_chat_agent,
    "xml": create_xml_agent,
}


def make_memory(agent: Agent, file: Path | None) -> TokenWindowMemory | None:
    """Make the memory of a conversation, in that file if there is one; the agent sees the last part of it.

    An agent that takes no earlier messages has none. Raises `UsageError` if a file is named for such an agent and for a
    file that cannot be written, and `InputError` for an invalid file.
    """
    from graphexec.memory import MemoryHistory, TokenWindowMemory
    from graphexec.models.provider_names import LOCAL

    # A function as an agent gets whatever inputs there are.
    keys = [HISTORY_KEY] if agent.function is not None else [*agent.optional_keys]
    as_messages = bool(keys)
    keys += [key for key in agent.input_keys if key == HISTORY_KEY]
    if not keys:
        if file is None:
            return None
        raise UsageError(
            f"--memory is not for the {agent.kind} agent, whose prompt has no chat history; choose another --agent, "
            "such as tool_calling"
        )
    tokens = _REMEMBERED_LOCALLY if getattr(agent.model, "provider", "") == LOCAL else _REMEMBERED
    history = MemoryHistory() if file is None else _open_history(file)
    return TokenWindowMemory(tokens, history=history, key=keys[0], as_messages=as_messages)


def _open_history(file: Path) -> FileHistory:
    """Return the conversation in a file. Raises `UsageError` if it cannot be written, `InputError` if it is invalid."""
    from graphexec.memory import FileHistory

    try:
        history = FileHistory(file)
        # Check this now, before a download or a run.
        FileIO(history.path, "ab", opener=open_private).close()
        history.turns()
    except OSError as error:
        raise unwritable(file, error) from error
    return history
