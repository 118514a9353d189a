"""What a proof was made of cannot be changed afterwards, and the engine's own answers are not taken from handlers."""

import dataclasses
from collections.abc import Callable
from typing import Any, cast

import pytest

import graphexec as gx
from graphexec import errors, models
from graphexec.kernel import Limits, Meter
from graphexec.kernel.events import ChargedReply, Cut
from graphexec.kernel.meters import FrozenMapping
from tests.parameters import cases
from tests.verify.test_nested_proofs import PAGES, Address, Fetch, Missed, Page, fetch

MACHINE = gx.graph(gx.edges(fetch, gx.on(Page, gx.END) | gx.on(Missed, gx.END)), start=fetch)
LIMITS = Limits({PAGES: 2})
# Any: changes that type checkers refuse.
PROOF: Any = MACHINE.verify(LIMITS).certificate
MADE: Any = MACHINE
KIND: Any = Fetch
EXECUTOR: Any = gx.create_agent(models.ScriptedModel(["done"]), [])


class Lying(FrozenMapping[float | None]):
    def __getitem__(self, name: str) -> float:
        return 10.0**9


@cases(
    "change",
    lambda: KIND.charges.pop(PAGES),
    lambda: KIND.charges.update({PAGES: 0}),
    lambda: EXECUTOR.with_context(dataclasses.replace(EXECUTOR.run_context, proof=None)),
    lambda: EXECUTOR.with_context(dataclasses.replace(EXECUTOR.run_context, limits=Limits(iterations=99))),
    lambda: PROOF.ranks.update(fetch=((9, ()),)),
    PROOF.limits.clear,
    lambda: PROOF.bounds.meters.pop("pages"),
    PROOF.bounds.transitions.potential.lines.clear,
    lambda: setattr(PROOF, "ranks", {}),
    lambda: setattr(MADE, "edges", ()),
    lambda: setattr(MADE, "start", "elsewhere"),
    lambda: MADE.nodes.pop("fetch"),
    lambda: setattr(MADE["fetch"], "function", print),
    lambda: setattr(PAGES, "name", "others"),
    lambda: setattr(Meter("revisions", 3), "limit", 9),
    lambda: Limits(cast("Any", Lying({"pages": 1}))),
    lambda: Limits(FrozenMapping({"pages": -1})),
)
def test_nothing_that_a_proof_is_made_of_changes(change: Callable[[], object]) -> None:
    with pytest.raises((AttributeError, TypeError, errors.InputError, gx.LimitsError)):
        change()
    assert MACHINE.run(Address(0), handlers={Fetch: lambda effect: "text"}, limits=LIMITS).spent["pages"] == 1


@cases(
    ("answer", "fact"),
    (ChargedReply("text", {"pages": -5}), "a ChargedReply, which only the engine creates"),
    (ChargedReply("text", {}), "a ChargedReply, which only the engine creates"),
    (gx.Exhausted("pages", 1, 1), "an Exhausted, which only the engine creates"),
    (Cut(), "a Cut, but the run has no deadline"),
)
def test_answers_of_the_engine_are_not_taken_from_handlers(answer: object, fact: str) -> None:
    with pytest.raises(errors.InputError, match=fact):
        MACHINE.run(Address(0), handlers={Fetch: lambda effect: answer}, limits=LIMITS)
