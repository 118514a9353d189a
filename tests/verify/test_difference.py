"""What two machines differ in."""

from __future__ import annotations

import pytest

from graphexec import AGENT_EXECUTOR, STRICT_AGENT_EXECUTOR, Limits
from graphexec.errors import LimitsError
from graphexec.verify.difference import difference
from tests.verify.writing import PERFECTIONIST, WRITER


def test_a_machine_does_not_differ_from_itself() -> None:
    found = difference(WRITER, WRITER, Limits())
    assert not found
    assert str(found) == "no difference in nodes, edges, limits and bounds"


def test_an_edge_more_is_named_and_where_nothing_else_changes_nothing_else_is() -> None:
    found = difference(STRICT_AGENT_EXECUTOR, AGENT_EXECUTOR, Limits())
    assert str(found).splitlines() == [
        "~ node parse returns: was Acted | AgentFinish, now Acted | AgentFinish | Ready",
        "+ edge parse --Ready--> plan",
    ]


def test_nodes_edges_verdict_and_bounds_are_compared() -> None:
    found = difference(PERFECTIONIST, WRITER, Limits())
    lines = str(found).splitlines()
    assert "- node polish" in lines
    assert "+ node revise, metered by revisions (limit 2)" in lines
    assert "~ edge was criticize --Poor--> polish, now criticize --Poor--> revise" in lines
    assert "~ edge was edit --Chapter--> write, now edit --Chapter (revisions again)--> write" in lines
    assert "- edge polish --Text--> criticize" in lines
    assert "+ edge revise --Text--> criticize" in lines
    assert "~ verdict was refuted, now proved" in lines
    assert any(line.startswith("- finding GX010 at ") for line in lines)
    assert f"~ bound transitions: was no bound, now {found.after.certificate.bounds.transitions}" in lines  # type: ignore[union-attr] # pyright: ignore[reportOptionalMemberAccess]
    assert (found.before.status, found.after.status) == ("refuted", "proved")


def test_the_other_way_round_everything_is_the_other_way_round() -> None:
    there = difference(PERFECTIONIST, WRITER, Limits()).changes
    back = difference(WRITER, PERFECTIONIST, Limits()).changes
    turned = {"added": "removed", "removed": "added", "changed": "changed"}
    assert sorted((one.what, turned[one.how]) for one in there) == sorted((one.what, one.how) for one in back)


def test_limits_and_the_bounds_that_follow_from_them_are_compared() -> None:
    found = difference(AGENT_EXECUTOR, AGENT_EXECUTOR, Limits(iterations=20), old_limits=Limits(iterations=15))
    assert str(found).splitlines() == [
        "~ limit iterations: was 15, now 20",
        "~ bound transitions: was 4*iterations + 2 = 62 (exact), now 4*iterations + 2 = 82 (exact)",
        "~ bound model calls: was iterations = 15 (exact), now iterations = 20 (exact)",
    ]


def test_another_start_is_a_difference() -> None:
    assert str(difference(WRITER, AGENT_EXECUTOR, Limits())).startswith("~ start was write, now plan\n")


def test_a_limit_of_a_budget_that_one_of_them_has_is_that_ones() -> None:
    limits = Limits(budgets={"revisions": 1})
    assert difference(PERFECTIONIST, WRITER, limits).after.limits == limits
    assert difference(WRITER, PERFECTIONIST, limits).before.limits == limits
    changed = difference(WRITER, WRITER, limits, old_limits=Limits())
    assert "~ limit revisions: was 2, now 1" in str(changed)
    with pytest.raises(LimitsError, match="has no budget drafts"):
        difference(WRITER, PERFECTIONIST, Limits(budgets={"drafts": 1}))
