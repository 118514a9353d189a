"""A run driven step by step keeps its invariants; and a defect that breaks one is found."""

import unittest
from typing import Any

import pytest
from hypothesis import Phase, settings

from graphexec.testing import executor_machine
from tests.parameters import cases
from tests.testing.test_properties import DEFECTS, WRITER, Draft, Fetch, executor_of, looking_up, seeded
from tests.verify.orders import FIVE, ORDERS, Order, Pay, Ship

TestToolCalling = pytest.mark.medium(executor_machine(executor_of(max_iterations=4, max_tool_calls=6)))
TestReact = executor_machine(executor_of("react", max_execution_time=9))
TestStrict = pytest.mark.medium(executor_machine(executor_of("callable", handle_parsing_errors=False)))
TestWithANodeOfItsOwn = pytest.mark.medium(executor_machine(looking_up(), replies={Fetch: ["", "a page"]}))
TestGraph = executor_machine(WRITER, start=Draft("so"))
TestOrders = pytest.mark.medium(
    executor_machine(ORDERS, start=Order(), limits=FIVE, replies={Pay: [True, False], Ship: [0.5, 2.0]})
)


@cases("defect", ["the check is <= for <", "the run's clock stands still"])
def test_state_machine_finds_a_defect(defect: str) -> None:
    owner, name, made = DEFECTS[defect]
    # Any: Hypothesis creates the class, which has its settings.
    case: Any = executor_machine(executor_of(max_iterations=2, max_tool_calls=4, max_execution_time=8))
    # Only generation is tested; shrinking is Hypothesis's part.
    case.settings = settings(max_examples=100, phases=[Phase.generate], derandomize=True, database=None, deadline=None)
    with seeded(owner, name, made):
        assert not _passes(case)


def _passes(case: type[unittest.TestCase]) -> bool:
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    return result.wasSuccessful()
