"""Differences between two machines."""

import pytest

from graphexec import Limits, errors
from graphexec.executor import AGENT_EXECUTOR, STRICT_AGENT_EXECUTOR
from graphexec.verify import diff
from tests.verify.proofs import bounds_of
from tests.verify.writing import PERFECTIONIST, WRITER


def test_only_what_differs_is_reported() -> None:
    found = diff(WRITER, WRITER)
    assert not found
    assert str(found) == "no difference in nodes, edges, limits and bounds"
    found = diff(STRICT_AGENT_EXECUTOR, AGENT_EXECUTOR, Limits())
    assert str(found).splitlines() == [
        "~ node parse returns: was Acted | AgentFinish, now Acted | AgentFinish | Ready",
        "+ edge parse --Ready--> plan",
    ]
    assert str(diff(WRITER, AGENT_EXECUTOR, Limits())).startswith("~ start was write, now plan\n")


def test_nodes_edges_verdict_and_bounds_are_compared() -> None:
    found = diff(PERFECTIONIST, WRITER, Limits())
    lines = str(found).splitlines()
    assert {
        "- node polish",
        "+ node revise, metered by revisions (limit 2)",
        "~ edge was criticize --Poor--> polish, now criticize --Poor--> revise",
        "~ edge was edit --Chapter--> write, now edit --Chapter (resets revisions)--> write",
        "- edge polish --Text--> criticize",
        "+ edge revise --Text--> criticize",
        "~ verdict was refuted, now proved",
        f"~ bound transitions: was no bound, now {bounds_of(WRITER).transitions}",
    } <= set(lines)
    assert any(line.startswith("- finding GX010 at ") for line in lines)
    assert (found.before.status, found.after.status) == ("refuted", "proved")


def test_reversed_difference_is_inverse() -> None:
    there = diff(PERFECTIONIST, WRITER, Limits()).changes
    back = diff(WRITER, PERFECTIONIST, Limits()).changes
    turned = {"added": "removed", "removed": "added", "changed": "changed"}
    assert sorted((one.what, turned[one.how]) for one in there) == sorted((one.what, one.how) for one in back)


def test_difference_compares_limits_and_bounds() -> None:
    found = diff(AGENT_EXECUTOR, AGENT_EXECUTOR, Limits(iterations=20), limits_before=Limits(iterations=15))
    assert str(found).splitlines() == [
        "~ limit iterations: was 15, now 20",
        "~ bound transitions: was 4*iterations + 2 = 62 (exact), now 4*iterations + 2 = 82 (exact)",
        "~ bound model calls: was iterations = 15 (exact), now iterations = 20 (exact)",
        "~ bound tool calls: was fan_out*iterations = 15,000 (exact), now fan_out*iterations = 20,000 (exact)",
    ]


def test_limit_applies_to_machine_with_the_budget() -> None:
    limits = Limits(budgets={"revisions": 1})
    assert diff(PERFECTIONIST, WRITER, limits).after.limits == limits
    assert diff(WRITER, PERFECTIONIST, limits).before.limits == limits
    changed = diff(WRITER, WRITER, limits, limits_before=Limits())
    assert "~ limit revisions: was 2, now 1" in str(changed)
    with pytest.raises(errors.LimitsError, match="has no budget drafts"):
        diff(WRITER, PERFECTIONIST, Limits(budgets={"drafts": 1}))


def test_difference_has_nodes_and_edges_as_data() -> None:
    found = diff(PERFECTIONIST, WRITER)
    assert [node.name for node in found.nodes.added] == ["revise"]
    assert [node.name for node in found.nodes.removed] == ["polish"]
    assert found.nodes.changed == ()
    assert found.edges.added == tuple(edge for edge in WRITER.edges if edge.source == "revise")
    assert found.edges.removed == tuple(edge for edge in PERFECTIONIST.edges if edge.source == "polish")
    assert [(old.target, new.target) for old, new in found.edges.changed][:1] == [("polish", "revise")]
    assert all(old in PERFECTIONIST.edges and new in WRITER.edges for old, new in found.edges.changed)
    found = diff(STRICT_AGENT_EXECUTOR, AGENT_EXECUTOR)
    assert found.nodes.changed == ((STRICT_AGENT_EXECUTOR["parse"], AGENT_EXECUTOR["parse"]),)


def test_a_name_is_not_a_graph() -> None:
    with pytest.raises(errors.InputError, match=r"is not a graph; write diff\(executor.graph, other_executor.graph\)"):
        diff(AGENT_EXECUTOR, "plan")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
