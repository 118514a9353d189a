"""The fingerprint of a machine: the parts on which the meaning of a stored run depends, each by its name."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from enum import EnumType
from functools import cache, lru_cache
from hashlib import sha256
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from graphexec.agents import Agent
from graphexec.draw.model.picture import picture_of
from graphexec.effects import ModelEffect
from graphexec.kernel.graph import Graph, Trait
from graphexec.kernel.signatures import read_reply
from graphexec.runs.entries import encode_constant
from graphexec.tools import AnyTool
from graphexec.tools.tool import Tool


def fingerprint(graph: Graph[Any, Any]) -> Mapping[str, str]:
    """Return a text for each part of a machine: its nodes, its edges, the fields of its classes, its agent, its tools.

    The functions of its nodes and of its tools are no parts: what they do is compared when a run is replayed.
    """
    parts = {"the start": graph.start}
    parts |= {one.name: one.text for one in graph.find_settings(Trait)}
    for node in graph:
        parts[f"the node {node.name}"] = " ".join(
            [
                node.kind,
                *(kind.__name__ for kind in node.takes),
                "costs",
                *(meter.name for meter in node.meters),
                "asks",
                *sorted(one.__name__ for one in node.effects),
            ]
        )
        for effect in node.effects:
            replies = ", ".join(map(_name, read_reply(effect)))
            charges = ", ".join(f"{amount} {meter.name}" for meter, amount in effect.charges.items())
            parts[f"the effect {effect.__name__}"] = f"{_fields(effect)} -> {replies}, for {charges}"
            for one in read_reply(effect):
                parts |= {f"the class {kind.__name__}": _fields(kind) for kind in _classes(one)}
    for edge in graph.edges:
        to = str(getattr(edge.target, "name", edge.target))
        parts[f"the edge {edge.source} --{edge.outcome.__name__}-->"] = " ".join([to, *(m.name for m in edge.resets)])
    for outcome in graph.outcomes.values():
        parts |= {f"the class {kind.__name__}": _fields(kind) for kind in _classes(outcome)}
    for agent in graph.find_settings(Agent):
        # An embedded machine has an agent, too, whose tools may have the same names.
        known: tuple[AnyTool, ...] = agent.tools or ()
        for name, text in (("the agent", agent.kind), *((f"the tool {tool.name}", _tool_text(tool)) for tool in known)):
            parts[name] = f"{parts[name]}, {text}" if name in parts else text
    return parts


def _tool_text(tool: AnyTool) -> str:
    assert isinstance(tool, Tool), "the agent has checked its tools"
    return json.dumps(tool.parameters, sort_keys=True, default=str)


def find_changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the names of the parts that differ, each with what happened to it."""
    changes = [f"{name} is gone" for name in before if name not in now]
    changes += [f"{name} is new" for name in now if name not in before]
    return changes + [f"{name} has changed" for name, text in before.items() if now.get(name, text) != text]


def digest_of(parts: Mapping[str, str]) -> str:
    """Return the digest of a fingerprint."""
    return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


# A service may make a machine for each request.
@lru_cache(maxsize=64)
def describe_machine(graph: Graph[Any, Any]) -> tuple[str, str]:
    """Return the digest of a machine, and what a store keeps of it: its fingerprint, its picture and its costs."""
    parts = fingerprint(graph)
    data = {
        "fingerprint": parts,
        "picture": picture_of(graph).to_data(),
        # What the records of its runs are made of, without its code.
        "nodes": {
            node.name: {
                "costs": [meter.name for meter in node.meters],
                "asks": sorted(kind.__name__ for kind in node.effects),
            }
            for node in graph
        },
        "effects": {
            kind.__name__: {
                "charges": {meter.name: amount for meter, amount in kind.charges.items()},
                "model": issubclass(kind, ModelEffect),
            }
            for node in graph
            for kind in node.effects
        },
        "budgets": dict(graph.own),
    }
    return digest_of(parts), json.dumps(data)


# Any: a class, or an annotation.
def _name(kind: Any) -> str:
    """Return an annotation without modules: a program that is run and one that is imported have the same."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _name(arguments[0])
    if origin is Literal:
        return f"Literal{list(arguments)}"
    if origin in (Union, UnionType):
        return " | ".join(map(_name, arguments))
    name = str(getattr(origin or kind, "__name__", kind))
    return f"{name}[{', '.join(map(_name, arguments))}]" if arguments else name


def _fields(kind: Any) -> str:
    """Return the fields of a class with their annotations."""
    if hasattr(kind, "model_fields"):
        # A default that is not set is not stored.
        return ", ".join(
            f"{name}: {_name(one.annotation)} = {encode_constant(one.default)}"
            for name, one in kind.model_fields.items()
        )
    members: Mapping[str, Any] = getattr(kind, "__members__", {})
    if members:
        return ", ".join(f"{name} = {encode_constant(one.value)}" for name, one in members.items())
    if not dataclasses.is_dataclass(kind):
        return _name(kind)
    # mypy does not take a class for hashable.
    held: Any = kind
    hints: Mapping[str, Any] = _annotations(held)
    return ", ".join(f"{one.name}: {_name(hints.get(one.name, one.type))}" for one in dataclasses.fields(held))


@cache
def _classes(kind: Any) -> tuple[type, ...]:
    """Return the classes with fields that a class or an annotation consists of, itself included."""
    found: dict[type, None] = {}
    open_kinds = [kind]
    while open_kinds:
        # Any: an annotation, or a part of one.
        one: Any = open_kinds.pop()
        open_kinds += get_args(one)
        has_fields = dataclasses.is_dataclass(one) or hasattr(one, "model_fields") or isinstance(one, EnumType)
        if isinstance(one, type) and one not in found and has_fields:
            found[one] = None
            open_kinds += _annotations(one).values()
    return tuple(found)


@cache
def _annotations(kind: Any) -> Mapping[str, Any]:
    try:
        return get_type_hints(kind)
    # A name that only type checkers know.
    except Exception:  # noqa: BLE001 - annotations are evaluated, which may raise anything
        return {}
