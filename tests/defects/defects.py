"""The 60 seeded defects: plausible mistakes of a few lines each, made in a copy of the package.

`defects.toml` has them. Defects of the loop name a promise that they break, a property in `test_promises` or
`test_promises_of_time`; defects of borders and proofs name a test in another folder. They may break other
tests, too. `test_defects` checks both.
"""

from typing import Any

from tests.defects.defect import Change, Defect
from tests.parameters import read_tables


def _read(plain: dict[str, Any]) -> Defect:
    changes = tuple(Change(**change) for change in plain.pop("changes"))
    return Defect(**plain, changes=changes)


DEFECTS = tuple(map(_read, read_tables(__file__)["defect"]))
