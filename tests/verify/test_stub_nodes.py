"""Stub nodes: for all bodies of nodes, the engine follows the table within the limits."""

import abc
import enum
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import Any, ClassVar, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import END, AskHuman, Effect, Graph, Machine, edges, errors, graph, on
from graphexec.effects import MODEL_CALLS, TOOL_CALLS, CallModel, CallTool, agent_limits
from graphexec.executor import AGENT_EXECUTOR, agent_graph
from graphexec.kernel import Limits, Meter
from graphexec.testing.explorer.abstraction import bare
from graphexec.testing.explorer.explore import explore
from graphexec.testing.explorer.oracle import replies_of
from graphexec.testing.explorer.stub_nodes import explore_table
from graphexec.verify.proof.findings import Witness
from graphexec.verify.proof.flow import Transition
from graphexec.verify.proof.prove import verify
from tests.kernel.machines import CLOCK, DIAMOND, ERRAND, INTERVIEW, PROMPTS, SELF_LOOP, SURVEY, Prompt, Stopped
from tests.parameters import cases
from tests.verify.errands import GUARDED, KINDS, READY, SHORTCUT, Colour, Kind, Label, executor_of, look_up
from tests.verify.execution import adversary, execute
from tests.verify.proofs import require
from tests.verify.writing import REVISIONS, WRITER, Chapter

# The same node, with a declared count of one.
_once = replace(PROMPTS["prompt"], least=1, most=1)
ASKING_ONCE: Graph[Any, Any] = graph(edges(_once, on(Prompt, _once) | on(Stopped, END)), start=_once)

MACHINES: list[Graph[Any, Any]] = [
    *(CLOCK, DIAMOND, SELF_LOOP, INTERVIEW, SURVEY, ASKING_ONCE, ERRAND, GUARDED, SHORTCUT),
    *(AGENT_EXECUTOR, agent_graph(strict=True)),
]


def test_every_edge_of_the_table_is_taken() -> None:
    found = explore_table(AGENT_EXECUTOR, agent_limits(iterations=2, tool_calls=1))
    assert found.never_taken == ()
    (unspent,) = explore_table(AGENT_EXECUTOR, Limits(iterations=2, fan_out=None)).never_taken
    assert str(unspent) == "dispatch_tools --Stopped--> stopped_response"
    endless = require(explore_table(CLOCK, Limits(iterations=None)).endless)
    assert list(map(str, endless.loop)) == ["tick --Tock--> tock", "tock --Tick--> tick"]


@st.composite
def all_limits(draw: st.DrawFn, most: int = 3) -> Limits:
    return agent_limits(
        iterations=draw(st.integers(0, most)),
        model_calls=draw(st.integers(0, most)),
        tool_calls=draw(st.none() | st.integers(0, most)),
        tokens=draw(st.none() | st.integers(0, most)),
        seconds=draw(st.sampled_from([None, None, 0.0, 1.0])),
        fan_out=draw(st.none() | st.integers(0, most)),
    )


@given(limits=all_limits(), kind=st.sampled_from(KINDS))
def test_table_allows_every_run_of_the_machine(limits: Limits, kind: Kind) -> None:
    executor = executor_of(kind, (look_up,))
    bodies = explore(executor.graph, limits, READY, replies_of(executor))
    table = explore_table(executor.graph, limits)
    assert set(bodies.taken) <= set(table.taken)
    assert set(bodies.endings) <= set(table.endings)
    assert require(bodies.longest) <= require(table.longest)
    assert (bodies.model_calls or 0) <= (table.model_calls or 0)


@given(data=st.data(), machine=st.sampled_from(MACHINES), limits=all_limits())
def test_no_adversary_exceeds_the_longest_run(data: st.DataObject, machine: Graph[Any, Any], limits: Limits) -> None:
    longest = require(explore_table(machine, limits).longest)
    trace = adversary(machine, limits, lambda instructions: data.draw(st.sampled_from(list(instructions))), longest + 1)
    assert len(trace) <= longest
    assert trace[-1].target == END.name
    assert all(edge.target == following.source for edge, following in pairwise(trace))


