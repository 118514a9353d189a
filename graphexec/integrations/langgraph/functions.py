"""What the functions of a graph say: their targets in annotations and bytecode, and what they count.

Bytecode is there without source files, as in notebooks, and takes no parsing.
"""

from __future__ import annotations

import dis
import functools
import sys
import sysconfig
import types
import typing
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from graphexec.kernel.signatures import unwrap_function

# Any: users' functions and methods, which have bytecode, and runnables that hold them.
Function: TypeAlias = Callable[..., Any]

# What returns the values that a function names.
Named: TypeAlias = Callable[[Function], list[Any]]

_FUNCTIONS = (types.FunctionType, types.MethodType)

# The fields in which runnables and tools hold their functions.
_HELD = ("func", "afunc", "coroutine")

# Operations that take an element, and those that take a part of a list.
_SUBSCRIPTS = ("BINARY_SUBSCR", "BINARY_OP")
_SLICES = ("BINARY_SLICE", "BUILD_SLICE")

# Values without attributes of the user.
_PLAIN = (type(None), str, int, float, types.FunctionType, types.BuiltinFunctionType)

# What makes agents and graphs.
_MAKERS = frozenset({"create_agent", "create_react_agent", "create_deep_agent", "StateGraph"})

# The folders of code that is not the user's.
_INSTALLED = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))


def runnables_of(runnable: Any) -> list[Any]:
    """Return a runnable and those in its fields, such as the steps of a sequence, but not in graphs and tools."""
    kind: Any = sys.modules["langchain_core.runnables"].Runnable
    graph: Any = sys.modules["langgraph.pregel.protocol"].PregelProtocol
    found = [runnable]
    for one in found:
        fields: Mapping[str, Any] = getattr(one, "__dict__", {})
        if isinstance(one, graph) or any(fields.get(name) for name in _HELD):
            continue
        inner = [member for value in fields.values() for member in _members(value) if isinstance(member, kind)]
        found += [member for member in inner if not any(member is other for other in found)]
    return found


def functions_of(runnable: Any) -> list[Function]:
    """Return the functions that a runnable calls, without wrappers, bound arguments and instances."""
    found: dict[Function, None] = {}
    for one in runnables_of(runnable):
        for held in [one, *(getattr(one, "__dict__", {}).get(name) for name in _HELD)]:
            function = unwrap_function(held) if callable(held) else None
            if function is not None and not hasattr(function, "__code__"):
                # A method of the object has the object's attributes.
                function = types.MethodType(getattr(type(function), "__call__"), function)  # noqa: B004, B009
            # Those of extension modules cannot be read.
            if hasattr(function, "__code__"):
                found |= dict.fromkeys([cast("Function", function)])
    return list(found)


def functions_called(function: Function, named: Named) -> list[Function]:
    """Return a function and those that it may call: all of the user, or for one of a package those of its module."""
    if _is_installed(function):
        return [function, *_helpers(function)]
    found: dict[Function, None] = {function: None}
    pending = [function]
    for one in pending:
        values = [unwrap_function(value) for value in named(one) if isinstance(value, _FUNCTIONS)]
        called: dict[Function, None] = {
            other: None for other in values if isinstance(other, _FUNCTIONS) and not _is_installed(other)
        }
        pending += [other for other in called if other not in found]
        found |= called
    return [*found]


def _is_installed(function: Function) -> bool:
    return function.__code__.co_filename.startswith(_INSTALLED)


def named_in(function: Function) -> list[Any]:
    """Return the values that a function names, and their attributes that it names."""
    names = {name for code in _codes_in(function.__code__) for name in code.co_names}
    cells: list[types.CellType] = [*(getattr(function, "__closure__", None) or ())]
    scope: Mapping[str, Any] = getattr(function, "__globals__", {})
    holder: Any = getattr(function, "__self__", None)
    defaults: list[Any] = [*(getattr(function, "__defaults__", None) or ())]
    defaults += (getattr(function, "__kwdefaults__", None) or {}).values()
    # A cell may be empty yet.
    values = [cell.cell_contents for cell in cells if cell != types.CellType()]
    values += [*(scope[name] for name in names if name in scope), *defaults]
    attributes = [
        _attribute(owner, name) for owner in (holder, *values) if not isinstance(owner, _PLAIN) for name in names
    ]
    return [*values, *attributes, *getattr(holder, "__dict__", {}).values()]


