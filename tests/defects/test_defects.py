"""Each seeded defect breaks a promise: a copy of the package with the defect fails a property."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.defects.copies import FAILED, NOT_THE_COPY, PASSED, PATIENCE, ROOT, copy_package, run_promises
from tests.defects.defect import Defect, apply
from tests.defects.defects import DEFECTS
from tests.defects.promises import SEMANTICS

# Failures that count as broken promises. Any other exception, such as a NameError, is a mistake in the defect.
BROKEN = ("AssertionError", "assert ", "Failed: ", "graphexec.errors.CertificateError")


def test_defects_fit_the_source(tmp_path: Path) -> None:
    assert len({defect.name for defect in DEFECTS}) == len(DEFECTS) == 60
    for defect in DEFECTS:
        for change in defect.changes:
            file = tmp_path / change.file
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text((ROOT / "graphexec" / change.file).read_text())
        apply(defect, tmp_path)
        for change in defect.changes:
            compile((tmp_path / change.file).read_text(), change.file, "exec")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy without a defect, the source of all other copies, so that edits during the run have no effect."""
    copy = tmp_path_factory.mktemp("sound")
    copy_package(ROOT, copy)
    return copy


@pytest.mark.timeout(PATIENCE + 60)
@pytest.mark.slow
def test_sound_copy_keeps_every_promise(sound: Path) -> None:
    whole = run_promises(sound)
    assert whole.code == PASSED, whole.text


# Tests one promise first; if it holds, all others.
@pytest.mark.timeout(2 * PATIENCE + 60)
@pytest.mark.slow
@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_defect_breaks_its_promise(defect: Defect, sound: Path, tmp_path: Path) -> None:
    apply(defect, copy_package(sound, tmp_path))
    defective = run_promises(tmp_path, defect.killed_by)
    if defective.code == PASSED:
        others = run_promises(tmp_path).broken
        pytest.fail(f"{defect.name} does not break {defect.killed_by}; other broken promises: {others or 'none'}")
    assert defective.code == FAILED, defective.text
    name = defect.killed_by.split("::")[-1].split("[")[0]
    assert defective.broken[name].startswith(defect.raises or BROKEN), defective.text
    print(f"{defect.name}: {defect.killed_by}: {defective.broken[name]}")


@pytest.mark.slow
def test_only_a_copy_is_tested(tmp_path: Path) -> None:
    elsewhere = run_promises(tmp_path, SEMANTICS, tests=ROOT)
    assert elsewhere.code == NOT_THE_COPY, elsewhere.text
