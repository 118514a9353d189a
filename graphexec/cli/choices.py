"""What `run` is made of: the model, the agent and the tools that the options choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from graphexec.agents import Agent, create_react_agent, create_structured_agent, create_tool_calling_agent
from graphexec.agents.everyday import EVERYDAY_EXAMPLES
from graphexec.cli.exits import UsageFault
from graphexec.cli.references import tools_at
from graphexec.messages import Model
from graphexec.tools import AnyTool
from graphexec.tools.everyday import EVERYDAY_TOOLS

# Tokens of one reply. A small model that has lost the thread goes on for as long as it may.
_LONGEST = 256

AgentName: TypeAlias = Literal["structured", "tool_calling", "react"]


@dataclass(frozen=True, slots=True)
class ChosenModel:
    """A model, what it is called, and whether it runs on this machine."""

    model: Model
    name: str
    local: bool


def chosen_model(name: str | None, base_url: str | None, gguf: Path | None) -> ChosenModel:
    """Make the model that the options mean; the built-in one where they say nothing.

    The weights of a named local model are fetched here, with their own progress bar, before there is a run to watch.
    Raises `UsageFault`, and `WeightsError` if they cannot be had.
    """
    if gguf is not None:
        if name is not None or base_url is not None:
            raise UsageFault("--gguf runs a file on this machine; leave out --model and --base-url")
        if not gguf.is_file():
            raise UsageFault(f"there is no file {gguf}; --gguf takes the path of a GGUF file")
        from graphexec.models import LocalModel

        return ChosenModel(LocalModel(gguf, max_tokens=_LONGEST), gguf.name, local=True)
    from graphexec.models.endpoint import has_scheme

    # Not shown: there may be a password in it.
    if base_url is not None and not has_scheme(base_url.strip()):
        raise UsageFault(
            "--base-url begins with neither http:// nor https://; write it whole, such as http://127.0.0.1:8080/v1"
        )
    if name is None and base_url is not None:
        raise UsageFault("--base-url needs the name of a model of that server; add --model NAME")
    from graphexec.models import LocalModel, OpenAICompatible
    from graphexec.models.weights import CATALOGUE, DEFAULT, pull

    named = DEFAULT if name is None else name
    if base_url is None and named in CATALOGUE:
        return ChosenModel(LocalModel(pull(named), max_tokens=_LONGEST), named, local=True)
    # Without a name and password in it.
    where = f" at {urlsplit(base_url).netloc.rpartition('@')[2]}" if base_url else ""
    return ChosenModel(OpenAICompatible(named, base_url=base_url), f"{named}{where}", local=False)


def chosen_tools(references: Sequence[str]) -> tuple[AnyTool, ...]:
    """Load the tools that were named, or return the built-in ones. Raises `UsageFault`."""
    if not references:
        return EVERYDAY_TOOLS
    return tuple(tool for reference in references for tool in tools_at(reference))


def made_agent(name: AgentName, model: Model, tools: Sequence[AnyTool]) -> Agent:
    """Make the agent of that name."""
    match name:
        case "structured":
            known = [tool.name for tool in tools if tool in EVERYDAY_TOOLS]
            examples = [one for one in EVERYDAY_EXAMPLES if all(tool in known for tool, _, _ in one.calls)]
            return create_structured_agent(model, tools, examples=examples)
        case "tool_calling":
            return create_tool_calling_agent(model, tools)
        case "react":
            return create_react_agent(model, tools)
