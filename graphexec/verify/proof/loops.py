"""The reason why no ranking was found: a shortest run that never ends, and its remedy."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from graphexec.kernel.meters import ITERATIONS, Limits
from graphexec.verify.proof.findings import Finding, Witness, limit_remedy
from graphexec.verify.proof.flow import Flow, Transition, caps_of, lowered
from graphexec.verify.proof.product import Product
from graphexec.verify.proof.ranking import Core, rank_nodes

# States of the product that are searched for an endless run; if there are more, small limits are tried, too.
_STATES = 20_000
_SMALL = 2


def loops_found(flow: Flow, core: Core, limits: Limits) -> Iterator[Finding]:
    """Yield the obstacle to a proof in this core: an endless run, or that none was found."""
    timeless = core.transitions if limits.seconds is None else _timeless(core)
    witness = _endless(flow, limits, within=timeless)
    if witness is not None:
        yield _make_finding(flow, core, limits, witness)
        return
    witness = _endless(flow, limits, within=core.transitions)
    node = (witness.loop[0] if witness else core.transitions[0]).source
    if witness is not None:
        fact = f"only the {limits.seconds:g} seconds end this loop: {_format_loop(witness.loop)}; no count does"
        remedy = f"give it a limit that is counted: {_remedy(flow, core, limits, witness.loop)}"
        yield Finding("GX012", "error", node, None, fact, remedy, witness)
        return
    names = ", ".join(dict.fromkeys(one.source for one in core.transitions))
    fact = f"no budget is seen to run out in the loops through {names}, and no run that never ends was found"
    yield Finding("GX017", "error", node, None, fact, "meter a node in them by a budget that nothing in them resets")


def _timeless(core: Core) -> list[Transition]:
    return [one for one in core.transitions if one.kind != "move" or not (one.spends or one.asks)]


def _endless(flow: Flow, limits: Limits, *, within: Sequence[Transition]) -> Witness | None:
    tried = limits
    product = Product(flow, tried, sure=True)
    found = product.lasso(_STATES, within=within)
    # Where all of it was searched, what is possible under other limits only refutes nothing.
    if found is None and product.exceeds(_STATES):
        tried = lowered(limits, dict(flow.budgets), _SMALL)
        found = Product(flow, tried, sure=True).lasso(_STATES, within=within)
    return None if found is None else Witness(tuple(found[0]), tuple(found[1]), tried)


def _make_finding(flow: Flow, core: Core, limits: Limits, witness: Witness) -> Finding:
    loop = witness.loop
    code, why = _kind(flow, limits, loop)
    entry = loop[0]
    outcome = entry.outcome if len(loop) == 1 else None
    fact = f"this loop can run for ever: {_format_loop(loop)}; {why}"
    return Finding(code, "error", entry.source, outcome, fact, _remedy(flow, core, limits, loop), witness)


def _format_loop(loop: Iterable[Transition]) -> str:
    return ", ".join(dict.fromkeys(map(str, loop)))


def _kind(flow: Flow, limits: Limits, loop: Sequence[Transition]) -> tuple[str, str]:
    caps = caps_of(flow, limits)
    spent = sorted({name for one in loop for name, _ in one.spends})
    limited = [name for name in spent if caps[name] is not None]
    idle = _idle(flow, caps, loop)
    if limited and not idle:
        nested = [one for one in loop if _enters(one, limited)]
        if nested:
            name = nested[0].target.rpartition(".")[0]
            return "GX014", f"it spends {_and(limited)}, which {name} has anew at each entry"
        refill = next(one for one in loop if set(limited) & set(one.resets))
        return "GX015", f"it spends {_and(limited)}, which {refill.source} --{refill.outcome}--> refills"
    causes = {cause for one in loop if one.kind != "move" for cause in one.causes}
    if causes:
        return "GX009", "it is taken when a limit is spent, and spends nothing that could end it"
    unlimited = idle or spent
    if unlimited:
        return "GX016", f"it spends {_and(unlimited)}, which {'has' if len(unlimited) == 1 else 'have'} no limit"
    return "GX010", "it spends no budget"


def _idle(flow: Flow, caps: Mapping[str, int | None], loop: Sequence[Transition]) -> list[str]:
    """Return the budgets that the loop spends and does not refill, and that have no limit."""
    own = [ITERATIONS.name, *(name for name, _ in flow.budgets)]
    spent = {name for one in loop for name, _ in one.spends} - {name for one in loop for name in one.resets}
    return [name for name in own if name in spent and caps[name] is None]


def _enters(one: Transition, limited: Sequence[str]) -> bool:
    """Return whether a transition enters a nested graph from outside, which refills what the graph owns."""
    prefix = one.target.rpartition(".")[0]
    return (
        bool(prefix)
        and not one.source.startswith(f"{prefix}.")
        and any(name in limited and name.startswith(f"{prefix}.") for name in one.resets)
    )


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _remedy(flow: Flow, core: Core, limits: Limits, loop: Sequence[Transition]) -> str:
    """Return what to write, which was tried on the flow."""
    caps = caps_of(flow, limits)
    finite = [name for name, limit in caps.items() if limit is not None]
    spent = {name for one in loop for name, _ in one.spends}
    refills = [one for one in loop if one.resets]
    stops = [one for one in loop if one.kind != "move"]
    if stops and not spent:
        return (
            f"lead {stops[0].outcome} of {stops[0].source} out of the loop; if {stops[0].source} is to run when the "
            f"limit is spent, give it a budget of its own"
        )
    charged = [] if refills else sorted(name for name in flow.charged if name in spent)
    for name in (*_idle(flow, caps, loop), *charged):
        if caps[name] is None and _would_prove(core, core.transitions, [*finite, name]):
            return limit_remedy(name, flow.charged)
    keeping = [dataclasses.replace(one, resets=()) if one in refills else one for one in core.transitions]
    kept = ""
    if refills and _would_prove(core, keeping, finite):
        nested = _enters(refills[0], sorted(spent))
        kept = "; or let it share the budgets around it (own=)" if nested else f"; or leave out resets= on {refills[0]}"
    for node in _candidates(loop):
        if not _would_prove(core, _with_meter(core, node), [*finite, _NEW]):
            continue
        if not spent and not refills:
            return f"meter {node}: {_metering(flow, core, node)}{kept}"
        name = "extensions" if any(one.kind != "move" for one in loop) else "rounds"
        budget = f', budget=Budget("{name}", 2)'
        return f"meter {node} by a budget that nothing refills: {_metering(flow, core, node, budget)}{kept}"
    return f"meter each of its nodes by a budget that nothing in the loop refills{kept}"


def _with_meter(core: Core, node: str) -> list[Transition]:
    return [
        dataclasses.replace(one, spends=(*one.spends, (_NEW, 1))) if one.source == node else one
        for one in core.transitions
        if one.source != node or one.kind == "move"
    ]


# A budget that no machine has.
_NEW = ""


def _would_prove(core: Core, transitions: Sequence[Transition], finite: Sequence[str]) -> bool:
    nodes = dict.fromkeys(name for one in core.transitions for name in (one.source, one.target))
    return not isinstance(rank_nodes(nodes, transitions, finite), list)


def _candidates(loop: Sequence[Transition]) -> list[str]:
    """Return the loop's nodes in the order in which to try a meter on them."""
    refilling = [one.source for one in loop if one.resets]
    return list(dict.fromkeys([*refilling, *(one.source for one in loop[1:]), *(one.source for one in loop[:1])]))


def _metering(flow: Flow, core: Core, node: str, budget: str = "") -> str:
    """Return what to write to meter a node, after the example of the machine's other nodes."""
    ways = [one for one in flow.transitions if one.kind != "move"]
    own = [one for one in ways if one.source == node]
    # A nested graph's nodes cannot be led to from outside.
    outside = [one for one in ways if one not in core.transitions and "." not in f"{one.source}{one.target}"]
    shown = (own or outside)[:1]
    outcome = shown[0].outcome if shown else "Stopped"
    when_spent = "limit_reached" if outcome == "LimitReached" else outcome
    text = f"@metered(when_spent={when_spent}{budget}) above its @node"
    if any(one in core.transitions for one in own):
        return f"{text}, and lead its {outcome} out of the loop"
    if own:
        metered = any(one.kind == "gate" for one in own)
        return text.replace("its @node", "its @metered") if metered else f"{text}, in the place of its @charged"
    return f"{text}, and on({outcome}, {shown[0].target if shown else 'END'}) in its row"
