"""What LangChain's middlewares bound in a graph, and the agents that its tools start."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from graphexec.integrations.declared.declared import Guard
from graphexec.integrations.langgraph.functions import functions_of, use_of

# What a subclass may change without changing what its limits do.
_HARMLESS = frozenset({"name", "state_schema", "tools", "trace_policy", "transformers"})


class CallLimits:
    """The middlewares that limit calls: `guards` bound, `counters` seem to, and `advice` is what would bound.

    A limit on calls of the model counts after each call. `after_model` runs from the last middleware to the first, and
    one that jumps to the model skips those that are left: then nothing is counted.
    """

    # Any: the fields of nodes, and the classes of LangChain, are not typed.
    def __init__(self, specs: Mapping[str, Any], *, is_agent: bool) -> None:
        self.guards: dict[str, Guard] = {}
        self.counters: dict[str, frozenset[str]] = {}
        self.advice: list[str] = []
        # Nothing of LangChain is in the graph if it is not imported.
        library: Any = sys.modules.get("langchain.agents.middleware")
        if library is None:
            return
        model_limit, tool_limit = library.ModelCallLimitMiddleware, library.ToolCallLimitMiddleware
        hooks = {node: _hook_of(spec, library.AgentMiddleware) for node, spec in specs.items()}
        tools = {tool.name for spec in specs.values() for tool in tools_of(spec)}
        jumping = [node for node, hook in hooks.items() if "model" in (getattr(hook, "__can_jump_to__", None) or ())]
        of_tools: dict[str, str] = {}
        for node, hook in hooks.items():
            one: Any = getattr(hook, "__self__", None) if node.endswith(".after_model") else None
            name = type(one).__name__
            if isinstance(one, model_limit):
                self._add(node, one, model_limit)
                if skipping := [other for other in jumping if other.endswith(".after_model")]:
                    self.advice.append(f"put {name} last in middleware=[...]: {' and '.join(skipping)} skips it")
            elif not isinstance(one, tool_limit):
                continue
            elif one.exit_behavior == "continue":
                self.advice.append(f"set exit_behavior='end' of {name}: with 'continue', the model is called again")
            elif one.tool_name is not None:
                of_tools[one.tool_name] = node
                self.advice.append(f"leave tool_name={one.tool_name!r} out of {name}, which counts no other calls")
            elif tools and not jumping:
                # It is entered once more, by the call that it blocks.
                self._add(node, one, tool_limit, more=1)
        if tools and tools <= of_tools.keys():
            # Calls of tools that do not exist are not counted.
            self.counters |= {node: frozenset({f"calls of {tool}"}) for tool, node in of_tools.items()}
        if is_agent and not self.guards:
            self.advice.append("add ModelCallLimitMiddleware(run_limit=20) to the middleware of the agent")

    def _add(self, node: str, one: Any, base: type, more: int = 0) -> None:
        bounds = [(limit, name) for name in ("run_limit", "thread_limit") if (limit := getattr(one, name)) is not None]
        most, which = min(bounds)
        text = f"{type(one).__name__}({which}={most}, exit_behavior={one.exit_behavior!r})"
        kinds = type(one).__mro__
        own = [name for kind in kinds[: kinds.index(base)] for name in vars(kind) if not name.startswith("__")]
        changed = [name for name in own if name not in _HARMLESS and hasattr(base, name)]
        if changed:
            self.counters[node] = frozenset({text})
            self.advice.append(f"let {type(one).__name__} inherit {', '.join(changed)} from {base.__name__}")
        else:
            self.guards[node] = Guard(text, most + more)


def _hook_of(spec: Any, kind: type) -> Any:
    """Return the bound method of a middleware that is a node."""
    methods = [getattr(spec.runnable, name, None) for name in ("func", "afunc")]
    return next((one for one in methods if isinstance(getattr(one, "__self__", None), kind)), None)


def tools_of(spec: Any) -> list[Any]:
    """Return the tools of a node that calls tools."""
    return list(getattr(spec.runnable, "tools_by_name", {}).values())


def agents_in_tools(tools: Iterable[Any]) -> list[str]:
    """Return a text for each agent that a tool may start: one in a variable of its function, or one that it makes."""
    pregel: Any = sys.modules.get("langgraph.pregel")
    found: dict[Any, str] = {}
    for tool in tools:
        for use in map(use_of, functions_of(tool)):
            for value in use.values:
                # A dictionary of unknown types.
                several: dict[Any, Any] = value if isinstance(value, dict) else {"": value}  # pyright: ignore[reportUnknownVariableType]
                for name, one in several.items():
                    if isinstance(one, pregel.Pregel):
                        found.setdefault((id(one), tool.name), f"{name or one.name}, by the tool {tool.name}")
            found |= {text: text for text in texts_of_made(use.makes, f"by the tool {tool.name}")}
    return list(dict.fromkeys(found.values()))


def texts_of_made(makers: Iterable[str], where: str) -> list[str]:
    """Return a text for each agent that a function makes when it runs."""
    return [f"that {maker} makes, {where}" for maker in makers]
