"""Create an agent with its executor in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from inspect import signature
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, get_args, overload

from graphexec._arguments import STRING, LangChainObject, optional, validate
from graphexec._mistakes import explain_calls, join_faults, unknown_options
from graphexec._mistakes.remedies import CREATE_AGENT_OPTIONS
from graphexec._parsing import compile_lazily
from graphexec.agents import (
    Agent,
    RuleName,
    create_react_agent,
    create_structured_agent,
    create_tool_calling_agent,
)
from graphexec.agents.prompt import reject_model
from graphexec.agents.react import REACT_PROMPT
from graphexec.agents.structured import STRUCTURED_PROMPT
from graphexec.agents.tool_calling import SYSTEM_PROMPT
from graphexec.errors import InputError, SignatureError, did_you_mean, format_value
from graphexec.executor.executor import AgentExecutor, ExecutorOptions
from graphexec.executor.options import AgentKind, to_model
from graphexec.executor.plugging import Piece, to_pieces
from graphexec.messages import Model
from graphexec.tools import AnyTool, Toolset
from graphexec.tools.collecting import to_tools

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from graphexec.models.functions import ModelFunction

    AnyModel: TypeAlias = Model | LangChainObject | ModelFunction | str
    ToolLike: TypeAlias = AnyTool | Callable[..., Any] | Toolset | LangChainObject

__all__ = ["create_agent"]

_KINDS = ("auto", *get_args(AgentKind))

# The rules of agents without worked examples: a longer run may need a call again that an earlier one has changed.
REPEAT_RULES: tuple[RuleName, ...] = ("no_immediate_repeats",)

# The names of tools that all providers accept: OpenAI's, Anthropic's and Gemini's documentation of tools.
_NATIVE_NAME = compile_lazily(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")


_OPTIONS = tuple(name for name in signature(AgentExecutor).parameters if name not in ("agent", "tools"))


Out = TypeVar("Out")


class CreateOptions(ExecutorOptions, total=False):
    """The options of `create_agent` but its `output_type`."""

    system_prompt: str | None
    kind: AgentKind | Literal["auto"]


# No annotation expresses the types that are no classes, such as `int | str`, for which the answer is `Any`.
@overload
def create_agent(
    model: AnyModel, tools: Iterable[ToolLike] = (), *, output_type: UnionType, **options: Unpack[CreateOptions]
) -> AgentExecutor[Any]: ...
@overload
def create_agent(
    model: AnyModel, tools: Iterable[ToolLike] = (), *, output_type: type[Out], **options: Unpack[CreateOptions]
) -> AgentExecutor[Out]: ...
@overload
def create_agent(
    model: AnyModel, tools: Iterable[ToolLike] = (), *, output_type: object = None, **options: Unpack[CreateOptions]
) -> AgentExecutor[Any]: ...
@explain_calls(
    "create_agent", "create_agent(model, tools, system_prompt=...)", CREATE_AGENT_OPTIONS, more_options=_OPTIONS
)
def create_agent(
    model: AnyModel,
    tools: Iterable[ToolLike] = (),
    *,
    system_prompt: str | None = None,
    kind: AgentKind | Literal["auto"] = "auto",
    output_type: object = None,
    **options: Unpack[ExecutorOptions],
) -> AgentExecutor[Any]:
    """Create an executor of an agent with these tools; run it with `.run("...")`.

    `model` is a model, the name of one, such as `openai:gpt-5-mini`, `ollama:qwen3` or `local` (see
    `graphexec.models.create_model`), or a function from a request to the reply. Functions among the `tools` are made
    tools as by `@tool`. `system_prompt` is text, not a template; it replaces the instructions of the tool-calling agent
    and stands before those of the others, which say how to call tools.

    `kind` is the agent's: `tool_calling` for models with native tool calls, `structured` for all others, `react` for
    plain text. `auto` takes `tool_calling` for models that are known to have such calls, and else `structured`; no
    server is asked. `executor.agent.kind` says which.

    With an `output_type`, such as a pydantic model, a dataclass or `int`, `result.output` is an instance of it; see
    `graphexec.nodes.output_type`. Without tools, `auto` then takes the `tool_calling` agent, whose replies are the
    answer alone.

    Agents do not make a successful call again with the same arguments: the model gets the earlier result. The
    structured agent never does, and the others not until another call was made. Declare a tool
    `@tool(repeatable=True)` if each call may return something else, as a clock does. The default local model must call
    a tool first where a question shows that one is meant (`tool_choice` of `create_structured_agent`).

    The `options` are those of `AgentExecutor`, with another default: `handle_parsing_errors=True`, so that the model
    corrects an invalid reply. Raises `InputError` for an unknown model, kind or option, `ToolDefinitionError` for an
    invalid tool, and what `AgentExecutor` raises.
    """
    known = ("system_prompt", "kind", "output_type", *_OPTIONS)
    if faults := list(unknown_options("create_agent", CREATE_AGENT_OPTIONS, known, options)):
        raise SignatureError(join_faults(faults))
    if kind not in _KINDS:
        near = did_you_mean(kind, _KINDS) if isinstance(kind, str) else ""  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"kind is {format_value(kind)}; {near or 'give ' + ', '.join(_KINDS)}")
    validate("", ("system_prompt", system_prompt, optional(STRING)))
    reject_model(tools)
    client, all_tools = to_model(model), to_tools(tools)
    typed: tuple[Piece, ...] = ()
    if output_type is not None:
        # The pieces, of which few programs need any.
        from graphexec.nodes import output

        typed = (output.output_type(output_type),)
    # The last of the list is the first to see an answer, so the other pieces see the instance.
    nodes = (*to_pieces(options.get("nodes", ())), *typed)
    if kind == "auto" and typed and not all_tools and not any(one.tools for one in nodes):
        # A reply is the answer alone. Small models follow the schema's note better without other instructions.
        kind, system_prompt = "tool_calling", system_prompt or ""
    elif kind == "auto":
        kind = choose_kind(client, all_tools, model if isinstance(model, str) else None)
    if kind == "react" and options.get("memory") is not None:
        raise InputError(
            "memory is for agents with messages, and the react agent of create_agent has one prompt; take "
            "kind='structured', or make the agent with create_react_agent and {chat_history} in its prompt"
        )
    options.setdefault("handle_parsing_errors", True)
    if nodes:
        options["nodes"] = nodes
    return AgentExecutor(agent=make_agent_of_kind(kind, client, all_tools, system_prompt), tools=all_tools, **options)


def make_agent_of_kind(
    kind: AgentKind, model: Model, tools: Sequence[AnyTool], system_prompt: str | None = None
) -> Agent:
    """Make the agent of that kind; `system_prompt` is text."""
    if kind == "tool_calling":
        system = SYSTEM_PROMPT if system_prompt is None else system_prompt
        return create_tool_calling_agent(model, tools, system=system, rules=REPEAT_RULES)
    # The prompts are templates.
    before = "" if system_prompt is None else system_prompt.replace("{", "{{").replace("}", "}}") + "\n\n"
    if kind == "react":
        return replace(create_react_agent(model, tools, prompt=before + REACT_PROMPT), rules=REPEAT_RULES)
    return create_structured_agent(model, tools, prompt=before + STRUCTURED_PROMPT)


def choose_kind(model: Model, tools: Iterable[AnyTool], named: str | None = None) -> AgentKind:
    """Return the kind of agent for a model, which a string may have `named`.

    It is the tool-calling agent if the model is known to call tools natively, and the structured one otherwise, also
    if providers would refuse the name of a tool.
    """
    from graphexec.models.naming import has_native_tool_calls, split_name

    # A user's model need not have these attributes. The string knows the provider also at another address.
    provider, name = (str(getattr(model, key, "")) for key in ("provider", "name"))
    known = [(provider, name), *([] if named is None else [split_name(named)])]
    is_native = any(has_native_tool_calls(*one) for one in known)
    return "tool_calling" if is_native and all(_NATIVE_NAME().fullmatch(tool.name) for tool in tools) else "structured"
