"""The values that a run returns, with an answer of a type that only the run's executor knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, final

from graphexec.messages.images import ANSWER_KIND, dump_with_images, restore_images

# A function that needs pydantic-core imports it, because `import graphexec` should not.
if TYPE_CHECKING:
    from pydantic_core import core_schema


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
        self.typed, self.dump, self.form = typed, dump, form

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
    if not isinstance(values, TypedValues):
        return {name: dump_with_images(value) for name, value in values.items()}
    return {
        name: values.stored() if name == values.typed else dump_with_images(value) for name, value in values.items()
    }


# Any: JSON data.
def _restore(data: dict[str, Any]) -> dict[str, Any]:
    for name, one in data.items():
        match one:
            case {"kind": "graphexec.answer", "data": stored, **others} if not others:
                form: StoredForm = "data"
            case {"kind": "graphexec.answer", "text": stored, **others} if not others:
                form = "text"
            case _:
                continue
        kept = {key: restore_images(value) for key, value in data.items() if key != name}
        return TypedValues({key: stored if key == name else kept[key] for key in data}, name, form=form)
    return {name: restore_images(one) for name, one in data.items()}


@final
class _Stored:
    """How pydantic stores the values: as JSON data, with a mark at the typed one."""

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> core_schema.CoreSchema:
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(
            _restore,
            core_schema.dict_schema(core_schema.str_schema()),
            serialization=core_schema.plain_serializer_function_ser_schema(_dump, when_used="json"),
        )


# The values that a run returns, by name. A resumed run has their JSON data, and the images in their places.
ReturnValues: TypeAlias = Annotated[Mapping[str, Any], _Stored()]
