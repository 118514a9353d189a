"""Each seeded defect breaks a promise: the package with the defect fails a property."""

import pytest

from tests.defects.defect import Defect, changed_sources
from tests.defects.defects import DEFECTS
from tests.defects.trials import FAILED, PACKAGE, PASSED, PATIENCE, run_promises
from tests.parameters import mark_except

# Failures that count as broken promises. Any other exception, such as a NameError, is a mistake in the defect.
BROKEN = ("AssertionError", "assert ", "Failed: ", "graphexec.errors.CertificateError")


@pytest.mark.medium
def test_defects_fit_the_source() -> None:
    assert len({defect.name for defect in DEFECTS}) == len(DEFECTS) == 60
    for defect in DEFECTS:
        for file, source in changed_sources(defect, PACKAGE).items():
            compile(source, file, "exec")


@pytest.mark.timeout(PATIENCE + 60)
@pytest.mark.slow
def test_sound_package_keeps_every_promise() -> None:
    whole = run_promises(None)
    assert whole.code == PASSED, whole.text


# Tests one promise first; if it holds, all others.
@pytest.mark.timeout(2 * PATIENCE + 60)
@pytest.mark.slow
@pytest.mark.parametrize("defect", mark_except(DEFECTS, *DEFECTS[::3], mark=pytest.mark.full), ids=lambda one: one.name)
def test_defect_breaks_its_promise(defect: Defect) -> None:
    defective = run_promises(defect, defect.killed_by)
    if defective.code == PASSED:
        others = run_promises(defect).broken
        pytest.fail(f"{defect.name} does not break {defect.killed_by}; other broken promises: {others or 'none'}")
    assert defective.code == FAILED, defective.text
    name = defect.killed_by.split("::")[-1].split("[")[0]
    assert defective.broken[name].startswith(defect.raises or BROKEN), defective.text
    print(f"{defect.name}: {defect.killed_by}: {defective.broken[name]}")
