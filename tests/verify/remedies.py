"""Follow the remedies of findings: change the machine, or the limits, as their code says."""

import dataclasses
import re
from typing import Any, final

from graphexec import effects, kernel
from graphexec.kernel.graph import Graph, check_table
from graphexec.kernel.meters import FrozenMapping
from graphexec.kernel.node import Edge, Node
from graphexec.verify import Verdict, verify
from graphexec.verify.proof.findings import Finding
from tests.verify.proofs import require

_METERED = re.compile(
    r"meter (?P<node>[\w.]+)[^:]*: add (when_spent=(?P<spent>\w+), )?"
    r'meters=\[(ITERATIONS|Meter\("(?P<budget>\w+)", (?P<limit>\d+)\))\] to its @node'
    r"(, and on\((?P<outcome>\w+), (?P<target>\w+)\) in its row)?"
    r"(; write the class (?P<new>\w+) with two fields: a value, an Exhausted)?"
)
_MEASURED = re.compile(r"if (?P<count>[^;]+) falls at each visit to (?P<node>[\w.]+), @node\(decreases=(?P<code>.+)\)")
_UNRESET = re.compile(r"remove resets= from (?P<edge>.+)")
_OWN = re.compile(r'Limits\(\{Meter\("(?P<name>[\w.]+)"\): (?P<limit>\d+)\}\)')
_LIMIT = re.compile(r"agent_limits\((?P<meter>\w+)=|Limits\((?P<own>\w+)=\.\.\.\)")


def follow(finding: Finding, verdict: Verdict, known: dict[str, Any]) -> list[Verdict]:
    """Return the verdict after each alternative of the finding's remedy; `known` are the functions and classes."""
    found: list[Verdict] = []
    for part in re.split(r"; or,? |, or (?=Limits\(\{M)", finding.remedy.removeprefix("add a counted limit: ")):
        machine, limits = verdict.graph, verdict.limits
        if match := _METERED.fullmatch(part):
            machine = _meter(machine, match.groupdict(), known)
        elif match := _MEASURED.fullmatch(part):
            node = machine[match["node"]]
            # A lambda of the remedy.
            machine = _with(machine, dataclasses.replace(node, decreases=eval(match["code"])))
        elif match := _UNRESET.fullmatch(part):
            bare = [dataclasses.replace(edge, resets=()) for edge in machine.edges]
            edges = [one if str(one) == match["edge"] else edge for one, edge in zip(bare, machine.edges, strict=True)]
            assert edges != [*machine.edges], f"no edge is {match['edge']}"
            machine = check_table(type(machine), machine, edges, machine.start)
        elif match := _OWN.fullmatch(part):
            limits = dataclasses.replace(
                limits, meters=FrozenMapping({**limits.meters, match["name"]: int(match["limit"])})
            )
        elif match := _LIMIT.search(part):
            five: Any = {match["own"] or match["meter"]: 5}
            changes: Any = five if match["own"] else {"meters": effects.agent_limits(**five).meters}
            limits = dataclasses.replace(limits, **changes)
        else:
            # No code, such as "route Stopped of work out of the loop".
            continue
        found.append(verify(machine, limits))
    return found


def _meter(machine: Graph[Any, Any], code: dict[str, Any], known: dict[str, Any]) -> Graph[Any, Any]:
    node = machine[code["node"]]
    spent: Any = known.get(code["spent"], node.when_spent)
    if code["new"]:
        assert code["new"] == code["spent"], code
        assert code["new"] not in machine.outcomes, code
        fields = [("given", Any), ("limit", kernel.Exhausted)]
        spent = final(dataclasses.make_dataclass(code["new"], fields, frozen=True))
    budget = kernel.ITERATIONS if code["budget"] is None else kernel.Meter(code["budget"], int(code["limit"]))
    node = kernel.node(when_spent=spent, meters=[budget])(node)
    outcome = require(node.spent_outcome)
    row = [one for one in machine.edges if one.source == node.name]
    if code["outcome"]:
        assert code["outcome"] == outcome.__name__, code
        row = [Edge(node.name, outcome, code["target"])]
    return _with(machine, node, *(one for one in row if one not in machine.edges))


def _with(machine: Graph[Any, Any], node: Node[Any, Any], *added: Edge) -> Graph[Any, Any]:
    nodes = [node if one.name == node.name else one for one in machine]
    return check_table(type(machine), nodes, [*machine.edges, *added], machine.start)