@cases(
    ("machine", "limits", "longest"),
    *((ASKING_ONCE, limits, 5) for limits in (agent_limits(tokens=4), agent_limits(model_calls=4))),
    # A count that is not declared may be zero.
    *((PROMPTS, limits, None) for limits in (agent_limits(tokens=4), agent_limits(model_calls=4))),
    # A chapter is written, criticized and edited; each of its revisions is another criticism. The edge resets them.
    *(
        (WRITER, Limits(iterations=chapters, meters={REVISIONS: revisions}), (3 + 2 * revisions) * chapters + 1)
        for chapters, revisions in product((0, 1, 3), (2, 4))
    ),
)
def test_longest_run_of_the_table(machine: Graph[Any, Any], limits: Limits, longest: int | None) -> None:
    found = explore_table(machine, limits)
    assert (found.longest, found.endless is None) == (longest, longest is not None)


# ---- witnesses


def moves(machine: Graph[Any, Any], *steps: tuple[str, str]) -> tuple[Transition, ...]:
    targets = {(edge.source, edge.outcome.__name__): edge.target for edge in machine.edges}
    return tuple(Transition(source, outcome, targets[source, outcome]) for source, outcome in steps)


_ASKED, _TOOLS = ("plan", "Replied"), (("dispatch_tools", "Observed"), ("check_return_direct", "Ready"))
UNREADABLE = moves(AGENT_EXECUTOR, _ASKED, ("parse", "Ready"))
ACTING = moves(AGENT_EXECUTOR, _ASKED, ("parse", "Acted"), *_TOOLS)
STOPPING = moves(AGENT_EXECUTOR, ("plan", "Stopped"))
FINISHING = moves(AGENT_EXECUTOR, _ASKED, ("parse", "AgentFinish"))
NO_LIMITS = Limits(iterations=None)
GATE = replace(STOPPING[0], kind="gate")
WITHIN = replace(moves(AGENT_EXECUTOR, ("dispatch_tools", "Stopped"))[0], kind="within")
STOPPED = moves(AGENT_EXECUTOR, ("stopped_response", "StoppedResponse"))
WRITING = moves(WRITER, ("write", "Text"), ("criticize", "Good"), ("edit", "Chapter"))


@cases(
    ("machine", "witness", "steps", "taken"),
    # A loop is followed for any length; without a loop there is an end.
    (AGENT_EXECUTOR, Witness(ACTING, UNREADABLE, NO_LIMITS), 1000, 1000),
    (WRITER, Witness((), WRITING, NO_LIMITS), 99, 99),
    (AGENT_EXECUTOR, Witness(ACTING, (), NO_LIMITS), 1000, 4),
    # The edges of limits that are reached.
    (AGENT_EXECUTOR, Witness((*ACTING, GATE, *STOPPED), (), Limits(iterations=1)), 100, 6),
    (AGENT_EXECUTOR, Witness((*ACTING[:2], WITHIN, *STOPPED), (), agent_limits(tool_calls=0)), 100, 4),
    (AGENT_EXECUTOR, Witness((*ACTING[:2], WITHIN, *STOPPED), (), Limits(seconds=1.0)), 100, 4),
)
def test_engine_follows_witness(machine: Graph[Any, Any], witness: Witness, steps: int, taken: int) -> None:
    assert execute(machine, witness, steps) == taken


