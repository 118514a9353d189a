"""Explain why a flow has no ranking: find a shortest run that the table does not end, and a remedy."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any, final, get_origin, get_type_hints

from graphexec.errors import NodeError
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import ITERATIONS, Limits, Meter, is_measure
from graphexec.kernel.node import Node
from graphexec.kernel.signatures import accepts, name_of, read_spent_outcome, unwrap_function
from graphexec.verify.proof.findings import Finding, Witness, limit_remedy, options_of
from graphexec.verify.proof.flow import Flow, Transition, caps_of, limits_of, lower_limits
from graphexec.verify.proof.product import Product
from graphexec.verify.proof.ranking import Core, rank_nodes

# States of the product that are searched for an endless run. A larger product is searched again with small limits.
_STATES = 20_000
_SMALL = 2


def find_loops(flow: Flow, core: Core, limits: Limits, graph: Graph[Any, Any] | None = None) -> Iterator[Finding]:
    """Yield what prevents a proof for this core: a run that the table does not end, or the fact that none was found.

    The remedies name the functions of the `graph`.
    """
    if flow.measures:
        # A run with low first measures stands for all.
        flow = flow.with_measures(1)
    machine, caps = _Names(graph, flow), caps_of(flow, limits_of(flow, limits))
    # Those that are possible at any time, also after the deadline.
    anytime = limits.seconds is None
    untimed = [one for one in core.transitions if anytime or one.kind != "move" or not (one.is_paid or one.asks)]
    witness = _find_endless_run(flow, limits, within=untimed)
    if witness is not None:
        code, why = _classify(flow, caps, witness.loop)
        fact = f"the table alone does not end this loop: {_format_loop(witness.loop)}; {why}"
        outcome = witness.loop[0].outcome if len(witness.loop) == 1 else None
        remedy = _find_remedy(flow, core, caps, witness.loop, machine)
        yield Finding(code, "error", witness.loop[0].source, outcome, fact, remedy, witness)
        return
    witness = _find_endless_run(flow, limits, within=core.transitions)
    node = (witness.loop[0] if witness else core.transitions[0]).source
    if witness is not None:
        fact = f"only the {limits.seconds:g} seconds end this loop: {_format_loop(witness.loop)}; no counted limit does"
        remedy = f"add a counted limit: {_find_remedy(flow, core, caps, witness.loop, machine)}"
        yield Finding("GX012", "error", node, None, fact, remedy, witness)
        return
    names = ", ".join(dict.fromkeys(one.source for one in core.transitions))
    fact = f"found neither a budget that runs out in every loop through {names} nor a run that never ends"
    yield Finding(
        "GX017", "error", node, None, fact, "meter a node of these loops with a meter that nothing in them resets"
    )


def _find_endless_run(flow: Flow, limits: Limits, *, within: Sequence[Transition]) -> Witness | None:
    tried = limits
    product = Product(flow, limits_of(flow, tried), sure=True)
    found = product.lasso(_STATES, within=within)
    # If the whole product was searched, a loop under other limits would refute nothing.
    if found is None and product.exceeds(_STATES):
        own = {name: Meter(name, limit) for name, limit in flow.budgets if not is_measure(name)}
        tried = lower_limits(limits, own, _SMALL)
        found = Product(flow, limits_of(flow, tried), sure=True).lasso(_STATES, within=within)
    return None if found is None else Witness(tuple(found[0]), tuple(found[1]), tried)


def _format_loop(loop: Iterable[Transition]) -> str:
    return ", ".join(dict.fromkeys(map(str, loop)))


def _classify(flow: Flow, caps: Mapping[str, int | None], loop: Sequence[Transition]) -> tuple[str, str]:
    spent = sorted({name for one in loop for name, _ in one.spends})
    limited = [name for name in spent if caps[name] is not None]
    unlimited = _unlimited_budgets(flow, caps, loop)
    if limited and not unlimited:
        nested = [one for one in loop if _enters(one, limited)]
        if nested:
            name = nested[0].target.rpartition(".")[0]
            return "GX014", f"it spends {_join_names(limited)}, which each entry into {name} resets"
        resetting = next(one for one in loop if set(limited) & set(one.resets))
        return "GX015", f"it spends {_join_names(limited)}, which {resetting.source} --{resetting.outcome}--> resets"
    causes = {cause for one in loop if one.kind != "move" for cause in one.causes}
    if causes:
        return "GX009", "it is taken when a limit is reached, and spends nothing that could end it"
    named = unlimited or spent
    if named:
        return "GX016", f"it spends only {_join_names(named)}, without a limit"
    return "GX010", "it spends no budget"


def _unlimited_budgets(flow: Flow, caps: Mapping[str, int | None], loop: Sequence[Transition]) -> list[str]:
    """Return the budgets without a limit that the loop spends and does not reset."""
    own = [ITERATIONS.name, *(name for name, _ in flow.budgets)]
    spent = {name for one in loop for name, _ in one.spends} - {name for one in loop for name in one.resets}
    return [name for name in own if name in spent and caps[name] is None]


def _enters(one: Transition, limited: Sequence[str]) -> bool:
    """Return whether a transition enters an embedded graph from outside, which resets the budgets it owns."""
    prefix = one.target.rpartition(".")[0]
    return (
        bool(prefix)
        and not one.source.startswith(f"{prefix}.")
        and any(name in limited and name.startswith(f"{prefix}.") for name in one.resets)
    )


def _join_names(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _find_remedy(
    flow: Flow, core: Core, caps: Mapping[str, int | None], loop: Sequence[Transition], machine: _Names
) -> str:
    """Return a change that makes this core provable; each candidate is tried on the flow."""
    finite = [name for name, limit in caps.items() if limit is not None]
    spent = {name for one in loop for name, _ in one.spends}
    resetting = [one for one in loop if one.resets]
    stops = [one for one in loop if one.kind != "move"]
    if stops and not spent:
        return (
            f"route {stops[0].outcome} of {stops[0].source} out of the loop; if {stops[0].source} must run when the "
            f"limit is reached, give it its own meter"
        )
    candidates = _candidates(core, loop)
    metered = [one for one in candidates if _would_prove(core, _with_meter(core, one), [*finite, _NEW])]
    counting = [(node, count) for node in metered if (count := machine.count(node))]
    charged = [] if resetting or (counting and metered) else sorted(name for name in flow.charged if name in spent)
    for name in (*_unlimited_budgets(flow, caps, loop), *charged):
        if caps[name] is None and _would_prove(core, core.transitions, [*finite, name]):
            return limit_remedy(name, flow.charged, machine.options)
    without_resets = [dataclasses.replace(one, resets=()) if one in resetting else one for one in core.transitions]
    alternative = ""
    if counting and not resetting:
        node, count = counting[0]
        alternative = f"; or, if {count.partition(': ')[2]} falls at each visit to {node}, @node(decreases={count})"
    elif resetting and _would_prove(core, without_resets, finite):
        nested = _enters(resetting[0], sorted(spent))
        shared = all(map(is_measure, resetting[0].resets))
        share = "" if shared else "; or let it share the meters of the outer graph (own=)"
        alternative = share if nested else f"; or remove resets= from {resetting[0]}"
    if not metered:
        return f"meter each of its nodes with a meter that nothing in the loop resets{alternative}"
    node = metered[0]
    own = {*spent} - {*flow.charged}
    usual = not (own or resetting or counting or caps[ITERATIONS.name] is None)
    if usual and not any(ITERATIONS.name in one.resets for one in core.transitions):
        return f"meter {node}: {_describe_metering(flow, core, node, machine, 'ITERATIONS')}{alternative}"
    name = machine.make_new("extensions" if stops else "rounds")
    meter = f'Meter("{name}", {_EXTENSIONS if stops else _ROUNDS})'
    code = _describe_metering(flow, core, node, machine, meter)
    how = " with a meter that nothing resets" if own or resetting else ""
    return f"meter {node}{how}: {code}{alternative}"


# The limits of new meters in remedies.
_ROUNDS, _EXTENSIONS = 10, 2


def _with_meter(core: Core, node: str) -> list[Transition]:
    return [
        dataclasses.replace(one, spends=(*one.spends, (_NEW, 1))) if one.source == node else one
        for one in core.transitions
        if one.source != node or one.kind == "move"
    ]


# The name of a meter that no machine has.
_NEW = ""


def _would_prove(core: Core, transitions: Sequence[Transition], finite: Sequence[str]) -> bool:
    nodes = dict.fromkeys(name for one in core.transitions for name in (one.source, one.target))
    return not isinstance(rank_nodes(nodes, transitions, finite), list)


def _candidates(core: Core, loop: Sequence[Transition]) -> list[str]:
    """Return the loop's nodes in the order in which a meter on them is tried; reserved ones cannot have one.

    Last are those whose outcome for a limit stays in the loop, and those of embedded graphs.
    """
    resetting = [one.source for one in loop if one.resets]
    names = dict.fromkeys([*resetting, *(one.source for one in loop[1:]), *(one.source for one in loop[:1])])
    inside = {one.source for one in core.transitions if one.kind != "move"}
    reserved = {one.source for one in core.transitions if one.reserved}
    return sorted((one for one in names if one not in reserved), key=lambda one: (one in inside, "." in one))


def _describe_metering(flow: Flow, core: Core, node: str, machine: _Names, meter: str) -> str:
    """Return what to add to the `@node` that is metered, with the names that the machine's other nodes use."""
    ways = [one for one in flow.transitions if one.kind != "move"]
    own = [one for one in ways if one.source == node]
    if own:
        text = f"add meters=[{meter}] to its @node"
        inside = [one for one in own if one in core.transitions]
        return f"{text}, and route its {inside[0].outcome} out of the loop" if inside else text
    # An outer edge cannot lead to a node of an embedded graph.
    outside = [one for one in ways if one not in core.transitions and "." not in f"{node}{one.source}{one.target}"]
    added = f"meters=[{meter}] to its @node, and"
    for one in outside:
        if machine.fits(one, node):
            return f"add when_spent={machine.when_spent(one)}, {added} on({one.outcome}, {one.target}) in its row"
    outcome, outer = machine.make_new("Stopped"), node.rpartition(".")[0]
    rows = f"its row and in that of {outer}" if outer else "its row"
    return (
        f"add when_spent={outcome}, {added} on({outcome}, END) in {rows}; write the class {outcome} with two "
        f"fields: a value, an Exhausted"
    )


