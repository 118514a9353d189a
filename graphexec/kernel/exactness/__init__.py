"""The comparison of a value with what is read back from its JSON, and the place of a part that JSON does not keep."""

from graphexec.kernel.exactness.comparison import Door, find_difference, is_plain
from graphexec.kernel.exactness.places import AS_TEXT, MISSING_REMEDY, REMEDY, find_unwritable, locate

__all__ = [
    "AS_TEXT",
    "MISSING_REMEDY",
    "REMEDY",
    "Door",
    "find_difference",
    "find_unwritable",
    "is_plain",
    "locate",
]
