"""What the functions of a graph say: their targets in annotations and bytecode, and what they count.

Bytecode is there without source files, as in notebooks, and takes no parsing.
"""

from __future__ import annotations

import dis
import types
import typing
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Literal, TypeAlias

from graphexec.kernel.signatures import unwrap_function

# Any: users' functions and methods, which have bytecode, and runnables that hold them.
Function: TypeAlias = Callable[..., Any]


def functions_of(runnable: Any) -> list[Function]:
    """Return the functions that a runnable calls, without wrappers, bound arguments and instances."""
    steps = getattr(runnable, "steps", None)
    if isinstance(steps, list):
        return [function for step in steps for function in functions_of(step)]  # pyright: ignore[reportUnknownVariableType]
    held = [one for name in ("func", "afunc", "coroutine") if (one := getattr(runnable, name, None))]
    found = [unwrap_function(one) for one in held or [runnable] if callable(one)]
    called = [one if hasattr(one, "__code__") else getattr(type(one), "__call__") for one in found]  # noqa: B004, B009
    # Those of extension modules cannot be read.
    return [one for one in dict.fromkeys(called) if hasattr(one, "__code__")]


def codes_of(function: Function) -> Iterator[types.CodeType]:
    """Yield the code of a function, of functions in it, and of functions of its module that it names."""
    scope: Mapping[str, Any] = getattr(function, "__globals__", {})
    named = [scope.get(name) for name in function.__code__.co_names]
    helpers = [one for one in named if isinstance(one, types.FunctionType) and one.__globals__ is scope]
    pending: list[types.CodeType] = [function.__code__, *(one.__code__ for one in helpers)]
    for one in pending:
        yield one
        pending += [constant for constant in one.co_consts if isinstance(constant, types.CodeType)]


def values_of(function: Function) -> list[Any]:
    """Return what a function may use: variables of outer functions and of its module, and its object's attributes."""
    cells: list[types.CellType] = [*(getattr(function, "__closure__", None) or ())]
    scope: Mapping[str, Any] = getattr(function, "__globals__", {})
    attributes: Mapping[str, Any] = getattr(getattr(function, "__self__", None), "__dict__", {})
    # A cell may be empty yet.
    values = [cell.cell_contents for cell in cells if cell != types.CellType()]
    return [*values, *(scope[name] for name in function.__code__.co_names if name in scope), *attributes.values()]


def commands_in(function: Function) -> set[bool]:
    """Return whether its calls of `Command(goto=...)` name a graph, such as the parent: one member for each kind."""
    # The names of keyword arguments are a constant.
    names: list[Any] = [one for code in codes_of(function) for one in code.co_consts if isinstance(one, tuple)]
    return {"graph" in one for one in names if "goto" in one}


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
        for one in () if idle else dis.get_instructions(code):
            line = lines[one.positions and one.positions.lineno]
            values = _as_tuple(one.argval)
            if one.opname.startswith("STORE_FAST"):
                stored |= dict.fromkeys(values, line)
            for value in values:
                # A variable stands for what was stored in it.
                found, operations = stored.get(value, line) if "FAST" in one.opname else ({value}, {value})
                line[0].update(keys & found)
                line[1].update(operations & {"len"})
            if one.opname in ("LOAD_CONST", "LOAD_SMALL_INT"):
                line[1].add(type(one.argval).__name__)
            line[1].add(one.argrepr.strip("=") if one.opname == "BINARY_OP" else one.opname)
        yield from lines.values()


def keys_compared(function: Function, keys: AbstractSet[str], lists: AbstractSet[str]) -> set[str]:
    """Return the keys of state that it compares: numbers, and the lengths of `lists`."""
    compared = [line for line in _lines(function, keys, "COMPARE_OP") if "COMPARE_OP" in line[1]]
    return {key for found, operations in compared for key in found if "len" in operations or key not in lists}


def keys_counted(function: Function, keys: AbstractSet[str], summed: Iterable[str]) -> set[str]:
    """Return the keys of state that it adds a number to or subtracts one from, and those of `summed` that it writes."""
    lines = [
        (found, "int" in operations and not operations.isdisjoint("+-")) for found, operations in _lines(function, keys)
    ]
    return {key for found, counts in lines for key in found if counts or key in {*summed}}
