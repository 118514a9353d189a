"""Tests of the test suite: equal test ids in every process, and a timeout for every test."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.parameters import read_tables

TOP = Path(__file__).parents[1]


@pytest.mark.slow
def test_every_process_collects_the_same_tests() -> None:
    command = [sys.executable, "-m", "pytest", "-m", "", "--collect-only", "-q", "-p", "no:randomly"]
    environments = [{**os.environ, "PYTHONHASHSEED": seed} for seed in ("1", "2")]
    processes = [subprocess.Popen(command, cwd=TOP, env=one, stdout=subprocess.PIPE, text=True) for one in environments]
    first, second = ([line for line in one.communicate()[0].splitlines() if "::" in line] for one in processes)
    assert len(first) > 3_000
    assert first == second


@pytest.mark.slow
def test_a_test_that_loops_fails_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text((TOP / "tests" / "conftest.py").read_text(encoding="utf-8"))
    (tmp_path / "test_loops.py").write_text(read_tables(__file__)["loops"])
    command = [sys.executable, "-m", "pytest", "--timeout=1", "-p", "no:cacheprovider", "-p", "no:randomly"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert "2 failed, 1 passed" in ended.stdout
    for name in ("test_loop", "test_property"):
        assert f"test_loops.py::{name} has taken more than 1 seconds" in ended.stdout
