"""A flow under given limits as guarded commands (Dijkstra, 1975): what the exports write down, each in its language."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from graphexec.errors import LimitsError, format_value
from graphexec.kernel.meters import Limits
from graphexec.kernel.node import END
from graphexec.verify.proof.flow import Flow, Transition, caps_of, limits_of

# The integers of SPIN and of TLC have 32 bits. One is kept for the step after the last one that is allowed.
_MOST = 2**31 - 2


@dataclass(frozen=True, slots=True)
class Command:
    """One way on: possible if all of `takes` are left and, where `empty` names counters, one of these is at 0.

    It subtracts `takes`, then fills `refills` to their limits. `causes` are those of the transition that have a limit.
    """

    transition: Transition
    causes: tuple[str, ...]
    takes: tuple[tuple[str, int], ...]
    empty: tuple[str, ...]
    refills: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GuardedProgram:
    """The counters with their limits, at which they begin, and the ways on from each node; a run ends at `END`."""

    start: str
    nodes: Mapping[str, tuple[Command, ...]]
    counters: Mapping[str, int]


def guarded(flow: Flow, limits: Limits) -> GuardedProgram:
    """Return the walks of the flow that the limits allow.

    Transitions whose causes have no limit are left out, and budgets without one are not counted. A cause that is not
    counted, such as `seconds`, can come at any time. Raises `LimitsError` for a limit that is too large for a model
    checker.
    """
    caps = {name: cap for name, cap in caps_of(flow, limits).items() if cap is not None}
    limited = {name for name, limit in limits_of(flow, limits).items() if limit is not None}
    found = [command for each in flow.transitions if (command := _command(each, caps, limited))]
    used = {name for command in found for name in (*dict(command.takes), *command.empty)}
    counters = {name: whole_number(f"the limit {name}", cap) for name, cap in caps.items() if name in used}
    joined = [name for command in found for name in (command.transition.source, command.transition.target)]
    nodes = dict[str, list[Command]]((name, []) for name in (flow.start, *flow.nodes, *joined) if name != END.name)
    for command in found:
        refills = tuple(name for name in counters if name in command.transition.resets)
        nodes[command.transition.source].append(replace(command, refills=refills))
    return GuardedProgram(flow.start, {name: tuple(commands) for name, commands in nodes.items()}, counters)


def _command(transition: Transition, caps: Mapping[str, int], limited: set[str]) -> Command | None:
    causes = tuple(name for name in transition.causes if name in limited)
    if transition.kind != "move" and not causes:
        return None
    spends = Counter[str]()
    for name, amount in transition.spends:
        spends[name] += amount
    takes = tuple((name, amount) for name, amount in spends.items() if name in caps and amount)
    if any(amount > caps[name] for name, amount in takes):
        return None
    at_zero = transition.kind == "gate" and all(name in caps for name in causes)
    return Command(transition, causes, takes, causes if at_zero else ())


def whole_number(subject: str, number: int) -> int:
    """Return the number, or raise `LimitsError` if a model checker could not count to it."""
    if not 0 <= number <= _MOST:
        raise LimitsError(
            f"{subject} is {format_value(number)}, which model checkers cannot count to; give one from 0 to {_MOST}"
        )
    return number


def identifiers(prefix: str, names: Iterable[str]) -> list[str]:
    """Return a unique identifier for each name: its ASCII letters, digits and underscores behind the prefix.

    The prefix keeps them off keywords, and off SPIN's labels that begin with end, progress or accept.
    """
    made: dict[str, None] = {}
    for name in names:
        plain = unique = prefix + re.sub(r"[^A-Za-z0-9]", "_", name)
        number = 1
        while unique in made:
            number += 1
            unique = f"{plain}_{number}"
        made[unique] = None
    return list(made)


def changes(command: Command, counters: Mapping[str, int], left: Mapping[str, str]) -> dict[str, str]:
    """Return the new values of the variables `left` that a command changes."""
    taken = {left[name]: f"{left[name]} - {amount}" for name, amount in command.takes}
    return taken | {left[name]: str(counters[name]) for name in command.refills}


def remark(command: Command) -> str:
    """Return the comment on a command: the transition and its kind, in printable ASCII that closes no comment."""
    transition = command.transition
    kind = "" if transition.kind == "move" else f" ({transition.kind}: {', '.join(command.causes)})"
    return ascii(f"{transition}{kind}")[1:-1].replace("*/", "* /")
