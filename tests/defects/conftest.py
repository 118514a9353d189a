"""How the promises are put to a copy of the package: always with the same examples, and really to the copy."""

import os
from pathlib import Path

import pytest
from hypothesis import Phase, settings

import graphexec
from tests.defects.copies import COPY, NOT_THE_COPY

# The same examples each time, so that a defect does not survive by chance; and the first that breaks a promise will do.
settings.register_profile(
    "seeded",
    settings.get_profile("thorough"),
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),
    report_multiple_bugs=False,
    print_blob=False,
)


def pytest_sessionstart() -> None:
    copy = os.environ.get(COPY)
    if copy and not Path(graphexec.__file__).is_relative_to(copy):
        pytest.exit(f"graphexec is imported from {graphexec.__file__}, which is not in {copy}", NOT_THE_COPY)
