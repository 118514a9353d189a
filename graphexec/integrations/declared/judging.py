"""Judge a declared graph: whether every run of it ends, and what ends it.

The answer is that of the prover, for the machine made of the graph. The algorithms on graphs only name the loops.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, final, get_args

from graphexec.integrations.declared.declared import END, START, DeclaredGraph, Guard
from graphexec.kernel.graph import check_table
from graphexec.kernel.meters import Exhausted, Limits, Meter
from graphexec.kernel.node import END as STOP
from graphexec.kernel.node import Edge, Node
from graphexec.kernel.tables import reachable
from graphexec.machine import Machine
from graphexec.verify import Verdict
from graphexec.verify.paths import strongly_connected_components
from graphexec.verify.proof.flow import flow_of
from graphexec.verify.proof.prove import prove_flow

# From the best to the worst.
Ending: TypeAlias = Literal["ends", "bounded", "counted", "limited", "never"]
_ENDINGS: tuple[Ending, ...] = get_args(Ending)

# The limits of the guards are in the machine.
_LIMITS = Limits(iterations=None)

# Nodes, with the nodes that may follow each.
Following: TypeAlias = dict[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Judgement:
    """The answer for a graph.

    - `status`: `ends`, every run ends; `bounded`, guards bound all loops; `counted`, code seems to count the rounds of
      the other loops, which is not proved; `limited`, only the limit on steps, if any, ends a loop; `never`, no run
      ends that comes to some node. It is the worst one of the graph itself (`own`) and of its subgraphs (`inner`).
    - `loops` are shortest loops of the worst kind, each as its nodes in order.
    - `longest` is the most steps of a run, or a number above it if the graph is `bounded`; `None` if that is not proved
      or not known. `rounds` is the most rounds of a loop: 0 without loops, and `None` if nothing bounds them.
    - `machine` is made of the graph, without the limit on steps; it is drawn and proved, but not run.
    - `remedies` say how to bound the loops, in the terms of the library.
    - `passes` is true if every run ends within the limit on steps. With `max_rounds`, more rounds of a loop do not
      pass, and a loop that no guard bounds passes if the limit on steps allows no more.
    """

    status: Ending
    own: Ending
    loops: tuple[tuple[str, ...], ...]
    longest: int | None
    rounds: int | None
    graph: DeclaredGraph
    machine: Machine[Any, Any]
    remedies: tuple[str, ...] = ()
    inner: Mapping[str, Judgement] = field(default_factory=dict[str, "Judgement"])
    passes: bool = True

    @property
    def verdict(self) -> Verdict:
        """The verdict on the machine without the limit on steps, with an example of a run that does not end."""
        return self.machine.verify(_LIMITS)


def judge(graph: DeclaredGraph, *, max_rounds: int | None = None) -> Judgement:
    """Return the answer for a graph and its subgraphs; see `Judgement`."""
    live = _live(graph)
    stuck = live.keys() - _leading_to_end(graph, live) - {START}
    machine = make_machine(graph)
    proved = prove_flow(flow_of(machine), _LIMITS)[0] is not None
    own: Ending
    if proved:
        loops = _loops(live)
        own = "bounded" if loops else "ends"
    elif stuck:
        own, loops = "never", _loops(live, live.keys() - stuck)
    else:
        uncounted = _loops(live, {*graph.guards, *graph.counters})
        own, loops = ("limited" if uncounted else "counted"), uncounted or _loops(live, graph.guards)
    named = tuple(_name_loop(several, [*live]) for several in loops)
    guards = _guards_of_all_loops(graph, live) if loops and proved else {}
    longest = _longest(graph, live, guards) if proved else None
    bounds = [sum(guard.most for guard in guards.values())] if proved else []
    if graph.limit is not None:
        bounds.append(max((graph.limit // min(map(len, several)) for several in loops), default=0))
    # The highest limit on steps that allows no more rounds of any loop.
    shortest = min((len(loop) for several in loops for loop in several), default=1)
    highest = None if max_rounds is None else (max_rounds + 1) * shortest - 1
    inner = {node: judge(one, max_rounds=max_rounds) for node, one in graph.subgraphs.items()}
    status: Ending = max([own, *(one.status for one in inner.values())], key=_ENDINGS.index)
    # A run of as many steps as the limit allows ends with an error, too.
    fits = longest is None or graph.limit is None or longest < graph.limit
    accepted = all(one.passes for one in inner.values())
    rounds = min(bounds, default=None)
    few = rounds is not None and (max_rounds is None or rounds <= max_rounds)
    return Judgement(
        status,
        own,
        named,
        longest,
        rounds,
        graph,
        machine,
        _find_remedies(graph, () if proved else named, sorted(stuck), longest, highest),
        inner,
        fits and few and (proved or (own in ("counted", "limited") and max_rounds is not None)) and accepted,
    )


def _find_remedies(
    graph: DeclaredGraph,
    loops: Sequence[tuple[str, ...]],
    stuck: Sequence[str],
    longest: int | None,
    highest: int | None,
) -> tuple[str, ...]:
    """Return the remedies for loops that no guard bounds, for nodes without a way to the end, and for a low limit.

    `highest` is the highest limit on steps that passes, and `None` if no rounds of loops are allowed.
    """
    ours = graph.library == "LangGraph"
    # A step of pydantic-graph's builder returns a value, which a decision sends on.
    end = "return END" if ours else "return End, or a decision after it lead to end_node,"
    if stuck:
        nodes = " or ".join(stuck)
        how = f"put add_conditional_edges in the place of an edge of {nodes}, with a router that may return END"
        return (how if ours else f"let {nodes} {end.rstrip(',')}",)
    if not loops:
        low = longest is not None and graph.limit is not None and longest >= graph.limit
        return (f"set .with_config(recursion_limit={longest + 1})",) if low and longest is not None else ()
    found = list(graph.advice)
    inside = {node for loop in loops for node in loop}
    # One that code counts already needs what is proved.
    if not found and not inside & graph.counters.keys():
        exits = sorted(node for node in inside if graph.edges[node] - inside)
        found.append(f"count the rounds in the state, and let {' or '.join(exits)} {end} at a maximum")
    if ours and highest is None:
        found.append("set .with_config(recursion_limit=25), for example, and check it with --max-rounds")
    elif ours:
        found.append(
            f"set .with_config(recursion_limit={min(highest, graph.limit or highest)})"
            if highest
            else "raise --max-rounds"
        )
    return tuple(found)


def make_machine(graph: DeclaredGraph) -> Machine[Any, Any]:
    """Return the machine with the nodes that a run of the graph can reach, and with its guards as meters.

    A node from which no run comes to the end has an edge to it for a limit that is not set: every machine has an end.
    """
    live = _live(graph)
    ends = _leading_to_end(graph, live)
    # The kernel reserves a name that a node may have.
    names = {END: STOP.name} | {name: f"{name}_" if name == STOP.name else name for name in live}
    outcomes = {name: _make_class(name) for name in (*live, END)}
    spent = _make_class("__limit__")
    nodes: list[Node[Any, Any]] = []
    edges: list[Edge] = []
    for name, targets in live.items():
        returns = tuple(outcomes[target] for target in sorted(targets))
        made: Node[Any, Any] = Node(names[name], "pure", _not_run, (outcomes[name],), returns, returns, most=0)
        edges += [Edge(names[name], outcomes[target], names[target]) for target in sorted(targets)]
        guard = graph.guards.get(name)
        if guard is not None or name not in ends:
            # Names of meters are those that variables could have.
            meter = Meter(f"entries_{len(nodes)}", None if guard is None else guard.most)
            made = replace(made, meters=(meter,), outcomes=(*returns, spent), when_spent=_not_run, spent_outcome=spent)
            edges.append(Edge(names[name], spent, STOP.name))
        nodes.append(made)
    kind: type[Machine[Any, Any]] = Machine
    return check_table(kind, nodes, edges, START)


# Any: it has the type of every node.
def _not_run(value: Any, limit: Exhausted | None = None) -> Any:
    raise AssertionError(f"the machine of a declared graph is only proved and drawn, not run: {value!r}, {limit!r}")


def _make_class(name: str) -> type:
    return final(type(name, (), {}))


def _live(graph: DeclaredGraph) -> Following:
    """Return the nodes that a run can reach, and what follows them."""
    seen = reachable(START, [(source, target) for source, targets in graph.edges.items() for target in targets])
    return {node: targets for node, targets in graph.edges.items() if node in seen}


def _leading_to_end(graph: DeclaredGraph, live: Following) -> set[str]:
    pairs = [(target, source) for source, targets in live.items() for target in targets]
    return reachable(END, [*pairs, *((END, node) for node in graph.guards)])


def _loops(live: Following, without: Collection[str] = ()) -> list[list[tuple[str, ...]]]:
    """Return a shortest loop through each node of a component, for each component, without these nodes."""
    rest = _without(live, without)
    found = [
        [loop for node in rest if node in component and (loop := _shortest_loop(rest, node))]
        for component in strongly_connected_components(rest)
    ]
    # A run comes first to the components that are found last.
    return [loops for loops in reversed(found) if loops]


def _without(live: Following, without: Collection[str]) -> dict[str, list[str]]:
    rest = live.keys() - {*without}
    return {node: sorted(rest & targets) for node, targets in live.items() if node in rest}


def _name_loop(loops: list[tuple[str, ...]], nodes: list[str]) -> tuple[str, ...]:
    """Return the loop with the most nodes, from its node that is declared first."""
    loop = max(loops, key=len)
    first = min(range(len(loop)), key=lambda place: nodes.index(loop[place]))
    return loop[first:] + loop[:first]


def _shortest_loop(following: Mapping[str, Collection[str]], start: str) -> tuple[str, ...]:
    """Return a shortest loop through a node; nothing if there is none."""
    paths: dict[str, tuple[str, ...]] = {start: (start,)}
    pending = [start]
    for node in pending:
        for target in following[node]:
            if target == start:
                return paths[node]
            if target not in paths:
                paths[target] = (*paths[node], target)
                pending.append(target)
    return ()


def _guards_of_all_loops(graph: DeclaredGraph, live: Following) -> dict[str, Guard]:
    """Return the guard that bounds every loop with the fewest entries, or all guards if it takes several."""
    alone = [node for node in graph.guards if not _loops(live, [node])]
    best = min(alone, key=lambda node: graph.guards[node].most, default=None)
    return dict(graph.guards) if best is None else {best: graph.guards[best]}


def _longest(graph: DeclaredGraph, live: Following, guards: Mapping[str, Guard]) -> int | None:
    """Return the most steps of a run if there are no loops without these `guards`, or more, for a graph with loops."""
    if graph.deferred and guards:
        return None
    steps: dict[str, int] = {}
    # Each component is a node, after all that it reaches. The start is no step.
    for component in strongly_connected_components(_without(live, guards)):
        (node,) = component
        steps[node] = (node != START) + max((steps.get(target, 0) for target in live[node]), default=0)
    between = max(steps.values())
    # All others have ended when deferred nodes run, and those run together: each on a path begins a new phase.
    return sum(guard.most for guard in guards.values()) * (between + 1) + between * (1 + len(graph.deferred))
