"""Small flows (the executor's, bad ones, random ones), and their longest runs by exhaustive search."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from graphexec import effects, kernel
from graphexec.verify.proof.flow import Flow, Transition, caps_of, limits_of
from graphexec.verify.proof.product import Product

# The charges of effects: a model call takes at least one token. Other meters are only measured.
MODEL_CALL = (
    ("model_calls", 1),
    ("tokens", 1),
    ("cached_tokens", 0),
    ("completion_tokens", 0),
    ("cost", 0),
    ("prompt_tokens", 0),
)
TOOL_CALL = (("tool_calls", 1),)


def calling(*, models: int | None = 0, tools: int | None = 0, others: int = 0) -> dict[str, Any]:
    """Return fields of a transition with at most so many calls (`None`: any number); `others` cost nothing."""
    kinds = [kind for kind, most in ((MODEL_CALL, models), (TOOL_CALL, tools), ((), others)) if most != 0]
    most = None if models is None or tools is None else max(models, tools, others)
    # Cut tools have a reply, so their node continues.
    return {"most": most, "effect_charges": tuple(kinds), "answered": kinds == [TOOL_CALL]}


# ---- transitions in short: a --> b, spending and resetting


def way(source: str, target: str, spends: str = "", resets: str = "", **more: Any) -> Transition:
    """Return a transition that spends one of each budget in `spends` ("x y") and resets those in `resets`."""
    one_of_each = tuple((name, 1) for name in spends.split())
    return Transition(source, f"To{target}", target, spends=one_of_each, resets=tuple(resets.split()), **more)


def end(source: str, spends: str = "", **more: Any) -> Transition:
    return way(source, kernel.END.name, spends, **more)


def gate(source: str, spent: str, target: str = kernel.END.name) -> Transition:
    """Return the way from a node whose budget is used up."""
    return way(source, target, kind="gate", causes=(*spent.split(), "seconds", "restarts"))


def within(source: str, spent: str = "", target: str = kernel.END.name, spends: str = "", **more: Any) -> Transition:
    """Return the way from a visit that a limit stops."""
    return way(source, target, spends, kind="within", causes=(*spent.split(), "seconds", "restarts"), **more)


def flow_with(*ways: Transition, **budgets: int | None) -> Flow:
    """Return the flow of these transitions, which starts with the first."""
    return Flow(ways[0].source, tuple(dict.fromkeys(one.source for one in ways)), ways, tuple(budgets.items()))


# ---- flows with an endless run, by cause

BAD = {
    "a loop that spends nothing": flow_with(
        way("plan", "parse", "iterations"),
        gate("plan", "iterations", "stop"),
        *(way("parse", "plan"), way("parse", "reflect"), way("reflect", "parse"), end("stop")),
    ),
    "a loop that refills what it spends": flow_with(
        way("plan", "parse", "iterations"),
        gate("plan", "iterations", "stop"),
        *(way("parse", "plan", "", "iterations"), end("parse"), end("stop")),
    ),
    # No simple cycle is endless: it takes all four transitions.
    "two loops that refill each other": flow_with(
        *(way("draft", "check", "drafts", "questions"), gate("draft", "drafts", "stop")),
        *(way("check", "draft"), way("check", "ask")),
        *(way("ask", "check", "questions", "drafts"), gate("ask", "questions", "stop")),
        end("stop"),
        drafts=2,
        questions=2,
    ),
    "a stop charged to what is spent": flow_with(
        *(way("plan", "plan", "iterations"), gate("plan", "iterations", "generate")),
        *(end("generate", "iterations"), gate("generate", "iterations", "generate")),
    ),
    # Stuck flows: there is no transition once the limit is reached, or none at all.
    "no way on when a limit is spent": flow_with(way("plan", "plan", "iterations")),
    "no way on": Flow("plan", ("plan",), (way("plan", "parse"), end("plan"))),
}

# A loop that changes nothing. Without the tick, TLA+ would not see it.
SPINNING = flow_with(way("wait", "wait"), end("wait"))

# Keywords, special labels of SPIN, a macro of its preprocessor, ends of comments, and names that differ only in
# characters that identifiers cannot have.
AWKWARD_NAMES = ("if", "end", "accept_all", "progress", "linux", "a.b", "a_b", "é", "ê", '"', "\\", "*/", "(*", "Next")
AWKWARD = Flow(
    AWKWARD_NAMES[0],
    AWKWARD_NAMES,
    tuple(
        Transition(name, following, following, spends=((name, 1),))
        for name, following in zip(AWKWARD_NAMES, (*AWKWARD_NAMES[1:], "END"), strict=True)
    ),
    tuple((name, 1) for name in AWKWARD_NAMES),
)

# `look` may use up the calls that `say` needs, though it may also make none: four steps with two calls.
_ONE, _TWO = calling(models=1), calling(models=2)
MISSING_CALLS = flow_with(
    *(way("look", "say", **_TWO), within("look", "model_calls", "stop", **_TWO)),
    *(end("say", "model_calls", **_ONE), within("say", "model_calls", "stop", **_ONE)),
    *(way("stop", "leave"), end("leave")),
)

# ---- random flows

BUDGETS = ("iterations", "drafts", "questions")


def sometimes(values: st.SearchStrategy[tuple[str, ...]], *, out_of: int) -> st.SearchStrategy[tuple[str, ...]]:
    """Return these values in one of `out_of` cases, and otherwise none."""
    return st.integers(1, out_of).flatmap(lambda number: values if number == out_of else st.just(()))


@st.composite
def flows(draw: st.DrawFn, *, asking: bool = True) -> Flow:
    """Random flows of up to four nodes, shaped as `flow_of` makes them; they may be endless but not stuck.

    Unless `asking` is false, some nodes call models, as often as they like up to a number.
    """
    nodes = ("plan", "parse", "inner.plan", "inner_plan")[: draw(st.integers(1, 4))]
    some = st.sets(st.sampled_from(BUDGETS), min_size=1, max_size=2).map(lambda names: tuple(sorted(names)))
    found: list[Transition] = []
    for place, node in enumerate(nodes):
        # Without free back edges, most flows end.
        onwards = st.sampled_from((*nodes[place + 1 :], "END"))
        anywhere = st.sampled_from((*nodes, "END"))
        entry = tuple((name, 1) for name in draw(st.one_of(some, some, st.just(()))))
        most = draw(st.integers(0, 2)) if asking else 0
        least = draw(st.integers(0, most))
        spends = (*entry, ("model_calls", least)) if least else entry
        for outcome in ("Done", "Again")[: draw(st.integers(1, 2))]:
            target = draw(anywhere if spends else st.one_of(onwards, onwards, anywhere))
            resets = draw(sometimes(some, out_of=5))
            more: dict[str, Any] = {"asks": least, **calling(models=most)}
            found.append(Transition(node, outcome, target, spends=spends, resets=resets, **more))
        spent = Transition(node, "Stopped", draw(onwards))
        if entry:
            found.append(replace(spent, kind="gate", causes=(*dict(entry), "seconds")))
        if most or draw(st.booleans()):
            causes = ("model_calls", "seconds") if most else ("seconds",)
            found.append(replace(spent, kind="within", spends=entry, causes=causes, **calling(models=most)))
    return Flow(nodes[0], nodes, tuple(found), (("drafts", 1), ("questions", 2)))


@st.composite
def limits(draw: st.DrawFn) -> kernel.Limits:
    """Return random small limits for these flows; some are `None`."""
    small = st.sampled_from((0, 1, 2, 3, 4, None))
    own: dict[kernel.Meter, int | None] = draw(st.dictionaries(st.sampled_from(BUDGETS[1:]).map(kernel.Meter), small))
    seconds = draw(st.sampled_from((None, None, 9.0)))
    return effects.agent_limits(iterations=draw(small), model_calls=draw(small), seconds=seconds, meters=own)


def product_of(flow: Flow, limits: kernel.Limits, *, sure: bool = False) -> Product:
    return Product(flow, limits_of(flow, limits), sure=sure)


# ---- exhaustive search


def longest_run(flow: Flow, limits: kernel.Limits) -> int | None:
    """Return the most transitions of any run, or `None` if some run does not end, by visiting each state.

    The third opinion, made of `Transition`'s docstring alone.
    """
    caps = {name: cap for name, cap in caps_of(flow, limits_of(flow, limits)).items() if cap is not None}
    start = (flow.start, tuple(caps.items()))
    longest: dict[State, int] = {}
    path: dict[State, Iterator[State]] = {start: _following(flow, limits, start)}
    best: dict[State, int] = {start: -1}
    while path:
        state = next(reversed(path))
        for after in path[state]:
            if after in path:
                return None
            if after not in longest:
                path[after] = _following(flow, limits, after)
                best[after] = 0 if after[0] == kernel.END.name else -1
                break
            best[state] = max(best[state], 1 + longest[after])
        else:
            del path[state]
            if best[state] < 0:
                return None
            longest[state] = best[state]
            if path:
                before = next(reversed(path))
                best[before] = max(best[before], 1 + longest[state])
    return longest[start]


State = tuple[str, tuple[tuple[str, int], ...]]


def _following(flow: Flow, limits: kernel.Limits, state: State) -> Iterator[State]:
    node, counters = state[0], dict(state[1])
    caps = caps_of(flow, limits_of(flow, limits))
    uncounted = {"seconds": limits.seconds, "restarts": limits.restarts, "fan_out": limits.fan_out}
    for each in flow.transitions:
        anytime = any(uncounted.get(cause) is not None for cause in each.causes)
        if each.kind == "gate":
            caused = anytime or any(counters.get(cause) == 0 for cause in each.causes)
        else:
            caused = each.kind == "move" or anytime or any(cause in counters for cause in each.causes)
        if each.source != node or not caused:
            continue
        after = {name: left - dict(each.spends).get(name, 0) for name, left in counters.items()}
        if min(after.values(), default=0) >= 0:
            yield each.target, tuple((name, caps[name] or 0 if name in each.resets else n) for name, n in after.items())