@final
class _Names:
    """What remedies take from the code of a machine; without its graph, from its flow."""

    def __init__(self, graph: Graph[Any, Any] | None, flow: Flow) -> None:
        self._nodes: Mapping[str, Node[Any, Any]] = {} if graph is None else graph.nodes
        self._taken = {*(one.outcome for one in flow.transitions), *dict(flow.budgets), *flow.charged}
        if graph is not None:
            self._taken |= {*graph.outcomes, *graph.meters}
        # The options of executors that limit its meters.
        self.options = options_of(() if graph is None else graph.meters.values())

    def make_new(self, name: str) -> str:
        """Return a name for a meter or the class of an outcome that the machine does not have: this one, or like it."""
        names = itertools.chain((name,), (f"{name}{number}" for number in itertools.count(2)))
        return next(one for one in names if one not in self._taken)

    def when_spent(self, one: Transition) -> str:
        """Return the name of the function that makes the outcome when a limit stops the node."""
        node = self._nodes.get(one.source)
        return one.outcome if node is None or node.when_spent is None else name_of(node.when_spent)

    def fits(self, one: Transition, name: str) -> bool:
        """Return whether this function of another node takes what the node takes, and its outcome is a new one."""
        other, node = self._nodes.get(one.source), self._nodes.get(name)
        if other is None or node is None or other.when_spent is None:
            return not self._nodes
        try:
            _, takes = read_spent_outcome(other.when_spent)
        # A node that was not made by its decorator may have one without annotations.
        except NodeError:
            return False
        new = all(kind.__name__ != one.outcome for kind in node.outcomes)
        return new and all(accepts(takes, kind) for kind in node.takes)

    def count(self, name: str) -> str:
        """Return code for the first count in the node's value: `lambda todo: len(todo.rest)`; empty if it has none."""
        node = self._nodes.get(name)
        if node is None or node.inner is not None:
            return ""
        function = unwrap_function(node.function)
        if node.kind == "opaque" and not inspect.iscoroutinefunction(function):
            return ""
        found = [_counts_of(kind) for kind in node.takes]
        shared = [field for field in found[0] if all(one.get(field) == found[0][field] for one in found)]
        if not shared:
            return ""
        field = shared[0]
        value = next(iter(inspect.signature(function).parameters))
        return f"lambda {value}: {found[0][field].format(f'{value}.{field}')}"


def _counts_of(kind: type) -> dict[str, str]:
    """Return how each field counts that is a whole number, or has a length and is not a string."""
    counts: dict[str, str] = {}
    if kind.__module__.partition(".")[0] == __name__.partition(".")[0]:
        # The values of the agents' own nodes do not count down.
        return counts
    # Annotations are code of the user's.
    try:
        hints = get_type_hints(kind)
    except Exception:  # noqa: BLE001 - a class may have some that cannot be resolved
        return counts
    for name, hint in hints.items():
        # Any: the class of an annotation.
        of: Any = get_origin(hint) or hint
        if of is int:
            counts[name] = "{}"
        elif isinstance(of, type) and issubclass(of, Sized) and not issubclass(of, (str, bytes)):
            counts[name] = "len({})"
    return counts
