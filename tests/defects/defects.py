"""The 24 seeded defects: mistakes that are easily made in this loop, each a few lines in a copy of the package.

Each names a promise that it breaks; it may break others, too. `test_defects` holds both to it.
"""

from __future__ import annotations

from tests.defects.counting import COUNTING
from tests.defects.telling import TELLING
from tests.defects.timing import TIMING

DEFECTS = (*COUNTING, *TIMING, *TELLING)
