"""The values that a run is started with and returns, as JSON data from which they are read back as they were."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, final

from graphexec.messages.conversation import AssistantMessage, SystemMessage, ToolMessage, UserMessage
from graphexec.messages.images import (
    ANSWER_KIND,
    DATA_KIND,
    DEEPEST,
    OWN_KINDS,
    VALUE_KIND,
    Image,
    dump_with_images,
    restore_object,
)

# A function that needs pydantic-core imports it, because `import graphexec` should not.
if TYPE_CHECKING:
    from pydantic_core import core_schema


# Their modules are loaded where a value is stored.
@cache
def _named() -> Mapping[str, type]:
    """Return the types of values that JSON lacks, and that are read back from what pydantic makes of them, by name."""
    from datetime import date, datetime, time, timedelta
    from decimal import Decimal
    from uuid import UUID

    scalars = (bytes, date, datetime, time, timedelta, float, Decimal, UUID, complex)
    return {kind.__name__: kind for kind in (*scalars, SystemMessage, UserMessage, AssistantMessage, ToolMessage)}


_COLLECTIONS: Mapping[str, type[Any]] = {kind.__name__: kind for kind in (tuple, set, frozenset, dict)}
_SAME = frozenset[type]({str, int, bool, type(None)})


# Any: a type adapter; the module is imported where it is used.
@cache
def _adapter(kind: type[Any]) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


# Any: values of any class, and JSON data, here and below.
def dump_value(value: Any, depth: int = 0) -> Any:
    """Return a value as JSON data from which `restore_value` restores it, with the types that JSON lacks.

    Only a value of another type than those of this module is read back as its JSON. Raises `ValueError` as
    `dump_with_images` does.
    """
    if depth > DEEPEST:
        raise ValueError(f"it is nested more than {DEEPEST} levels deep")
    kind: Any = value.__class__
    if kind in _SAME or (kind is float and math.isfinite(value)):
        return value
    if kind is list:
        return [dump_value(one, depth + 1) for one in value]
    if kind is dict and all(type(name) is str for name in value):
        is_like_own = value.get("kind") in OWN_KINDS
        members = {name: dump_value(one, depth + 1 + is_like_own) for name, one in value.items()}
        return {"kind": DATA_KIND, "data": members} if is_like_own else members
    data: Any
    if kind is float:
        # pydantic writes null.
        data = str(value)
    elif kind in _named().values():
        data = _adapter(kind).dump_python(value, mode="json")
    elif kind in _COLLECTIONS.values():
        items = [[name, one] for name, one in value.items()] if kind is dict else value
        data = [dump_value(one, depth + 2) for one in items]
    else:
        return dump_with_images(value)
    return {"kind": VALUE_KIND, "type": kind.__name__, "data": data}


def restore_value(data: Any) -> Any:
    """Return the value that `dump_value` has dumped. Raises `ValueError` for data of no such value."""
    match data:
        case [*items]:
            return [restore_value(one) for one in items]
        case {"kind": "graphexec.value", "type": str(name), "data": stored, **others} if not others:
            if name in _COLLECTIONS:
                return _COLLECTIONS[name]([restore_value(one) for one in stored])
            if name not in _named():
                raise ValueError(f"it has a value of the unknown type {name}")
            return _adapter(_named()[name]).validate_python(stored)
        case {**members}:
            restored = restore_object(members)
            if isinstance(restored, Image):
                return restored
            return {name: restore_value(one) for name, one in restored.items()}
        case _:
            return data


@final
class Stored:
    """How pydantic stores a value: `dump` makes its JSON data, and `restore` reads them."""

    def __init__(self, dump: Callable[[Any], Any], restore: Callable[[Any], Any]) -> None:
        self._dump, self._restore = dump, restore

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> core_schema.CoreSchema:
        from pydantic_core import core_schema

        serialization = core_schema.plain_serializer_function_ser_schema(self._dump, when_used="json")
        return core_schema.no_info_plain_validator_function(self._restore, serialization=serialization)


# The stored form of an instance: its JSON data, or the text that it was read from.
StoredForm: TypeAlias = Literal["data", "text"]


@final
class TypedValues(dict[str, Any]):
    """The return values of a run by name. The one named `typed` is an instance of a type.

    `dump` returns its stored form. In a stored run, `form` says which form stands in the place of the instance.
    """

    __slots__ = ("dump", "form", "typed")

    def __init__(
        self,
        values: Mapping[str, Any],
        typed: str,
        *,
        dump: Callable[[Any], tuple[StoredForm, Any]] | None = None,
        form: StoredForm | None = None,
    ) -> None:
        super().__init__(values)
        self.typed, self.dump = typed, dump
        self.form: StoredForm | None = form

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        # The functions of a type cannot be pickled.
        return dict, (dict(self),)

    def with_values(self, values: Mapping[str, Any]) -> TypedValues:
        """Return other values of the same type."""
        return TypedValues(values, self.typed, dump=self.dump, form=self.form)

    def stored(self) -> dict[str, Any]:
        """Return the stored form with its mark. Raises `ValueError` if the instance has none."""
        value = self[self.typed]
        form, stored = (self.form, value) if self.dump is None else self.dump(value)
        return {"kind": ANSWER_KIND, str(form): stored}


def _dump(values: Mapping[str, Any]) -> dict[str, Any]:
    typed = values.typed if isinstance(values, TypedValues) else None
    return {
        name: values.stored() if isinstance(values, TypedValues) and name == typed else dump_value(value)
        for name, value in values.items()
    }


# Any: JSON data.
def _restore(data: Any) -> dict[str, Any]:
    if not isinstance(data, dict):
        # pydantic reports no other error.
        raise ValueError("it is not an object")  # noqa: TRY004
    members: dict[str, Any] = data  # pyright: ignore[reportUnknownVariableType] - the keys of a JSON object are strings
    for name, one in members.items():
        match one:
            case {"kind": "graphexec.answer", "data": stored, **more} if not more:
                form: StoredForm = "data"
            case {"kind": "graphexec.answer", "text": stored, **more} if not more:
                form = "text"
            case _:
                continue
        others = {key: restore_value(value) for key, value in members.items() if key != name}
        return TypedValues({key: stored if key == name else others[key] for key in members}, name, form=form)
    return {name: restore_value(one) for name, one in members.items()}


# Any value that a caller passes: a resumed run has the same, or it is not stored.
Value: TypeAlias = Annotated[Any, Stored(dump_value, restore_value)]

# The values that a run returns, by name. A resumed run has the same, or it is not stored; the executor makes the
# instance of an output type again.
ReturnValues: TypeAlias = Annotated[Mapping[str, Any], Stored(_dump, _restore)]


@final
class Original:
    """An action as the library of its agent has it: a `value`, or the `data` that a snapshot stored of one.

    `dump` makes JSON data of the value. What made the action makes it again of the data; nothing here knows its class.
    """

    __slots__ = ("_dump", "data", "value")

    # Any: an object of a library that is not a dependency, and JSON data.
    def __init__(self, value: Any = None, dump: Callable[[Any], Any] | None = None, *, data: Any = None) -> None:
        self._dump = dump
        self.value = value
        self.data = data

    def dump(self) -> Any:
        """Return the action as JSON data. Raises `ValueError` for a part that JSON cannot express."""
        return self.data if self._dump is None else self._dump(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Original) and self.dump() == other.dump()

    def __hash__(self) -> int:
        return hash(Original)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> core_schema.CoreSchema:
        """Dump as JSON data, and load from them without restoring the class."""
        return Stored(cls.dump, lambda data: cls(data=data)).__get_pydantic_core_schema__(source, handler)
