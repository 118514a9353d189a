"""The product of a flow and its counters: every state that some run can be in, under given limits.

Finite, as counters are whole numbers below their limits; budgets without a limit are not counted. In it the longest run
is found, and an endless one if there is one. It may be large, so its users say how much of it they are ready to see.

What a flow does not say is how much more than the least a visit spends, and when time is up. So there are two products:
that of all that can be, for bounds, and that of what is `sure` to be possible, for runs that are shown.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

from graphexec.edge import END
from graphexec.limits import Limits
from graphexec.verify.flow import UNCOUNTED, Flow, Transition, caps_of, possible

# A node, and what is left of each counted budget.
State: TypeAlias = tuple[str, tuple[int, ...]]


@final
class Product:
    """The states of `flow` under `limits`, found as they are asked for.

    Where it is `sure`, visits spend the least or the most they can, and the clock stands still until what is asked for
    takes all the time there is: so each way through it is a run.
    """

    __slots__ = ("_nodes", "_rows", "_sure", "begin")

    def __init__(self, flow: Flow, limits: Limits, *, sure: bool = False) -> None:
        self._nodes = len(flow.nodes)
        self._sure = sure
        caps = caps_of(flow, limits)
        known = {**caps, **{name: getattr(limits, name) for name in UNCOUNTED}}
        transitions = [one for one in flow.transitions if possible(one, limits, caps)]
        # A visit that has to ask for more than one may does not return.
        limited = {one.source for one in transitions if "fan_out" in one.causes and limits.fan_out is not None}
        most = limits.fan_out or 0
        transitions = [one for one in transitions if one.asks <= most or one.source not in limited]
        counted = {name for one in transitions for spends in self._spending(one) for name, _ in spends}
        counts = {name: limit for name, limit in caps.items() if name in counted and limit is not None}
        place = {name: index for index, name in enumerate(counts)}
        timed = sure and limits.seconds is not None
        waiting = {one.source: _waiting(one, known, place) for one in transitions if one.kind == "within"}
        self._rows: dict[str, list[_Move]] = {name: [] for name in flow.nodes}
        for one in transitions:
            needs = (_surely if sure else _perhaps)(one, known, place)
            resets = tuple((place[name], counts[name]) for name in one.resets if name in place)
            row = self._rows[one.source]
            for spending in self._spending(one):
                spends = tuple((place[name], amount) for name, amount in spending if name in place)
                # What is reserved is counted too, though nothing need be left for it.
                move = (
                    _Move(one, (), resets, needs, drains=spends) if one.reserved else _Move(one, spends, resets, needs)
                )
                row.extend(_by_the_clock(move, len(place), waiting.get(one.source)) if timed else [move])
        # Time is left, or it is not.
        clock = (int(limits.seconds != 0),) if timed else ()
        self.begin: State = (flow.start, (*counts.values(), *clock))

    def _spending(self, one: Transition) -> list[tuple[tuple[str, int], ...]]:
        """What such a visit may spend: the least, and where it matters the most, on calls of one kind or the other."""
        if not self._sure or one.kind != "move":
            return [one.spends]
        least = {name: amount for name, amount in one.spends if name in _CALLED}
        entry = tuple((name, amount) for name, amount in one.spends if name not in _CALLED)
        found: list[tuple[tuple[str, int], ...]] = []
        for name, kind in _CALLS.items():
            most = _below(one, name)
            counts = {max(least.values())} if least else {one.asks}
            if most != 0 and (not least or name in least):
                counts |= {most} if most is not None else set()
                found += [(*entry, *((budget, count) for budget in kind if count)) for count in sorted(counts)]
        return list(dict.fromkeys(found)) or [one.spends]

    def size(self) -> int:
        """How many states there may be at most."""
        states = self._nodes
        for left in self.begin[1]:
            states *= left + 1
        return states

    def steps(self, state: State) -> Iterator[tuple[Transition, State]]:
        """The transitions that are possible in a state, and where they lead."""
        node, left = state
        for move in self._rows.get(node, ()):
            if (
                all(left[index] >= amount for index, amount in move.spends)
                and all(left[index] for index in move.timely)
                and (move.needs is None or any(left[index] < below for index, below in move.needs))
            ):
                yield move.transition, (move.transition.target, move.after(left))

    def longest(self, weights: Sequence[Callable[[Transition], int]]) -> list[int]:
        """The most that any run counts, by each of the weights. Only for a flow that is proved to end."""
        best: dict[State, tuple[int, ...]] = {}
        nothing = (0,) * len(weights)
        opened: set[State] = set()
        waiting: list[tuple[State, list[tuple[Transition, State]] | None]] = [(self.begin, None)]
        while waiting:
            state, steps = waiting.pop()
            if state in best:
                continue
            if steps is None:
                assert state not in opened, "a flow that is proved to end does not come back"
                opened.add(state)
                steps = list(self.steps(state))
                waiting.append((state, steps))
                waiting.extend((target, None) for _, target in steps if target not in best)
                continue
            value = nothing
            for one, target in steps:
                on = best.get(target, nothing)
                value = tuple(
                    max(old, weight(one) + more) for old, weight, more in zip(value, weights, on, strict=True)
                )
            best[state] = value
        return list(best[self.begin])

    def lasso(self, most: int, *, within: Iterable[Transition]) -> tuple[list[Transition], list[Transition]] | None:
        """A shortest endless run among the first `most` states: the way to its loop, and the loop. `None` of none.

        Its loop consists of transitions `within`.
        """
        inside = frozenset(within)
        came: dict[State, tuple[State, Transition] | None] = {self.begin: None}
        # Loaded by those who look for loops.
        import networkx as nx

        graph: nx.DiGraph[State] = nx.DiGraph()
        waiting = deque([self.begin])
        while waiting and len(came) <= most:
            state = waiting.popleft()
            for one, target in self.steps(state):
                if target[0] == END.name:
                    continue
                if one in inside:
                    graph.add_edge(state, target)
                if target not in came:
                    came[target] = (state, one)
                    waiting.append(target)
        order = {state: number for number, state in enumerate(came)}
        best: tuple[State, list[Transition]] | None = None
        for component in nx.strongly_connected_components(graph):
            # Those that are reached first come first, and a few are enough: any loop convinces.
            for state in sorted(component, key=order.__getitem__)[:_ROOTS]:
                loop = self._round(state, component, inside)
                if loop is not None and (best is None or len(loop) < len(best[1])):
                    best = (state, loop)
        if best is None:
            return None
        return _back(came, best[0]), best[1]

    def _round(self, begin: State, component: set[State], inside: frozenset[Transition]) -> list[Transition] | None:
        """The shortest way from a state to itself within its component."""
        came: dict[State, tuple[State, Transition] | None] = {begin: None}
        waiting = deque([begin])
        while waiting:
            state = waiting.popleft()
            for one, target in self.steps(state):
                if one not in inside:
                    continue
                if target == begin:
                    return [*_back(came, state), one]
                if target in component and target not in came:
                    came[target] = (state, one)
                    waiting.append(target)
        return None


_ROOTS = 50


@dataclass(frozen=True, slots=True)
class _Move:
    """A transition in terms of counters by their place: what it spends, what it sets, what it needs.

    One of its `needs` must be below what it says (`None`: it needs none), and something left of each of `timely`.
    What it `drains` it takes if it is there.
    """

    transition: Transition
    spends: tuple[tuple[int, int], ...]
    sets: tuple[tuple[int, int], ...]
    needs: tuple[tuple[int, int], ...] | None
    timely: tuple[int, ...] = ()
    drains: tuple[tuple[int, int], ...] = ()

    def after(self, left: tuple[int, ...]) -> tuple[int, ...]:
        if not self.spends and not self.sets and not self.drains:
            return left
        counters = list(left)
        for index, amount in self.spends:
            counters[index] -= amount
        for index, amount in self.drains:
            counters[index] = max(0, counters[index] - amount)
        for index, value in self.sets:
            counters[index] = value
        return tuple(counters)


# The counters one of which must be below a number for a transition that a spent limit takes; `None`: it is always
# possible, and none of them: never.
_Needs: TypeAlias = tuple[tuple[int, int], ...] | None


# What a call of each kind is charged to.
_CALLS = {"model_calls": ("model_calls", "tokens"), "tool_calls": ("tool_calls",)}
_CALLED = [name for kind in _CALLS.values() for name in kind]


def _perhaps(one: Transition, limits: Mapping[str, float | None], place: Mapping[str, int]) -> _Needs:
    """When a transition may be possible: a `gate` when a counter is used up, or the clock may be over.

    A `within` at any time: visits may have spent more than the least, so what is left is not known. Of what an entry
    costs it is.
    """
    if one.kind != "gate" or limits["seconds"] is not None or limits["restarts"] is not None:
        return None
    return tuple((place[name], 1) for name in one.causes if name in place)


def _surely(one: Transition, limits: Mapping[str, float | None], place: Mapping[str, int]) -> _Needs:
    """When a transition is sure to be possible: without waiting, and without what other visits may have spent."""
    if one.kind == "move":
        return None
    needed: list[tuple[int, int]] = []
    for name in one.causes:
        limit, below = limits.get(name), _below(one, name)
        # What calls cost is not known.
        if limit is None or name in ("seconds", "restarts", "cost"):
            continue
        if below is None or (name not in place and limit < below):
            return None
        if name in place:
            needed.append((place[name], below))
    return tuple(needed)


def _by_the_clock(plain: _Move, clock: int, waiting: tuple[int, ...] | None) -> Iterator[_Move]:
    """A transition where a clock, in its own place among the counters, may be over.

    It is over once what a visit asked for took all the time there was, which needs something left of each of `waiting`
    (`None`: nothing is asked for). Then nothing is asked for any more, and nothing entered that costs anything.
    """
    one = plain.transition
    if one.grace is not None:
        # It may take time beyond the limit; without any, it asks for nothing any more, as others do.
        intime = (clock,) if one.kind == "move" and one.asks and not one.grace else ()
        yield dataclasses.replace(plain, timely=intime)
        if waiting is not None:
            yield dataclasses.replace(plain, needs=None, sets=(*plain.sets, (clock, 0)), timely=intime)
        return
    if one.kind == "gate":
        yield dataclasses.replace(plain, needs=(*(plain.needs or ()), (clock, 1)))
        return
    entered = (clock,) if one.spends or one.asks else ()
    yield dataclasses.replace(plain, timely=entered)
    if one.kind == "within" and not one.spends:
        yield dataclasses.replace(plain, needs=((clock, 1),))
    if waiting is not None:
        # Answered too late, or cut.
        over = (*plain.sets, (clock, 0))
        yield dataclasses.replace(plain, sets=over, needs=None, timely=(clock, *waiting))


def _waiting(one: Transition, limits: Mapping[str, float | None], place: Mapping[str, int]) -> tuple[int, ...] | None:
    """What must be left for a visit to wait for an answer; `None` if it cannot ask for anything."""
    budgets = [name for name in one.causes if name not in ("seconds", "restarts")]
    if any(limits.get(name) == 0 for name in budgets):
        return None
    return tuple(place[name] for name in budgets if name in place)


def _below(one: Transition, name: str) -> int | None:
    """Below what the rest of a limit must be for it to stop a visit: the most the visit wants at once."""
    if one.kind == "gate":
        return 1
    # Each model call takes a token at least, and is let through only if there is one for it.
    return {"model_calls": one.model_calls, "tokens": one.model_calls, "tool_calls": one.tool_calls}.get(name)


def _back(came: Mapping[State, tuple[State, Transition] | None], state: State) -> list[Transition]:
    """The way that was found to a state."""
    way: list[Transition] = []
    while (step := came[state]) is not None:
        state, one = step
        way.append(one)
    return way[::-1]