def _attribute(owner: Any, name: str) -> Any:
    """Return an attribute without running code, and `None` if there is none."""
    # Ten times as fast as `inspect.getattr_static`.
    kinds: tuple[type, ...] = owner.__mro__ if isinstance(owner, type) else type(owner).__mro__
    places: list[Mapping[str, Any]] = [getattr(owner, "__dict__", {}), *(vars(kind) for kind in kinds)]
    found: Any = next((one[name] for one in places if name in one), None)
    if isinstance(found, types.FunctionType) and not isinstance(owner, (type, types.ModuleType)):
        return types.MethodType(found, owner)
    return cast("Any", found).__func__ if type(found) in (staticmethod, classmethod) else found


# Any: a value of the user, alone or in collections.
def _members(value: Any) -> Iterator[Any]:
    # pyright narrows the value to unknown types.
    held: Any = value
    several: list[Any] = [held.values() if isinstance(value, Mapping) else held]
    yield value
    # A list may contain itself.
    seen = set[int]()
    for one in several if isinstance(value, (Mapping, list, tuple, set, frozenset)) else ():
        for member in () if id(one) in seen else one:
            yield member
            if isinstance(member, (list, tuple)):
                several.append(member)
        seen.add(id(one))


def codes_of(function: Function) -> Iterator[types.CodeType]:
    """Yield the code of a function, of functions in it, and of functions of its module that it names."""
    yield from _codes_in(function.__code__, *(one.__code__ for one in _helpers(function)))


def _codes_in(*codes: types.CodeType) -> list[types.CodeType]:
    pending = [*codes]
    for one in pending:
        pending += [constant for constant in one.co_consts if isinstance(constant, types.CodeType)]
    return pending


def _helpers(function: Function) -> list[Function]:
    scope: Mapping[str, Any] = getattr(function, "__globals__", {})
    named = [scope.get(name) for name in function.__code__.co_names]
    return [one for one in named if isinstance(one, types.FunctionType) and one.__globals__ is scope]


@dataclass(frozen=True, slots=True)
class Use:
    """What a function, and those that it calls, use.

    - `values` are variables, attributes and defaults, also those in collections.
    - `commands` has a member for each kind of `Command(goto=...)`: whether it names a graph, such as the parent.
    - `makes` names the functions with which it makes agents or graphs.
    - `updates` is true for a `Command(update=...)` without a target, after which a run may end.
    """

    # Any: values of the user.
    values: list[Any]
    commands: set[bool]
    updates: bool
    makes: list[str]


def use_of(function: Function, named: Named = named_in) -> Use:
    """Return what a function uses. `named` may be a cache of `named_in`, as functions share those that they call."""
    called = functions_called(function, named)
    values = [one for each in called for value in named(each) for one in _members(value)]
    codes = [code for each in called for code in _codes_in(each.__code__)]
    # The names of keyword arguments are a constant.
    constants = [constant for code in codes for constant in code.co_consts]
    tuples: list[Any] = [one for one in constants if isinstance(one, tuple)]
    names = [set[Any](one) for one in tuples]
    commands = {"graph" in one for one in names if "goto" in one}
    commands |= {one.graph is not None for one in values if type(one).__name__ == "Command" and one.goto}
    updates = any("update" in one and one <= {"update", "graph"} for one in names)
    own = [] if _is_installed(function) else codes
    return Use(values, commands, updates, sorted({name for code in own for name in code.co_names} & _MAKERS))


def arguments_of(runnable: Any) -> list[Any]:
    """Return the arguments that are bound to the functions of a runnable."""
    partials = [getattr(one, "__dict__", {}).get(name) for one in runnables_of(runnable) for name in _HELD]
    return [
        value for one in partials if isinstance(one, functools.partial) for value in (*one.args, *one.keywords.values())
    ]


