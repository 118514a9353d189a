"""The model, agent, tools and memory that the options of `run` select."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from graphexec.agents import Agent, WorkedExample, create_structured_agent
from graphexec.agents.structured import STRUCTURED_PROMPT
from graphexec.cli.exit_codes import UsageError
from graphexec.cli.targets import tools_at
from graphexec.create import make_agent_of_kind
from graphexec.errors import InputError
from graphexec.executor.options import AgentKind
from graphexec.messages import Image, Model
from graphexec.messages.images import MOST_IMAGE_BYTES
from graphexec.runtime.files import read_regular
from graphexec.tools import AnyTool, tools_by_name
from graphexec.tools.everyday import EVERYDAY_TOOLS

if TYPE_CHECKING:
    from graphexec.memory import TokenWindowMemory
    from graphexec.models import ModelOptions

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

# The input key that memories provide and agents read, and the conversation in the database of `--memory`.
_HISTORY_KEY, CONVERSATION = "chat_history", "chat"


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


def make_model(name: str | None, base_url: str | None, options: ModelOptions | None = None) -> ChosenModel:
    """Make the named model, by default the built-in one, without downloading its weights.

    Raises `UsageError`, and `InputError` for an unknown name.
    """
    from graphexec.models import OpenAICompatible
    from graphexec.models.http.endpoint import OPENAI, has_scheme
    from graphexec.models.local.weights import CATALOGUE, DEFAULT
    from graphexec.models.naming import create_model, has_native_tool_calls, split_name
    from graphexec.models.provider_names import LOCAL

    of_server: ModelOptions = options or {}
    if base_url is not None:
        if name is None:
            raise UsageError("--base-url needs the name of a model of that server; add --model NAME")
        if not has_scheme(base_url.strip()):
            # Do not print the address: there may be a password in it.
            raise UsageError("--base-url begins with neither http:// nor https://; write the full URL of the server")
        # The whole name is the server's: `mistral:7b` is not a model of Mistral's then.
        server = OpenAICompatible(name, base_url=base_url, **of_server)
        return ChosenModel(server, f"{name} at {server.provider}", local=False)
    named = DEFAULT if name is None else name.strip()
    # A name alone may be that of local weights, or one of OpenAI's known models.
    before = f"{LOCAL}:" if named in CATALOGUE else "openai:" if has_native_tool_calls("openai", named) else ""
    provider, model = split_name(f"{before}{named}")
    if provider == LOCAL:
        if "max_retries" in of_server:
            raise UsageError("--retries applies to a server, and this model is local; leave it out")
        of_local: ModelOptions = {"max_tokens": _LONGEST, **of_server}
        weights = model if model in CATALOGUE else None
        client = create_model(f"{before}{named}", **of_local)
        return ChosenModel(client, model, local=True, weights=weights, full_name=f"{before}{named}")
    client = create_model(f"{before}{named}", **of_server)
    elsewhere = provider == "openai" and os.environ.get(OPENAI.base_url_variable)
    shown = f"{named} at {getattr(client, 'provider', '')}" if elsewhere else named
    return ChosenModel(client, shown, local=False, full_name=f"{before}{named}")


def load_tools(references: Sequence[str]) -> tuple[AnyTool, ...]:
    """Load the named tools, or the built-in ones.

    Raises `UsageError`, and `ToolDefinitionError` if two tools have the same name.
    """
    if not references:
        return EVERYDAY_TOOLS
    return tuple(tools_by_name([tool for reference in references for tool in tools_at(reference)]).values())


def load_image(reference: str) -> Image:
    """Return the image at this address or in this file. Raises `UsageError`."""
    try:
        if "://" in reference or reference.startswith("data:"):
            return Image(reference)
        return Image.from_bytes(read_regular(reference, most=MOST_IMAGE_BYTES))
    except OSError as error:
        fact = f"{error.strerror}; --image takes a file or an https:// address"
    except InputError:
        fact = "it is not an image; --image takes a file of PNG, JPEG, GIF or WebP, or an https:// address"
    raise UsageError(f"{reference} cannot be used: {fact}")


def make_agent(kind: AgentKind, model: Model, tools: Sequence[AnyTool], system: str | None = None) -> Agent:
    """Make the agent of that kind; `system` is text. The structured agent shows examples of the built-in tools."""
    if kind != "structured" or not tools or not all(tool in EVERYDAY_TOOLS for tool in tools):
        return make_agent_of_kind(kind, model, tools, system)
    names = [tool.name for tool in tools]
    examples = [one for one in EVERYDAY_EXAMPLES if all(tool in names for tool, _, _ in one.calls)]
    # The prompt is a template.
    before = "" if system is None else system.replace("{", "{{").replace("}", "}}") + "\n\n"
    return create_structured_agent(model, tools, prompt=before + STRUCTURED_PROMPT, examples=examples)


def make_memory(agent: Agent, file: Path | None) -> TokenWindowMemory | None:
    """Make the memory of a conversation, in that file if there is one; the agent sees the last part of it.

    An agent that takes no earlier messages has none. Raises `UsageError` if a file is named for such an agent, and
    `InputError` for an invalid file and for one that cannot be written.
    """
    from graphexec.memory import MemoryHistory, SQLiteHistory, TokenWindowMemory
    from graphexec.models.provider_names import LOCAL

    # A function as an agent gets whatever inputs there are.
    keys = [_HISTORY_KEY] if agent.function is not None else [*agent.optional_keys]
    as_messages = bool(keys)
    keys += [key for key in agent.input_keys if key == _HISTORY_KEY]
    if not keys:
        if file is None:
            return None
        raise UsageError(
            f"--memory is not for the {agent.kind} agent, whose prompt has no chat history; choose another --agent, "
            "such as tool_calling"
        )
    tokens = _REMEMBERED_LOCALLY if getattr(agent.model, "provider", "") == LOCAL else _REMEMBERED
    history = MemoryHistory() if file is None else SQLiteHistory(file, conversation=CONVERSATION)
    # The file is checked now, before a download or a run.
    history.turns()
    return TokenWindowMemory(tokens, history=history, key=keys[0], as_messages=as_messages)
