"""The bounds of a proof are computed when they are first read, and are then what they would have been."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from graphexec import AgentExecutor, effects, verify
from graphexec.executor import AGENT_EXECUTOR
from graphexec.verify.proof import prove
from graphexec.verify.proof.bounds import bounds_by_states, bounds_of
from graphexec.verify.proof.certificate import Bounds
from tests.parameters import cases
from tests.verify.acting import acting, proof_of
from tests.verify.proofs import require
from tests.verify.test_numbers import low


def executor() -> AgentExecutor:
    """Return an executor whose limits are those of no other test."""
    return acting([1], max_iterations=7_901)


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[Bounds]:
    made: list[Bounds] = []

    def counting(compute: Callable[..., Bounds]) -> Callable[..., Bounds]:
        def computed(*given: Any, **named: Any) -> Bounds:
            made.append(compute(*given, **named))
            return made[-1]

        return computed

    for compute in (bounds_of, bounds_by_states):
        monkeypatch.setattr(prove, compute.__name__, counting(compute))
    prove.prove_flow.cache_clear()
    return made


def test_runs_assumptions_and_unknown_names_need_no_bounds(computed: list[Bounds]) -> None:
    agent = executor()
    agent.verify().require_proof()
    assert agent.run("?").output == "done"
    # Any: type checkers know that there is no such bound.
    bounds: Any = proof_of(agent).bounds
    with pytest.raises(AttributeError, match="Bounds has no attribute tokens"):
        _ = bounds.tokens
    verdict = AGENT_EXECUTOR.verify(effects.agent_limits(model_calls=7_907))
    assert any(one.startswith("the bounds on tool calls include") for one in verdict.assumptions)
    assert computed == []
    assert [*(verdict.bounds.meters if verdict.bounds else ())] == ["model_calls", "tool_calls"]


def test_bounds_are_computed_once(computed: list[Bounds]) -> None:
    agent = executor()
    bounds = require(agent.verify().bounds)
    assert bounds.transitions.number
    assert bounds.rows()
    assert agent.verify().bounds is bounds
    assert (len(computed), bounds, repr(bounds)) == (1, computed[0], repr(computed[0]))


COPIES: list[Callable[[Any], Any]] = [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))]


@cases("again", *COPIES)
def test_copies_have_the_bounds(again: Callable[[verify.Certificate], verify.Certificate]) -> None:
    prove.prove_flow.cache_clear()
    certificate = proof_of(executor())
    # Copied before the bounds are read.
    copied = again(certificate)
    assert copied.bounds.transitions.number == certificate.bounds.transitions.number
    assert copied == certificate
    assert verify.Certificate.from_json(copied.to_json()) == certificate


def test_proof_by_states_needs_no_bounds(computed: list[Bounds], monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, limits = low()
    # Any: `wraps` adds the attribute. Without the cache, because other tests have a verdict of an equal machine.
    cached: Any = vars(prove)["_verify"]
    monkeypatch.setattr(prove, "_verify", cached.__wrapped__)
    verdict = drawn.graph.verify(limits)
    assert (verdict.proved, require(verdict.certificate).ranks, computed) == (True, None, [])
    assert str(verdict.bounds and verdict.bounds.transitions) == "3 (exact)"
    assert [verdict.bounds] == computed
