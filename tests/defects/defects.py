"""The 60 seeded defects: mistakes that are easily made, each a few lines in a copy of the package.

Those of the loop name a promise that they break, and those of borders, proofs and audits a test of another folder. They
may break others, too. `test_defects` holds both to it.
"""

from __future__ import annotations

from tests.defects.auditing import AUDITING
from tests.defects.borders import BORDERS
from tests.defects.counting import COUNTING
from tests.defects.proving import PROVING
from tests.defects.telling import TELLING
from tests.defects.timing import TIMING

DEFECTS = (*COUNTING, *TIMING, *TELLING, *BORDERS, *PROVING, *AUDITING)
