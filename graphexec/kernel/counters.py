"""The counters of a run: what it has spent, what its limits allow, and its rank."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from graphexec.errors import CertificateError, GraphexecError, InputError, SnapshotError, an, format_value
from graphexec.kernel.effects import All, Effect, OuterRuns, Perform, Request, measure_reply, members_of
from graphexec.kernel.events import ChargedReply, Cut
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import ITERATIONS, Exhausted, Limits, Spent, add_counts, is_count
from graphexec.kernel.program import Charge, Proof, Step, compile_program, invalid_answer, undeclared_outcome
from graphexec.kernel.snapshot import PAID, UNPAID, Snapshot

# Most runs contain no nested runs, and share this value.
_NO_CHARGES: Mapping[str, float] = MappingProxyType({})

# Greater than every rank.
HIGHEST: tuple[float, ...] = (math.inf,)


def add_amounts(counts: Mapping[str, float], amounts: Mapping[str, float]) -> dict[str, float]:
    """Return the counts with these amounts added to them, by name."""
    return {**counts, **{name: add_counts(counts.get(name, 0), amount) for name, amount in amounts.items()}}


class MeasureError(GraphexecError, ValueError):
    """The measure of a node with `decreases` is no natural number, or no smaller than at the `last` visit.

    The node was not visited. `last` is `None` if the measure itself is invalid.
    """

    def __init__(self, node: str, measure: object, last: int | None) -> None:
        self.node = node
        self.measure = measure
        self.last = last
        super().__init__(
            f"{node} has the measure {format_value(measure)}; its decreases= must return a whole number, 0 or more"
            if last is None
            else f"{node} does not decrease: its measure is {format_value(measure)}, and was {format_value(last)} at "
            f"the last visit; lower it before each visit, or write meters=[ITERATIONS] in place of decreases="
        )


class Counters:
    """The spending of one run, and what its limits and the runs that contain it (`outer`) allow."""

    # Slots make a waiting run a tenth smaller.
    __slots__ = (
        "_blocked",
        "_counts",
        "_last_rank",
        "_limits",
        "_nested_charges",
        "_open",
        "_outer",
        "_outer_seconds",
        "_proof",
        "_ranks",
        "_restarts",
        "_spent",
        "_step",
        "_steps_left",
        "program",
        "seconds",
        "timed",
    )
    # The current node.
    _step: Step

    def __init__(
        self, graph: Graph[Any, Any], snapshot: Snapshot, limits: Limits, proof: Proof | None, outer: OuterRuns | None
    ) -> None:
        # Those of its program are equal, but they may have `1` for `1.0`.
        self._limits = limits
        self._outer = outer
        # The machine as it is compiled for the run's limits.
        program = self.program = compile_program(graph, limits)
        spent = snapshot.spent
        # By name; nested runs may have charged meters that this run does not have.
        self._counts: dict[str, float] = dict.fromkeys(program.names, 0)
        self._counts.update(spent.meters)
        self._counts[ITERATIONS.name] = spent.iterations
        # Charged by nested runs during the open request.
        self._nested_charges = _NO_CHARGES
        self.seconds = spent.seconds
        # Cached: it is read more often than it changes.
        self._spent: Spent | None = None
        # A limit that was exceeded before the run began stops it at its first charge.
        self._restarts = spent.restarts
        over = limits.restarts is not None and spent.restarts > limits.restarts
        self._blocked = Exhausted("restarts", limits.restarts or 0, spent.restarts) if over else None
        # The second of this run's clock at which the first deadline of an outer run passes.
        self._outer_seconds = None if outer is None else outer.seconds
        if outer is not None:
            self._blocked = self._blocked or outer.refusal
        # Whether there is a deadline.
        self.timed = limits.seconds is not None or self._outer_seconds is not None
        # The state of each member of the open request: its reply, PAID or UNPAID.
        self._open: Sequence[object] = snapshot.open
        self._proof = proof
        self._ranks = None if proof is None else proof.ranks
        self._last_rank = HIGHEST
        # What is left of the most steps, before the step to the first node; `None`: the ranks alone have to fall.
        resumed = bool(spent.meters or spent.iterations or snapshot.node != graph.start)
        most = None if proof is None else proof.count_steps(resumed=resumed, nested=outer is not None)
        self._steps_left = None if most is None else most + 1
        if proof is not None and (proof.ranks is None or not proof.anywhere):
            self._require_circumstances(proof)

    def _require_circumstances(self, proof: Proof) -> None:
        """Raise `CertificateError` if the run begins where its proof does not hold."""
        program, outer, known = self.program, self._outer, (*self.program.meters, "seconds")
        if outer is not None and not proof.anywhere:
            blocked = () if outer.refusal is None else (outer.refusal.limit,)
            others = [name for name in outer.limits if name in known]
            if proof.ranks is not None:
                others = [name for name in others if name not in program.caps]
            if blocked or others:
                raise CertificateError(
                    f"this run is nested in one that limits {' and '.join((*blocked, *others))}, which may stop it "
                    f"anywhere, and its proof does not include that; verify it with a limit on seconds, which includes "
                    f"that, or says what to change"
                )
        if proof.ranks is None:
            for name in (ITERATIONS.name, *program.own):
                count, limit = self._counts[name], program.caps.get(name, math.inf)
                if count > limit:
                    raise CertificateError(
                        f"the snapshot has spent {count:g} {name}, and the proof is only for runs within the limit of "
                        f"{limit:g}; resume it with a limit of {count:g} or more"
                    )

    def spent(self) -> Spent:
        """Return what the run has spent so far."""
        if self._spent is None:
            # Read once: another thread may charge meanwhile, which replaces the mapping.
            nested = self._nested_charges
            counts = add_amounts(self._counts, nested) if nested else dict(self._counts)
            iterations = int(counts[ITERATIONS.name])
            del counts[ITERATIONS.name]
            self._spent = Spent(iterations=iterations, seconds=self.seconds, restarts=self._restarts, meters=counts)
        return self._spent

    def stop_clock(self, at: float) -> None:
        """Set the time at which an exception ends the run."""
        self._spent = None
        self.seconds = max(self.seconds, at)

    @property
    def deadline(self) -> float | None:
        """The second of the run's clock at which the current node's effects are cut; `None` without a deadline."""
        seconds, outer = self._limits.seconds, self._outer_seconds
        own = None if seconds is None else seconds + self._step.grace
        return outer if own is None else own if outer is None else min(own, outer)

    def find_exhausted(self, amounts: Mapping[str, float], stops: Collection[str]) -> Exhausted | None:
        """Return the limit that refuses to charge these amounts, by meter; each of `stops` must be below its limit."""
        caps = self.program.caps
        for name, amount in (*amounts.items(), *((name, 0) for name in stops)):
            if name in caps:
                limit = caps[name]
                spent = add_counts(self._counts.get(name, 0), self._nested_charges.get(name, 0))
                if spent + amount > limit or (not amount and spent >= limit):
                    return Exhausted(name, limit, spent, wanted=int(amount) or 1)
        return None

    def charge(self, amounts: Mapping[str, float]) -> None:
        """Charge amounts by meter for a nested run. Any thread may call it, one thread at a time."""
        self._nested_charges = add_amounts(self._nested_charges, amounts)
        self._spent = None

    def _add_nested_charges(self) -> None:
        """Add what nested runs have charged to the counters of this run."""
        counts = add_amounts(self._counts, self._nested_charges)
        # No call separates these lines, so that no KeyboardInterrupt finds a charge that is counted twice.
        self._counts, self._nested_charges, self._spent = counts, _NO_CHARGES, None

    def _out_of_time(self) -> Exhausted | None:
        """Return the deadline of the current node that has passed: this run's, or the earlier one of an outer run."""
        deadline, limit = self.deadline, self._limits.seconds
        if deadline is None or self.seconds < deadline:
            return None
        if limit is None or deadline == self._outer_seconds:
            return Exhausted("seconds", deadline, self.seconds, outer=True)
        return Exhausted("seconds", limit, self.seconds)

    def _reply_to_cut(self, effect: Effect[Any]) -> Any:
        """Return the reply that the effect has for a cut, or else the `Exhausted` that makes the run leave the node."""
        deadline = self.deadline
        if deadline is None:
            raise invalid_answer(self._step, effect, "a Cut, but the run has no deadline")
        # A cut call used all remaining time, even if the clock lags slightly.
        self.seconds = max(self.seconds, deadline)
        exhausted = self._out_of_time()
        assert exhausted is not None, "the deadline has passed"
        reply = effect.cut(exhausted)
        return exhausted if reply is None else reply

    def _apply(self, effect: Effect[Any], answer: Any, at: float) -> Any:
        """Set the time, count what the reply reports, and return the reply, or the `Exhausted` of a cut."""
        self._spent = None
        # A clock that goes backwards, as it may after a resume, does not give time back.
        if at > self.seconds:  # noqa: PLR1730 - `max` would be a call at each step
            self.seconds = at
        # Annotated here and below, because pyright has narrowed the answer to an unknown type.
        kind: type[Any] = type(answer)  # pyright: ignore[reportUnknownVariableType]
        if kind is Exhausted or kind is ChargedReply:
            raise invalid_answer(self._step, effect, f"{an(kind.__name__)}, which only the engine creates")
        if kind is Cut:
            return self._reply_to_cut(effect)
        # An opaque node (`async def` or `opaque=True`) is itself one effect, whose reply is the node's outcome.
        if type(effect) is Perform:
            if kind not in self._step.returns:
                raise undeclared_outcome(self._step, answer, self._step.returns)
        elif self._step.tariffs[type(effect)].prepaid:
            self._measure(effect, answer)
        return answer

    def _enter(self, step: Step, value: object) -> Exhausted | None:
        if step.entry:
            if self.timed and (late := self._out_of_time()) is not None:
                return late
            if self._blocked is not None:
                return self._blocked
        counts = self._counts
        for name, amount, limit in step.entry:
            if counts[name] + amount > limit:
                return Exhausted(name, limit, counts[name], wanted=amount)
        for name, amount, _ in step.entry:
            counts[name] += amount
        if step.decreases is not None:
            counts[step.measure] = self._measure_value(step, step.decreases, value) + 1
        self._spent = None
        return None

    def _measure_value(self, step: Step, decreases: Callable[[Any], int], value: object) -> int:
        """Return the measure of a visit. Raises `MeasureError` unless it is a natural number below the last one."""
        measure, last = decreases(value), int(self._counts[step.measure]) - 1
        if not is_count(measure, whole=True):
            raise MeasureError(step.name, measure, None)
        if 0 <= last <= measure:
            raise MeasureError(step.name, measure, last)
        return int(measure)

    def _lower_rank(self, node: str, origin: str) -> None:
        """Set the rank to that at the entry of `node`. Raises `CertificateError` if it does not fall there."""
        if self._steps_left is not None:
            self._steps_left -= 1
            if not self._steps_left:
                raise CertificateError(
                    f"the run goes on to {node} after the last step that its certificate allows; resume it with the "
                    f"limits that it had, or prove it with those of the outer run, which may stop it where it loops"
                )
        counts, caps, ranks = self._counts, self.program.caps, self._ranks
        rank: tuple[float, ...] = (self._steps_left or 0,) if ranks is None else ()
        for component, names in () if ranks is None else ranks[node]:
            rank += (component,)
            for name in names:
                if name in caps:
                    # A measured call, or a limit that was higher before a resume, may have overspent it.
                    left = caps[name] - counts[name]
                    rank += (left if left > 0 else 0,)
                elif name in self.program.measures:
                    # Before the first visit, a measure may have any value.
                    rank += (counts[name] - 1 if counts[name] else math.inf,)
                else:
                    raise CertificateError(
                        f"the rank counts {name}, which has no limit; prove the machine with these limits"
                    )
        if not rank < self._last_rank:
            raise CertificateError(
                f"the rank does not fall from {origin} {self._last_rank} to {node} {rank}; the certificate belongs to "
                f"another machine or to other limits, or an outer run has a limit that the proof did not include; "
                f"prove this machine again, with these limits and the outer ones"
            )
        self._last_rank = rank

    def _charge(self, step: Step, request: Request, asked: int) -> Exhausted | None:
        """Charge an effect, or all members of a batch; return the `Exhausted`, and charge none, if a limit refuses.

        `asked` is the number of effects that this visit has asked for, including these.
        """
        if self.timed and (late := self._out_of_time()) is not None:
            return late
        if self._blocked is not None:
            return self._blocked
        members: Sequence[Effect[Any]]
        charges: Sequence[Charge]
        compared: Sequence[str]
        # What all members cost together, by meter; one effect costs each meter once.
        wanted: dict[str, int] = {}
        if type(request) is All:
            members = request.effects
            charges = [charge for member in members for charge in step.charges_of(member)]
            compared = [name for member in members for name in step.tariffs[type(member)].compared]
            for name, amount, _ in charges:
                wanted[name] = wanted[name] + amount if name in wanted else amount
        else:
            members, tariff = (request,), step.tariffs[type(request)]
            charges = step.charges_of(request) if step.quotas else tariff.charges
            compared = tariff.compared
        if asked > step.fan_out:
            return Exhausted("fan_out", step.fan_out, asked - len(members), wanted=len(members))
        counts, caps = self._counts, self.program.caps
        for name, amount, limit in charges:
            total = wanted[name] if wanted else amount
            if counts[name] + total > limit:
                return Exhausted(name, limit, counts[name], wanted=total)
        for name in compared:
            if name in caps and counts[name] >= caps[name] and not step.reserved:
                return Exhausted(name, caps[name], counts[name])
        if self._outer is not None:
            totals = wanted or {name: amount for name, amount, _ in charges}
            amounts = {name: total for name, total in totals.items() if name in self.program.meters}
            exhausted = self._outer.charge(amounts, compared)
            if exhausted is not None:
                return exhausted
        for name, amount, _ in charges:
            counts[name] += amount
        self._spent = None
        return None

    def _charge_unpaid(self, step: Step, request: Request, asked: int) -> Exhausted | None:
        """Charge the unpaid members of a resumed request; return the `Exhausted` if a limit refuses."""
        members, states = members_of(request), self._open
        if len(members) != len(states):
            raise SnapshotError(
                f"the snapshot has {len(states)} open calls, but {step.name} asks for {len(members)}; resume it "
                "with its own graph"
            )
        unpaid = tuple(one for one, state in zip(members, states, strict=True) if state is UNPAID)
        exhausted = self._charge(step, All(unpaid), asked) if unpaid else None
        if exhausted is None:
            self._open = [PAID if state is UNPAID else state for state in states]
        return exhausted

    def _measure(self, effect: Effect[Any], reply: object) -> None:
        """Charge the amounts that a reply reports beyond what was prepaid."""
        prepaid = self._step.tariffs[type(effect)].prepaid
        # By name, since a user's effect may name a meter twice.
        more: dict[str, float] = {}
        for (meter, amount), paid in zip(measure_reply(self._step.name, effect, reply), prepaid, strict=True):
            if amount is not None and amount > paid:
                more[meter.name] = amount - paid
            elif amount is None and meter.name in self.program.caps:
                asked = f"{self._step.name} asked for {type(effect).__name__}"
                raise InputError(
                    f"{asked}, and the reply does not report its {meter}, which is limited; {meter.remedy}"
                )
        if more:
            self._counts = add_amounts(self._counts, more)
            if self._outer is not None:
                self._outer.settle(more)