@cases(
    ("witness", "message"),
    (Witness((), UNREADABLE, Limits(iterations=3)), "was to be step 7"),
    (Witness((), moves(AGENT_EXECUTOR, ("parse", "Ready")), NO_LIMITS), "was to be step 1"),
    (Witness((), STOPPING, Limits(iterations=0)), r"\(move\) was to be step 1"),
    (Witness(FINISHING, UNREADABLE, NO_LIMITS), "nowhere"),
)
def test_engine_rejects_wrong_witness(witness: Witness, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        execute(AGENT_EXECUTOR, witness, 100)


# ---- bare instances


class Word(str):
    __slots__ = ()


class Pair(NamedTuple):
    left: int
    right: int


class Refusing:
    def __init__(self) -> None:
        raise ValueError("there is no such thing")


class Slotted:
    __slots__ = ("text",)


class Nothing(enum.Enum):
    pass


@cases("kind", Colour, Word, Pair, Label, Refusing, Slotted, Chapter, int, str, tuple, object, ValueError)
def test_bare_instance_runs_no_class_code(kind: type) -> None:
    assert type(bare(kind)) is kind


class Unmade(abc.ABC):
    @abc.abstractmethod
    def made(self) -> None: ...


@cases("kind", Nothing, Unmade)
def test_a_class_that_has_no_instances_is_refused(kind: type) -> None:
    with pytest.raises(errors.InputError, match="cannot be an outcome"):
        bare(kind)


def test_run_is_resumed_with_other_limits() -> None:
    """At its beginning with more, whose longest run it then has; and with fewer than it has spent."""
    few, more = agent_limits(iterations=1, tool_calls=1), agent_limits(iterations=3, tool_calls=2)
    longest = explore_table(AGENT_EXECUTOR, more).longest
    for limits, others in ((few, more), (more, few)):
        proof = require(verify(AGENT_EXECUTOR, others).proof)
        found = explore_table(AGENT_EXECUTOR, limits, resumed=(others, proof))
        assert (found.endless, found.longest) == (None, longest)


@cases("restarts", 0, 1, 3)
def test_crash_costs_at_most_one_repeated_call(restarts: int) -> None:
    found = explore_table(AGENT_EXECUTOR, Limits(iterations=2, restarts=restarts))
    assert found.longest == 10
    assert found.model_calls == 2 + restarts
    assert explore_table(ASKING_ONCE, agent_limits(model_calls=3, restarts=restarts)).model_calls == 3


# ---- nodes that ask for several kinds of things


def asking(least: int, most: int | None, *effects: type[Effect[Any]]) -> Machine[Any, Any]:
    """A machine of the one node, which may ask for so many of these."""
    prompt = PROMPTS["prompt"]
    several = replace(prompt, effects=effects, least=least, most=most, outcomes=(Prompt, Stopped), returns=(Prompt,))
    return graph(edges(several, on(Prompt, END) | on(Stopped, END)), start=several)


ONE_OF_EACH, TWO_OF_EACH = (agent_limits(model_calls=each, tool_calls=each) for each in (1, 2))


@cases(
    ("machine", "limits", "calls", "endings"),
    # A call instead of a free effect is counted.
    (asking(1, 1, AskHuman, CallTool), Limits(), (0, 1), {"Prompt": 2}),
    # Neither limit allows two of one kind, so that only one of each comes back.
    (asking(2, 2, CallModel, CallTool), ONE_OF_EACH, (1, 1), {"Prompt": 1, "Stopped": 3}),
    (asking(3, 3, CallModel, CallTool), ONE_OF_EACH, (1, 1), {"Stopped": 4}),
    (asking(4, 4, CallModel, CallTool), TWO_OF_EACH, (2, 2), {"Prompt": 1, "Stopped": 5}),
    # Effects one after another are charged up to the limit.
    (asking(4, 4, CallTool), agent_limits(tool_calls=2), (0, 2), {"Stopped": 2}),
    (asking(4, None, CallTool), Limits(fan_out=2), (0, 2), {"Stopped": 2}),
    # A limit on tokens stops a batch of calls.
    (asking(0, None, CallModel), agent_limits(tokens=2), (2, 0), {"Prompt": 3, "Stopped": 2}),
)
def test_visit_is_charged_for_what_it_asks(
    machine: Graph[Any, Any], limits: Limits, calls: tuple[int, int], endings: dict[str, int]
) -> None:
    found = explore_table(machine, limits)
    assert (found.model_calls, found.tool_calls, found.endings) == (*calls, endings)


@cases(("tool_calls", "found", "enough"), (None, 8, 8), (3, 3, 8), (20, 20, 21))
def test_wide_fan_out_is_narrowed(tool_calls: int | None, found: int, enough: int) -> None:
    wide, narrow = (
        explore_table(asking(0, None, CallTool), agent_limits(tool_calls=tool_calls, fan_out=fan_out))
        for fan_out in (1_000, enough)
    )
    assert (wide.tool_calls, set(wide.endings)) == (found, {"Prompt", "Stopped"})
    assert wide == narrow


GOLD, SILVER = Meter("gold"), Meter("silver")


class Buy(Effect[None]):
    """Charges two meters, one of them several units."""

    charges: ClassVar[Mapping[Meter, int]] = {GOLD: 3, SILVER: 1}


class Weigh(Effect[float]):
    """Its reply reports the amount of one meter."""

    charges: ClassVar[Mapping[Meter, int]] = {SILVER: 2}
    measures: ClassVar[tuple[Meter, ...]] = (GOLD,)

    def measure(self, reply: float) -> tuple[float]:
        return (reply,)


CALLS = [(CallModel, CallTool), (AskHuman, CallTool), (AskHuman, CallModel, CallTool)]
CALL_LIMITS = [Limits({MODEL_CALLS: models, TOOL_CALLS: tools}) for models, tools in product((None, 0, 1, 2), repeat=2)]
BUYS = [(Buy,), (Weigh,), (Buy, Weigh)]
BUY_LIMITS = [Limits({GOLD: g, SILVER: s}) for g, s in product((None, 0, 2, 3, 6, 7), (None, 0, 1, 2, 3, 5))]
COUNTS = [(least, most) for most in (1, 2, 3) for least in (0, 1, 2) if least <= most]


@pytest.mark.medium
@cases(
    ("effects", "count", "all_limits"),
    *product(CALLS, COUNTS, [CALL_LIMITS]),
    *product(BUYS, [(0, 1), (1, 2), (0, 3), (2, 3)], [BUY_LIMITS]),
)
def test_stub_nodes_cover_all_charges(
    effects: tuple[type[Effect[Any]], ...], count: tuple[int, int], all_limits: list[Limits]
) -> None:
    least, most = count
    machine = asking(least, most, *effects)
    for limits in all_limits:
        ended: set[str] = set()
        taken: Counter[str] = Counter()
        for batches in _batches(effects, most):
            ending, spent = _visited(batches, least, limits)
            if ending:
                ended.add(ending)
                taken |= spent
        found = explore_table(machine, limits)
        assert found.charges is not None
        assert found.charges == {name: taken[name] for name in found.charges}, limits
        assert set(found.endings) == ended, limits


def _batches(effects: Sequence[type[Effect[Any]]], most: int) -> Iterator[list[list[type[Effect[Any]]]]]:
    """Return all sequences of at most so many effects, one by one and at once."""
    for count in range(most + 1):
        for asks in product(effects, repeat=count):
            yield [[effect] for effect in asks]
            yield [list(asks)]


def _visited(
    batches: Sequence[Sequence[type[Effect[Any]]]], least: int, limits: Limits
) -> tuple[str | None, Counter[str]]:
    """Return the expected end of a visit with these effects, and its charges."""
    spent: Counter[str] = Counter()
    for batch in batches:
        wanted = Counter(spent)
        for effect in batch:
            wanted.update({meter.name: amount for meter, amount in effect.charges.items()})
        compared = {meter.name for effect in batch for meter in effect.measures}
        for name, limit in limits.meters.items():
            if limit is None:
                continue
            if wanted[name] > max(limit, spent[name]) or (name in compared and spent[name] >= limit):
                return "Stopped", spent
        spent = wanted
    return ("Prompt" if sum(map(len, batches)) >= least else None), spent
