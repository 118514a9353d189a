"""The comparison of a value with what is read back from its JSON, and the place of a part that JSON does not keep."""

from graphexec.kernel.exactness.comparison import Door, find_difference, is_plain
from graphexec.kernel.exactness.places import (
    AS_TEXT,
    HIDDEN_REMEDY,
    MISSING_REMEDY,
    REMEDY,
    class_of,
    find_unwritable,
    find_without_schema,
    locate,
)

__all__ = [
    "AS_TEXT",
    "HIDDEN_REMEDY",
    "MISSING_REMEDY",
    "REMEDY",
    "Door",
    "class_of",
    "find_difference",
    "find_unwritable",
    "find_without_schema",
    "is_plain",
    "locate",
]