def return_hint(function: Function) -> Any:
    """Return the annotation of what a function returns; `None` if it cannot be evaluated."""
    try:
        return typing.get_type_hints(function).get("return")
    # Annotations may raise anything.
    except Exception:  # noqa: BLE001
        return None


def targets_in(hint: Any, within: type | None = None) -> set[str] | None:
    """Return the names in the literals of an annotation, also in unions and lists; `None` if others are possible.

    With `within`, only the argument of this class counts: `Command[Literal["a"]] | None`.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if within is not None and origin is within:
        return targets_in(arguments[0])
    if origin is Literal and within is None:
        return set(arguments)
    found = [targets_in(one, within) for one in arguments]
    known = [one for one in found if one is not None]
    return set[str]().union(*known) if known and (within is not None or len(known) == len(found)) else None


# Any: a constant, or an argument of an instruction. A dictionary has its keys in one constant.
def _as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)  # pyright: ignore[reportUnknownVariableType]


def _lines(function: Function, keys: AbstractSet[str], needed: str = "") -> Iterator[tuple[set[str], set[str]]]:
    """Yield, for each line that uses them, keys of state and its operations, with those that its variables had.

    Code without the operation that is `needed` is not read.
    """
    for code in codes_of(function):
        names = [name for one in (*code.co_consts, *code.co_names) for name in _as_tuple(one)]
        lines = defaultdict[Any, tuple[set[str], set[str]]](lambda: (set(), set()))
        stored: dict[str, tuple[set[str], set[str]]] = {}
        idle = keys.isdisjoint(names) or (needed and dis.opmap[needed] not in code.co_code[::2])
        before: Any = None
        for one in () if idle else dis.get_instructions(code):
            place = one.positions
            line = lines[place and place.lineno]
            if one.opname == "CALL" and place is not None and place.lineno is not None:
                # A call may have several lines.
                for other in range(place.lineno + 1, (place.end_lineno or 0) + 1):
                    line[0].update(lines[other][0])
                    line[1].update(lines[other][1])
            if one.opname in _SUBSCRIPTS and one.argrepr in ("", "[]") and isinstance(before, (int, slice)):
                line[1].update(("BUILD_SLICE", "int") if isinstance(before, slice) else ("element",))
            before = one.argval if one.opname.startswith("LOAD_") else None
            values = _as_tuple(one.argval)
            if one.opname.startswith("STORE_FAST"):
                stored |= dict.fromkeys(values, line)
            for value in values:
                # A variable stands for what was stored in it.
                found, operations = stored.get(value, line) if "FAST" in one.opname else ({value}, {value})
                line[0].update(keys & found)
                line[1].update(operations & {"len", "element"})
            if one.opname in ("LOAD_CONST", "LOAD_SMALL_INT"):
                line[1].add(type(one.argval).__name__)
            line[1].add(one.argrepr.strip("=") if one.opname == "BINARY_OP" else one.opname)
        yield from lines.values()


def keys_compared(function: Function, keys: AbstractSet[str], lists: AbstractSet[str]) -> set[str]:
    """Return the keys of state that it compares: numbers, and the lengths of `lists`, but not of their elements."""
    compared = [line for line in _lines(function, keys, "COMPARE_OP") if "COMPARE_OP" in line[1]]
    return {
        key
        for found, operations in compared
        for key in found
        if key not in lists or ("len" in operations and "element" not in operations)
    }


def keys_counted(function: Function, keys: AbstractSet[str], summed: Iterable[str]) -> set[str]:
    """Return the keys of state that it adds a number to or subtracts one from, or slices, or writes if in `summed`."""
    lines = [
        (found, "int" in operations and not operations.isdisjoint({"+", "-", *_SLICES}))
        for found, operations in _lines(function, keys)
    ]
    return {key for found, counts in lines for key in found if counts or key in {*summed}}
