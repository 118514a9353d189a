"""Actions and messages of LangChain's agents as JSON data, which a snapshot stores."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from typing import Any

from graphexec.errors import SnapshotError, an

# The mark of an object and of a dictionary in JSON data; neither can be mistaken for the other.
_OBJECT, _DICT = "class", "items"
_OWN = f"{__name__.partition('.')[0]}."


def dump_original(value: object) -> Any:
    """Return an object and those in it as JSON data. Raises `ValueError` for a part that JSON cannot express."""
    # Any: a value of a class that is not known here.
    held: Any = value
    # mypy does not take a class for hashable.
    kind: Any = type(value)
    fields = _fields_of(kind)
    if fields is not None:
        # Messages of pydantic may have fields beyond those of their class.
        names = [*fields, *(getattr(value, "model_extra", None) or ())]
        parts = {name: dump_original(getattr(value, name)) for name in names}
        # Other libraries may export a class only once it is used, which a later process may not have done.
        module = _public_module(kind) if kind.__module__.startswith(_OWN) else kind.__module__
        return {_OBJECT: f"{module}:{kind.__qualname__}", "fields": parts}
    if isinstance(value, Mapping):
        return {_DICT: {str(name): dump_original(one) for name, one in held.items()}}
    if isinstance(value, (list, tuple)):
        return [dump_original(one) for one in held]
    import pydantic_core

    return pydantic_core.to_jsonable_python(value)


def _public_module(kind: type) -> str:
    """Return the outermost of our packages that exports a class, or else its own module."""
    parts = kind.__module__.split(".")
    packages = (".".join(parts[:count]) for count in range(1, len(parts)))
    exporting = (name for name in packages if kind.__qualname__ in getattr(sys.modules[name], "__all__", ()))
    return next(exporting, kind.__module__)


# Any: JSON data.
def restore_original(data: Any) -> Any:
    """Return the object of these data. Raises `SnapshotError` for a class that is not loaded, or that refuses them."""
    held: Any = data
    if isinstance(data, list):
        return [restore_original(one) for one in held]
    if not isinstance(data, dict):
        return data
    if _DICT in held:
        return {name: restore_original(one) for name, one in held[_DICT].items()}
    kind = _find_class(held[_OBJECT])
    try:
        return kind(**{name: restore_original(one) for name, one in held["fields"].items()})
    except (TypeError, ValueError) as error:
        raise SnapshotError(f"the stored fields do not make {an(kind.__name__)}: {error}") from error


def _find_class(name: str) -> type:
    """Return a loaded class of actions or messages. A snapshot imports nothing, and makes no other object."""
    module, _, path = name.partition(":")
    # Any: a module, then its members.
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        # Not with `getattr`, which may import a module.
        found = getattr(found, "__dict__", {}).get(part)
    kind: type = found if isinstance(found, type) else object
    fields = _fields_of(kind)
    if fields is None or not ({"tool", "tool_input"} <= {*fields} or "content" in fields):
        raise SnapshotError(
            f"the run has an action of the class {module}.{path}, which this program has not loaded; import it, or "
            "the agent that uses it, before you resume the run"
        )
    return kind


def _fields_of(kind: Any) -> tuple[str, ...] | None:
    """Return the names of the fields of a dataclass or of a pydantic model; `None` for any other class."""
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind) if field.init)
    fields: Any = getattr(kind, "model_fields", None)
    names: Any = fields
    return tuple(map(str, names)) if isinstance(fields, Mapping) else None
