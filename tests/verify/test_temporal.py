"""Assertions about the order of events mean what they say of any run."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from graphexec import All, Answered, Asked, AskHuman, Done, Entered, Event, Moved, Spent
from graphexec.effects import CallModel, CallTool, ToolResult
from graphexec.errors import InputError
from graphexec.kernel import Snapshot
from graphexec.messages import CompletionRequest
from graphexec.testing.explorer import temporal
from graphexec.testing.explorer.temporal import Predicate
from tests.kernel.machines import error_message
from tests.parameters import cases
from tests.verify.errands import Approved, Errand, Replied, approve

MODEL = CallModel(CompletionRequest("What next?"))
DELETE, LOOK = CallTool("delete_file", {}), CallTool("list_files", {})
DONE_RESULT = ToolResult("done")
BATCH: Any = All((LOOK, DELETE))
DONE: Event[Any] = Done(Replied("so"), Snapshot("decide", Errand()))
APPROVED = Approved(Errand(), "delete_file")

EVENTS: list[Event[Any]] = [
    Entered("decide", Errand(), Spent()),
    Entered("approve", Errand(), Spent()),
    Asked("decide", MODEL),
    Asked("act", DELETE),
    Asked("act", LOOK),
    Asked("act", BATCH),
    Answered("act", DELETE, DONE_RESULT, 0.0, Spent()),
    Answered("act", BATCH, (DONE_RESULT, DONE_RESULT), 0.0, Spent()),
    Moved("approve", APPROVED, "act"),
    Moved("approve", Errand(), "decide"),
]
PREDICATES: list[Predicate] = [
    temporal.entered("decide"),
    temporal.left("approve"),
    temporal.left("approve", Approved),
    temporal.asked(CallTool),
    temporal.asked(AskHuman),
    temporal.answered(CallTool),
    temporal.calls_tool("delete_file"),
    temporal.calls_tool("delete_file", "list_files"),
    temporal.ended(),
    temporal.ended(Replied),
    temporal.ended(Errand),
]


def holds(assertion: temporal.Assertion, run: Sequence[Event[Any]]) -> bool:
    state = assertion.start
    for event in run:
        state = assertion.after(state, event)
    return state != temporal.BROKEN


# Runs that come to an end, and those that are cut off.
RUNS = st.lists(st.sampled_from(EVENTS), max_size=12).flatmap(lambda run: st.sampled_from([run, [*run, DONE]]))
TERMS = st.recursive(
    st.sampled_from(PREDICATES),
    lambda terms: (
        st.builds(Predicate.__or__, terms, terms)
        | st.builds(Predicate.__and__, terms, terms)
        | st.builds(Predicate.__invert__, terms)
    ),
    max_leaves=4,
)


@given(run=RUNS, what=TERMS, other=TERMS)
def test_assertions_mean_what_they_say(run: list[Event[Any]], what: Predicate, other: Predicate) -> None:
    whats = [place for place, event in enumerate(run) if what(event)]
    others = [place for place, event in enumerate(run) if other(event)]
    over = run[-1:] == [DONE]
    assert holds(temporal.always(what), run) == (len(whats) == len(run))
    assert holds(temporal.never(what), run) == (not whats)
    assert holds(temporal.eventually(what), run) == (not over or bool(whats))
    assert holds(temporal.followed(what, by=other), run) == (
        not over or all(any(later >= place for later in others) for place in whats)
    )
    assert holds(temporal.never_without(what, before=other), run) == all(
        any(earlier < place for earlier in others) for place in whats
    )
    assert holds(temporal.never_without(what, before=other, each=True), run) == all(
        sum(earlier < place for earlier in others) >= number for number, place in enumerate(whats, 1)
    )


@given(run=RUNS, what=TERMS, other=TERMS)
def test_broken_assertion_stays_broken(run: list[Event[Any]], what: Predicate, other: Predicate) -> None:
    for assertion in (
        temporal.always(what),
        temporal.never(what),
        temporal.never_without(what, before=other),
        temporal.never_without(what, before=temporal.left("approve"), each=True),
    ):
        if not holds(assertion, run):
            assert not holds(assertion, [*run, *EVENTS, DONE])


@given(event=st.sampled_from([*EVENTS, DONE]), what=TERMS, other=TERMS)
def test_predicates_can_be_combined(event: Event[Any], what: Predicate, other: Predicate) -> None:
    assert (what | other)(event) == (what(event) or other(event))
    assert (what & other)(event) == (what(event) and other(event))
    assert (~what)(event) != what(event)


@given(what=TERMS, other=TERMS, event=st.sampled_from([*EVENTS, DONE]))
def test_assertion_text_is_its_source(what: Predicate, other: Predicate, event: Event[Any]) -> None:
    for assertion in (
        temporal.followed(what, by=other),
        temporal.never_without(what, before=other, each=True),
        temporal.always(what),
    ):
        again: temporal.Assertion = eval(str(assertion), {**globals(), **vars(temporal)})
        assert again == assertion
        assert holds(again, [event]) == holds(assertion, [event])


@cases(
    ("what", "places"),
    (temporal.entered("decide"), [0]),
    (temporal.asked(CallModel), [2]),
    (temporal.asked(CallTool), [3, 4, 5]),
    (temporal.calls_tool("delete_file"), [3, 5]),
    (temporal.answered(CallTool), [6, 7]),
    (temporal.left("approve"), [8, 9]),
    (temporal.left("approve", Approved), [8]),
    (temporal.ended(Replied), [10]),
    (temporal.ended(Errand), []),
)
def test_a_predicate_knows_its_events(what: Predicate, places: list[int]) -> None:
    assert [place for place, event in enumerate([*EVENTS, DONE]) if what(event)] == places


def test_assertions_about_calls_and_approvals() -> None:
    assertion = temporal.never_without(temporal.answered(CallTool), before=temporal.asked(CallTool), each=True)
    call, result = EVENTS[3], EVENTS[6]
    assert holds(assertion, [call, result, call, result, DONE])
    assert not holds(assertion, [call, result, result])
    assert not holds(assertion, [result, call])
    delete, approved = EVENTS[5], EVENTS[8]
    assertion, each = (
        temporal.never_without(temporal.calls_tool("delete_file"), before=temporal.left("approve"), each=one)
        for one in (False, True)
    )
    assert holds(assertion, [approved, delete, delete])
    assert not holds(assertion, [Moved("decide", APPROVED, "act"), delete])
    assert not holds(each, [approved, delete, delete])
    assert str(each) == "never_without(calls_tool('delete_file'), before=left('approve'), each=True)"


def is_quiet(event: Event[Any]) -> bool:
    return type(event) is Entered


@cases(("names", "given"), ((["a", "b"],), "['a', 'b']"), ((), "nothing"))
def test_invalid_tool_names_are_refused(names: Any, given: str) -> None:
    assert error_message(InputError, temporal.calls_tool, *names) == f"calls_tool is given {given}; give names of tools"


def test_node_stands_for_its_name_and_function_for_predicate() -> None:
    assert temporal.entered(approve) == temporal.entered(approve.name)
    assert temporal.left(approve) == temporal.left(approve.name)
    assertion = temporal.always(temporal.predicate(is_quiet))
    assert str(assertion) == "always(predicate(is_quiet))"
    assert holds(assertion, EVENTS[:2])
    assert not holds(assertion, EVENTS)
