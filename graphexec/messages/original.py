"""An action in the classes of another library, which a snapshot stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

# A function that needs pydantic-core imports it, because `import graphexec` should not.
if TYPE_CHECKING:
    from pydantic_core import core_schema


@final
class Original:
    """An action as the library of its agent has it. A snapshot stores it, and a resumed run restores its class."""

    __slots__ = ("_data", "_value")

    # Any: an object of a library that is not a dependency, or JSON data.
    def __init__(self, value: Any = None, data: Any = None) -> None:
        self._value = value
        self._data = data

    @property
    def value(self) -> Any:
        """The action. Raises `SnapshotError` if it was stored and its class is not loaded."""
        if self._value is None:
            from graphexec.messages.foreign import restore_original

            self._value = restore_original(self._data)
        return self._value

    def dump(self) -> Any:
        """Return the action as JSON data. Raises `ValueError` for a part that JSON cannot express."""
        from graphexec.messages.foreign import dump_original

        return dump_original(self._value) if self._data is None else self._data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Original) and self.dump() == other.dump()

    def __hash__(self) -> int:
        return hash(Original)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> core_schema.CoreSchema:
        """Dump as JSON data, and load from them without restoring the class."""
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            lambda data: cls(data=data), serialization=core_schema.plain_serializer_function_ser_schema(cls.dump)
        )
