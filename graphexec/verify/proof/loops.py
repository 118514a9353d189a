"""Explain why a flow has no ranking: find a shortest run that never ends, and a remedy."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from graphexec.kernel.meters import ITERATIONS, Limits
from graphexec.verify.proof.findings import Finding, Witness, limit_remedy
from graphexec.verify.proof.flow import Flow, Transition, caps_of, lower_limits
from graphexec.verify.proof.product import Product
from graphexec.verify.proof.ranking import Core, rank_nodes

# States of the product that are searched for an endless run. A larger product is searched again with small limits.
_STATES = 20_000
_SMALL = 2


def find_loops(flow: Flow, core: Core, limits: Limits) -> Iterator[Finding]:
    """Yield what prevents a proof for this core: a run that never ends, or the fact that none was found."""
    untimed = core.transitions if limits.seconds is None else _untimed(core)
    witness = _find_endless_run(flow, limits, within=untimed)
    if witness is not None:
        yield _make_finding(flow, core, limits, witness)
        return
    witness = _find_endless_run(flow, limits, within=core.transitions)
    node = (witness.loop[0] if witness else core.transitions[0]).source
    if witness is not None:
        fact = f"only the {limits.seconds:g} seconds end this loop: {_format_loop(witness.loop)}; no counted limit does"
        remedy = f"add a counted limit: {_find_remedy(flow, core, limits, witness.loop)}"
        yield Finding("GX012", "error", node, None, fact, remedy, witness)
        return
    names = ", ".join(dict.fromkeys(one.source for one in core.transitions))
    fact = f"found neither a budget that runs out in every loop through {names} nor a run that never ends"
    yield Finding(
        "GX017", "error", node, None, fact, "meter a node of these loops with a budget that nothing in them resets"
    )


def _untimed(core: Core) -> list[Transition]:
    """Return the transitions that are possible at any time, also after the deadline."""
    return [one for one in core.transitions if one.kind != "move" or not (one.spends or one.asks)]


def _find_endless_run(flow: Flow, limits: Limits, *, within: Sequence[Transition]) -> Witness | None:
    tried = limits
    product = Product(flow, tried, sure=True)
    found = product.lasso(_STATES, within=within)
    # If the whole product was searched, a loop under other limits would refute nothing.
    if found is None and product.exceeds(_STATES):
        tried = lower_limits(limits, dict(flow.budgets), _SMALL)
        found = Product(flow, tried, sure=True).lasso(_STATES, within=within)
    return None if found is None else Witness(tuple(found[0]), tuple(found[1]), tried)


def _make_finding(flow: Flow, core: Core, limits: Limits, witness: Witness) -> Finding:
    loop = witness.loop
    code, why = _classify(flow, limits, loop)
    entry = loop[0]
    outcome = entry.outcome if len(loop) == 1 else None
    fact = f"this loop can run forever: {_format_loop(loop)}; {why}"
    return Finding(code, "error", entry.source, outcome, fact, _find_remedy(flow, core, limits, loop), witness)


def _format_loop(loop: Iterable[Transition]) -> str:
    return ", ".join(dict.fromkeys(map(str, loop)))


def _classify(flow: Flow, limits: Limits, loop: Sequence[Transition]) -> tuple[str, str]:
    caps = caps_of(flow, limits)
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


def _find_remedy(flow: Flow, core: Core, limits: Limits, loop: Sequence[Transition]) -> str:
    """Return a change that makes this core provable; each candidate is tried on the flow."""
    caps = caps_of(flow, limits)
    finite = [name for name, limit in caps.items() if limit is not None]
    spent = {name for one in loop for name, _ in one.spends}
    resetting = [one for one in loop if one.resets]
    stops = [one for one in loop if one.kind != "move"]
    if stops and not spent:
        return (
            f"route {stops[0].outcome} of {stops[0].source} out of the loop; if {stops[0].source} must run when the "
            f"limit is reached, give it its own budget"
        )
    charged = [] if resetting else sorted(name for name in flow.charged if name in spent)
    for name in (*_unlimited_budgets(flow, caps, loop), *charged):
        if caps[name] is None and _would_prove(core, core.transitions, [*finite, name]):
            return limit_remedy(name, flow.charged)
    without_resets = [dataclasses.replace(one, resets=()) if one in resetting else one for one in core.transitions]
    alternative = ""
    if resetting and _would_prove(core, without_resets, finite):
        nested = _enters(resetting[0], sorted(spent))
        share = "; or let it share the budgets of the outer graph (own=)"
        alternative = share if nested else f"; or remove resets= from {resetting[0]}"
    for node in _candidates(loop):
        if not _would_prove(core, _with_meter(core, node), [*finite, _NEW]):
            continue
        if not spent and not resetting:
            return f"meter {node}: {_describe_metering(flow, core, node)}{alternative}"
        name = "extensions" if any(one.kind != "move" for one in loop) else "rounds"
        budget = f', budget=Budget("{name}", 2)'
        code = _describe_metering(flow, core, node, budget)
        return f"meter {node} with a budget that nothing resets: {code}{alternative}"
    return f"meter each of its nodes with a budget that nothing in the loop resets{alternative}"


def _with_meter(core: Core, node: str) -> list[Transition]:
    return [
        dataclasses.replace(one, spends=(*one.spends, (_NEW, 1))) if one.source == node else one
        for one in core.transitions
        if one.source != node or one.kind == "move"
    ]


# The name of a budget that no machine has.
_NEW = ""


def _would_prove(core: Core, transitions: Sequence[Transition], finite: Sequence[str]) -> bool:
    nodes = dict.fromkeys(name for one in core.transitions for name in (one.source, one.target))
    return not isinstance(rank_nodes(nodes, transitions, finite), list)


def _candidates(loop: Sequence[Transition]) -> list[str]:
    """Return the loop's nodes in the order in which a meter on them is tried."""
    resetting = [one.source for one in loop if one.resets]
    return list(dict.fromkeys([*resetting, *(one.source for one in loop[1:]), *(one.source for one in loop[:1])]))


def _describe_metering(flow: Flow, core: Core, node: str, budget: str = "") -> str:
    """Return the code that meters a node, with the names that the machine's other nodes use."""
    ways = [one for one in flow.transitions if one.kind != "move"]
    own = [one for one in ways if one.source == node]
    # An outer edge cannot lead to a node of an embedded graph.
    outside = [one for one in ways if one not in core.transitions and "." not in f"{one.source}{one.target}"]
    example = (own or outside)[:1]
    outcome = example[0].outcome if example else "Stopped"
    when_spent = "limit_reached" if outcome == "LimitReached" else outcome
    text = f"@metered(when_spent={when_spent}{budget}) above its @node"
    if any(one in core.transitions for one in own):
        return f"{text}, and route its {outcome} out of the loop"
    if own:
        metered = any(one.kind == "gate" for one in own)
        return text.replace("its @node", "its @metered") if metered else f"{text}, in the place of its @charged"
    if not example:
        return (
            f"{text}, and on(Stopped, END) in its row; write the class Stopped with two fields: a value, an Exhausted"
        )
    return f"{text}, and on({outcome}, {example[0].target}) in its row"
