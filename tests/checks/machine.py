"""A Hypothesis state machine that drives a run step by step: replies, cuts, crashes and pauses in any order."""

from __future__ import annotations

import dataclasses
import unittest
from typing import Any, ClassVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from graphexec.kernel.effects import All, Effect, members_of
from graphexec.kernel.events import Cut, Done
from graphexec.kernel.meters import Limits, Spent
from graphexec.kernel.node import END
from graphexec.kernel.snapshot import Snapshot
from graphexec.kernel.stepping import PendingEffect, advance, begin
from graphexec.testing.explorer.explore import RAISES
from graphexec.testing.explorer.oracle import Replies
from graphexec.testing.explorer.temporal import charges_of
from graphexec.testing.runs import measured_by
from graphexec.testing.setup import Trial, Verifiable, trial_of
from graphexec.testing.strategies import limits as all_limits

# The default number of runs, and of rules in each of them: about a second for an executor.
_RUNS = 50
_RULES = 30

# The number of crashes of a run whose limits set none: with endless crashes the run would not end.
_CRASHES = 3

# The number of replies after which a run must have ended: far more than the small limits allow.
_ENOUGH = 10_000


def executor_machine(
    machine: Verifiable,
    *,
    start: object = None,
    limits: Limits | None = None,
    replies: Replies | None = None,
    raises: tuple[type[BaseException], ...] = RAISES,
) -> type[unittest.TestCase]:
    """Return a test that drives runs of the machine step by step: `TestMine = executor_machine(executor)`.

    The machine must be proved to end. The options are those of `verify_termination`; `TestMine.settings =
    settings(max_examples=500)` sets the number of runs. Raises `InputError` as `verify_termination` does.
    """
    trial = trial_of(machine, start=start, limits=limits, replies=replies, raises=raises)
    # Any: Hypothesis creates the test case from the class, which type checkers cannot follow.
    machine_class: Any = type("ExecutorMachine", (SteppedRun,), {"trial": trial})
    case: type[unittest.TestCase] = machine_class.TestCase
    machine_class.TestCase.settings = settings(
        max_examples=_RUNS,
        stateful_step_count=_RULES,
        deadline=None,
        report_multiple_bugs=False,
        phases=[Phase.reuse, Phase.generate, Phase.target, Phase.shrink],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    return case


class SteppedRun(RuleBasedStateMachine):
    """One run of the machine in `trial`, and the invariants of every run."""

    trial: ClassVar[Trial]

    def __init__(self) -> None:
        super().__init__()
        self.limits = Limits()
        # The run's snapshot, and the result of the last step.
        self.snapshot: Snapshot
        self.state: PendingEffect | Done[Any] | None = None
        self.asked: list[Effect[Any]] = []
        # The asked effects that no limit stops.
        self.reserved: list[Effect[Any]] = []
        self.before = Spent()
        self.crashes = 0
        # The run's clock, as its driver reads it.
        self.seconds = 0.0

    # The start of a run.

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        """Begin a run within random limits."""
        drawn = data.draw(all_limits(self.trial.limits), label="limits")
        seconds = data.draw(st.sampled_from([drawn.seconds, 0.0, 4.0]), label="seconds")
        restarts = data.draw(st.sampled_from([drawn.restarts, 0, 1]), label="restarts")
        self.limits = dataclasses.replace(drawn, seconds=seconds, restarts=restarts)
        self.snapshot = begin(self.trial.graph, self.trial.start)
        self._advance()

    # Events of a run.

    @precondition(lambda self: isinstance(self.state, PendingEffect))
    @rule(data=st.data(), seconds=st.sampled_from([0.0, 0.0, 0.0, 0.5, 4.0]))
    def reply(self, data: st.DataObject, seconds: float) -> None:
        """Reply to the request, now or later."""
        asking = self._asking()
        answers: list[object] = []
        for effect in members_of(asking.effect):
            named = {reply.name: reply for reply in self.trial.oracle(effect)}
            answers.append(named[data.draw(st.sampled_from(list(named)), label=type(effect).__name__)].value)
        self.seconds += seconds
        answer = tuple(answers) if isinstance(asking.effect, All) else answers[0]
        self.snapshot = asking.reply(answer, at=self.seconds)
        self._advance()

    @precondition(lambda self: isinstance(self.state, PendingEffect) and self.limits.seconds is not None)
    @rule(some=st.booleans())
    def reach_deadline(self, some: bool) -> None:
        """Cut the request at the deadline; some calls of a batch may have finished."""
        asking = self._asking()
        effects = members_of(asking.effect)
        assert asking.deadline is not None, "the precondition"
        self.seconds = asking.deadline
        if some and isinstance(asking.effect, All):
            answers = (self.trial.oracle(effects[0])[0].value, *(Cut() for _ in effects[1:]))
            self.snapshot = asking.reply(answers, at=self.seconds)
        else:
            self.snapshot = asking.cut(at=self.seconds)
        self._advance()

    @rule()
    def pause(self) -> None:
        """Store the run and load it again, as another process would."""
        text = self.snapshot.to_json()
        self.snapshot = Snapshot.from_json(text, self.trial.graph)
        assert self.snapshot.to_json() == text, "a stored snapshot differs from the original"

    @precondition(lambda self: isinstance(self.state, PendingEffect))
    @precondition(lambda self: self.crashes < (_CRASHES if self.limits.restarts is None else self.limits.restarts + 1))
    @rule()
    def crash(self) -> None:
        """Resume the run after its process died while it waited: its request stays charged."""
        self.snapshot = Snapshot.from_json(self._asking().snapshot.restarted().to_json(), self.trial.graph)
        self.crashes += 1
        self._advance()

    @precondition(lambda self: isinstance(self.state, PendingEffect))
    @rule()
    def look_again(self) -> None:
        """Advance the same snapshot again: the engine asks for the same effects."""
        asking = self._asking()
        again = advance(self.trial.graph, self.snapshot, self.limits)
        assert isinstance(again, PendingEffect), f"it asked for {asking.effect} before, and is done now"
        assert again.effect == asking.effect, f"it asked for {asking.effect} before, and asks for {again.effect} now"
        # As JSON, because stored replies are parsed only when they are needed.
        assert again.snapshot.to_json() == asking.snapshot.to_json(), "the engine is not pure"

    # Invariants after each event.

    @invariant()
    def node_takes_its_value(self) -> None:
        """The run is at a node of the table, with a value that this node takes."""
        if self.state is not None:
            stands = self.state.snapshot
            node = self.trial.graph[stands.node]
            assert isinstance(stands.value, node.takes), f"{node.name} got {stands.value!r}"

    @invariant()
    def every_call_is_charged(self) -> None:
        """Every call is charged once each time it is asked for, and amounts spent never decrease."""
        if self.state is None:
            return
        spent, before = self.state.snapshot.spent, self.before
        charged, measured = charges_of(self.asked), measured_by(self.trial.graph)
        exact = (charged[name] == spent[name] for name in self.trial.graph.effect_meters if name not in measured)
        least = (spent[name] >= amount for name, amount in charged.items())
        assert all((*exact, *least)), f"{dict(charged)} charged: {spent}"
        assert spent.restarts == self.crashes, f"{self.crashes} crashes: {spent}"
        known = self.trial.graph.effect_meters
        assert all(spent[name] >= before[name] for name in known), f"{before} became {spent}"
        assert spent.seconds == self.seconds, f"{self.seconds:g} seconds: {spent}"
        self.before = spent

    @invariant()
    def limits_hold(self) -> None:
        """Nothing exceeds its limit, and no effect is asked for after the deadline."""
        if self.state is None:
            return
        spent, limits = self.state.snapshot.spent, self.limits
        # A measured amount may exceed its limit once.
        reserved, measured = charges_of(self.reserved), measured_by(self.trial.graph)
        caps = limits.caps(self.trial.graph.meters)
        counted = [
            (limits.iterations, spent.iterations),
            *((limit, spent[name] - reserved[name]) for name, limit in caps.items() if name not in measured),
        ]
        assert all(limit is None or reached <= limit for limit, reached in counted), f"{spent} within {limits}"
        if isinstance(self.state, PendingEffect):
            deadline = self.state.deadline
            grace = self.trial.graph[self.state.snapshot.node].grace or 0.0
            assert deadline == (None if limits.seconds is None else limits.seconds + grace)
            assert deadline is None or spent.seconds < deadline, f"it asks for an effect after {spent.seconds} seconds"
            assert limits.restarts is None or spent.restarts <= limits.restarts, (
                f"it asks for an effect after {spent.restarts} crashes"
            )

    @invariant()
    def final_outcome_is_declared(self) -> None:
        """The run ends with the outcome of an edge to the end."""
        if isinstance(self.state, Done):
            endings = [edge.outcome for edge in self.trial.graph.edges if edge.target == END.name]
            assert type(self.state.outcome) in endings, f"it ended with {self.state.outcome!r}"

    def teardown(self) -> None:
        """Check that the run ends if every request is answered."""
        left = _ENOUGH
        while isinstance(self.state, PendingEffect):
            left -= 1
            assert left, f"it has not ended after {len(self.asked)} calls within {self.limits}"
            answers = tuple(self.trial.oracle(effect)[-1].value for effect in members_of(self.state.effect))
            answer = answers if isinstance(self.state.effect, All) else answers[0]
            self.snapshot = self.state.reply(answer, at=self.seconds)
            self._advance()

    def _asking(self) -> PendingEffect:
        assert isinstance(self.state, PendingEffect), "the precondition"
        return self.state

    def _advance(self) -> None:
        try:
            self.state = advance(self.trial.graph, self.snapshot, self.limits)
        except self.trial.raises:
            # The run has ended with an allowed exception.
            self.state = None
            return
        if isinstance(self.state, PendingEffect):
            self.asked += members_of(self.state.effect)
            if self.trial.graph[self.state.snapshot.node].grace is not None:
                self.reserved += members_of(self.state.effect)
