"""The 60 seeded defects: plausible mistakes of a few lines each, made in a copy of the package.

Defects of the loop name a promise that they break; defects of borders, proofs and audits name a test in another folder.
They may break other tests, too. `test_defects` checks both.
"""

from tests.defects.auditing import AUDITING
from tests.defects.borders import BORDERS
from tests.defects.counting import COUNTING
from tests.defects.proving import PROVING
from tests.defects.results import RESULTS
from tests.defects.timing import TIMING

DEFECTS = (*COUNTING, *TIMING, *RESULTS, *BORDERS, *PROVING, *AUDITING)
