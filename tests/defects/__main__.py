"""Print for each seeded defect the first test of the quick gate that fails, without the tests of the defects.

`python -m tests.defects [PART OF A NAME]`. It exits with status 1 if more than three defects survive. It judges changes
that take tests away, in about a quarter of an hour on two processors.
"""

import sys
from concurrent.futures import ThreadPoolExecutor

from tests.defects.defect import Defect
from tests.defects.defects import DEFECTS
from tests.defects.trials import FAILED, PASSED, run_tests

MOST_SURVIVORS = 3
# Seconds for one stage.
PATIENCE = 900

# Where most defects are noticed, and quickly.
CORE = tuple(f"tests/{room}" for room in ("kernel", "semantics", "verify", "executor", "runtime", "testing"))
STAGES = {
    "quick": CORE,
    "quick, all rooms": ("tests",),
    "medium": ("tests", "-m", "medium and not slow and not local_model"),
    "long": ("tests", "-m", "slow and not full and not browser and not local_model", "--hypothesis-profile=gate"),
}


def first_failure(defect: Defect) -> str:
    """Return the stage and the test that fails first, or nothing."""
    for stage, arguments in STAGES.items():
        trial = run_tests(defect, *arguments, "-n0", "--ignore=tests/defects", patience=PATIENCE)
        if trial.code == FAILED:
            return f"{stage}: {next(iter(trial.broken))}"
        if trial.code != PASSED:
            return f"{stage}: {trial.text.splitlines()[-1]}"
    return ""


def main(part: str = "") -> int:
    """Try the defects whose name has a part."""
    chosen = [defect for defect in DEFECTS if part in defect.name]
    failures: list[str] = []
    with ThreadPoolExecutor(2) as pool:
        for defect, failure in zip(chosen, pool.map(first_failure, chosen), strict=True):
            failures.append(failure)
            print(f"{defect.name}: {failure or 'SURVIVES'}", flush=True)
    print(f"{len(chosen) - failures.count('')} of {len(chosen)} defects are noticed")
    return int(failures.count("") > MOST_SURVIVORS)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
