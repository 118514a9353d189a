"""One line holds an executor to its promise: what keeps it passes, and each defect is found."""

import contextlib
import dataclasses
import re
import traceback
from collections.abc import Callable, Generator
from typing import Any

import hypothesis
import pytest
from pydantic import SecretStr

import graphexec as gx
from graphexec.errors import CertificateError, InputError, ParseError
from graphexec.executor import Acted, Ready, Stopped, dispatch_tools, limit_reached, parse, stopped_response
from graphexec.kernel import Snapshot, Spent
from graphexec.kernel.counters import Counters
from graphexec.kernel.effects import Perform
from graphexec.testing import ScriptedModel, verify_termination
from graphexec.testing import properties as checked
from graphexec.testing.setup import trial_of
from graphexec.tools import AnyTool
from tests.executor.actors import echo
from tests.kernel.machines import INSISTENT, Asking, machine_of, value
from tests.parameters import cases
from tests.verify.orders import ORDERS, PARCELS, PAYMENTS, Order, Pay, Ship


@gx.tool(return_direct=True, timeout=3)
async def direct(text: str) -> str:
    """Answer with it."""
    return text


TOOLS: list[AnyTool] = [echo, direct]
# A model that is never asked: an attack answers in its place.
UNASKED = ScriptedModel([])


def decide(steps: Any, inputs: Any) -> Any:
    return [gx.AgentAction("echo", {"text": "so"})] if len(steps) < 2 else gx.AgentFinish({"output": inputs["input"]})


AGENTS: dict[str, Callable[[], Any]] = {
    "react": lambda: gx.create_react_agent(UNASKED, TOOLS),
    "structured": lambda: gx.create_structured_agent(UNASKED, TOOLS),
    "tool calling": lambda: gx.create_tool_calling_agent(UNASKED, TOOLS),
    "callable": lambda: decide,
}


def executor_of(kind: str = "tool calling", **settings: Any) -> gx.AgentExecutor:
    chosen: dict[str, Any] = {"handle_parsing_errors": True, **settings}
    return gx.AgentExecutor(agent=AGENTS[kind](), tools=TOOLS, **chosen)


# ---- what keeps its promise


@pytest.mark.medium
@cases(
    ("kind", "settings"),
    *((kind, {}) for kind in AGENTS),
    ("structured", {"max_execution_time": 20}),
    ("react", {"handle_parsing_errors": False}),
)
def test_an_executor_of_any_kind_keeps_its_promise(kind: str, settings: dict[str, Any]) -> None:
    executor = executor_of(kind, max_iterations=3, max_tool_calls=5, **settings)
    # 2 examples, or 25 where properties are tried with many.
    bounds = verify_termination(executor, examples=hypothesis.settings().max_examples // 4).bounds
    assert bounds is not None
    numbers = (bounds.transitions.number, bounds.model_calls.number, bounds.tool_calls.number)
    calls = 5 if executor.agent.max_actions is None else 3
    # A structured agent has rules: two more nodes that ask up to twice and once, and two that answer calls.
    assert numbers == ((26, 12, calls) if kind == "structured" else (14, 3, calls))


@value
class Fetch(gx.Effect[str]):
    url: str


@gx.node(when_spent=limit_reached)
def look_up(acted: Acted) -> gx.Asks[Fetch | gx.AskHuman, Acted | gx.AgentFinish]:
    page = yield from gx.ask(Fetch("https://example.org"))
    answer = yield from gx.ask(gx.AskHuman(f"{page}: go on?"))
    return acted if answer == "yes" else gx.AgentFinish({"output": page})


# Any: routes and nodes of any kind.
FINISH: Any = gx.on(gx.AgentFinish, gx.END)


def spliced(executor: gx.AgentExecutor, one: Any, routes: Any) -> gx.AgentExecutor:
    """Return the executor with a node between the parser and the tools."""
    routes = gx.on(Acted, dispatch_tools) if routes is None else gx.on(Acted, dispatch_tools) | routes
    return executor.with_graph(gx.splice(executor.graph, gx.edges(one, routes), after=parse, on=Acted))


def looking_up(**settings: Any) -> gx.AgentExecutor:
    routes = FINISH | gx.on(Stopped, stopped_response)
    return spliced(executor_of(max_iterations=2, **settings), look_up, routes)


@pytest.mark.medium
def test_node_with_custom_effects_keeps_the_promise() -> None:
    verdict = verify_termination(looking_up(), replies={Fetch: ["", "a page"]}, examples=15)
    assert verdict.bounds is not None
    assert verdict.bounds.transitions.form == "5*iterations + 2"


@pytest.mark.medium
def test_machine_without_values_or_proof_is_refused() -> None:
    with pytest.raises(InputError, match=re.escape("pass replies={Fetch: [...]}")):
        verify_termination(looking_up())
    with pytest.raises(InputError, match=re.escape("starts with Draft, but no start value is known; pass start=")):
        verify_termination(WRITER)
    verify_termination(WRITER, start=Draft("so"), examples=15)
    with pytest.raises(AssertionError, match=r"(?s)REFUTED.*improve --Draft--> improve"):
        verify_termination(WRITER, start=Draft("so"), limits=gx.Limits(iterations=None))


@value
class Draft:
    text: str


@value
class Printed:
    text: str


@value
class TooMuch:
    draft: Draft
    limit: gx.Exhausted


@gx.node(when_spent=TooMuch, meters=[gx.ITERATIONS])
def improve(draft: Draft) -> Draft | Printed:
    return Draft(draft.text + "!") if len(draft.text) < 5 else Printed(draft.text)


@gx.node(when_spent=TooMuch, opaque=True)
def publish(draft: Draft) -> Printed:
    raise AssertionError("a real node does I/O")


WRITER: gx.Machine[Draft, Printed | TooMuch] = machine_of(improve)
PUBLISHER: gx.Graph[Draft, Printed | TooMuch] = machine_of(publish)


@pytest.mark.medium
def test_nodes_may_ask_but_not_endlessly() -> None:
    replies: dict[Any, Any] = {gx.AskHuman: ["yes", "no", "perhaps"]}
    with pytest.raises(AssertionError, match="insist asks for AskHuman 100 times in one visit"):
        verify_termination(INSISTENT, start=Asking("OK?"), replies=replies, examples=15)
    limits = gx.Limits(fan_out=20)
    verify_termination(INSISTENT, start=Asking("OK?"), replies=replies, examples=15, limits=limits)
    verify_termination(PUBLISHER, start=Draft("so"), replies={Perform: [Printed("so")]}, examples=15)


# ---- what does not


@gx.node
def careless(acted: Acted) -> Acted:
    if len(acted.actions) > 1:
        raise KeyError("second")
    return acted


def careless_executor() -> gx.AgentExecutor:
    return spliced(executor_of(), careless, None)


@pytest.mark.medium
def test_node_exception_shows_the_replies() -> None:
    with pytest.raises(AssertionError, match=r"careless raises KeyError\('second'\) at") as raised:
        checked.check_attacks(trial_of(careless_executor()))
    notes = "\n".join(raised.value.__notes__)
    assert "the replies: CallModel: calls several" in notes
    assert "the path: plan --Replied--> parse --Acted-->" in notes
    assert re.search(r"attack=turns=\(\d+\)", notes)


@pytest.mark.medium
def test_node_exception_is_found_unless_allowed() -> None:
    with pytest.raises(AssertionError) as raised:
        verify_termination(careless_executor(), examples=1)
    text, cause = str(raised.value), raised.value.__cause__
    path = "plan --Replied--> parse, parse --Acted--> careless"
    assert text.startswith(f"careless raises KeyError('second'): {path}; the world replies ")
    place = r"raised at \S*test_properties.py:\d+"
    assert re.search(rf"; {place}; let no node raise it, or pass raises=\(KeyError,\)$", text)
    # The line that raises it, and none of graphexec's own.
    assert cause is not None
    assert [frame.name for frame in traceback.extract_tb(cause.__traceback__)] == ["careless"]
    checked.check_attacks(trial_of(careless_executor(), raises=(KeyError,)), examples=15)
    verify_termination(careless_executor(), examples=5, raises=(KeyError, ParseError))


@pytest.mark.medium
def test_broken_declaration_has_a_remedy_of_its_own() -> None:
    @gx.node
    def guard(acted: Acted) -> Acted:
        return Ready(acted.run)  # type: ignore[return-value]  # pyright: ignore

    with pytest.raises(AssertionError, match=r"guard raises UndeclaredOutcomeError\(.*; fix the node$"):
        verify_termination(spliced(executor_of(), guard, None), examples=1)


def test_a_value_that_cannot_be_stored_is_found() -> None:
    @gx.node(when_spent=TooMuch, meters=[gx.ITERATIONS])
    def hold(draft: Draft) -> gx.Asks[gx.AskHuman, Draft | Printed]:
        answer = yield from gx.ask(gx.AskHuman("more?"))
        return draft if answer == "yes" else Printed("so")

    # An object has no JSON, and a secret would be read back as stars.
    for text in (object(), SecretStr("root")):
        held: Any = text
        with pytest.raises(AssertionError, match=r"a run cannot be paused: the state at hold cannot be stored.*\.text"):
            verify_termination(machine_of(hold), start=Draft(held), examples=5)


# ---- defects of the engine and of the drivers, each seeded, each found


@pytest.fixture
def as_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the attack that finds a defect as long as it is."""
    monkeypatch.setattr(checked, "SHRINKING", 0)


@contextlib.contextmanager
def seeded(owner: Any, name: str, defect: Callable[[Any], Any]) -> Generator[None]:
    """Put a defect made of the right one in its place."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, defect(owner.__dict__[name]))
        yield


def one_too_many(enter: Any) -> Any:
    def entered(self: Any, step: Any, value: object) -> Any:
        entry = step.entry
        step.entry = tuple((name, amount, limit + (name == "iterations")) for name, amount, limit in entry)
        try:
            return enter(self, step, value)
        finally:
            step.entry = entry

    return entered


def uncharged(charge: Any) -> Any:
    def charged_nothing(self: Any, step: Any, request: Any, asked: int) -> Any:
        calls = self._counts["tool_calls"]
        stopped = charge(self, step, request, asked)
        self._counts["tool_calls"] = min(self._counts["tool_calls"], calls + 1)
        return stopped

    return charged_nothing


def counted_once(charge: Any) -> Any:
    def charged_once(self: Any, step: Any, request: Any, asked: int) -> Any:
        before = dict(self._counts)
        stopped = charge(self, step, request, asked)
        self._counts = {name: min(count, before[name] + 1) for name, count in self._counts.items()}
        return stopped

    return charged_once


def refilled(from_json: Any) -> Any:
    def read(text: str, table: Any) -> Snapshot:
        snapshot: Snapshot = from_json.__func__(text, table)
        return dataclasses.replace(snapshot, spent=Spent(seconds=snapshot.spent.seconds))

    return staticmethod(read)


class StoppedClock:
    """The run's time, which is set once: for its beginning."""

    def __init__(self, slot: Any) -> None:
        self.slot = slot

    def __get__(self, owner: Any, kind: type) -> Any:
        return self.slot.__get__(owner, kind)

    def __set__(self, owner: Any, seconds: float) -> None:
        try:
            self.slot.__get__(owner)
        except AttributeError:
            self.slot.__set__(owner, seconds)


DEFECTS: dict[str, tuple[Any, str, Callable[[Any], Any]]] = {
    "the check is <= for <": (Counters, "_enter", one_too_many),
    "a fan-out is charged once": (Counters, "_charge", uncharged),
    "a resumed run has its budgets again": (Snapshot, "from_json", refilled),
    "the run's clock stands still": (Counters, "seconds", StoppedClock),
}


def short_lived() -> gx.AgentExecutor:
    return executor_of(max_iterations=2, max_tool_calls=2, max_execution_time=8)


PAID: dict[Any, Any] = {Pay: [True, False], Ship: [0.5, 2.0]}
ORDERLY: dict[str, Any] = {"start": Order(), "limits": gx.Limits({PAYMENTS: 5, PARCELS: 2}), "replies": PAID}


@pytest.mark.medium
def test_custom_meters_stay_within_their_limits() -> None:
    bounds = verify_termination(ORDERS, examples=25, **ORDERLY).bounds
    assert bounds is not None
    assert {name: bound.number for name, bound in bounds.meters.items()} == {"parcels": 2, "payments": 5}


@pytest.mark.medium
@pytest.mark.usefixtures("as_found")
def test_undercounted_charge_is_found() -> None:
    with seeded(Counters, "_charge", counted_once), pytest.raises(AssertionError):
        # What is chosen by chance finds it in a hundred runs or two.
        verify_termination(ORDERS, examples=400, **ORDERLY)


@pytest.mark.medium
def test_without_a_defect_nothing_is_found() -> None:
    verify_termination(short_lived(), examples=25)


@pytest.mark.medium
@pytest.mark.usefixtures("as_found")
@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_of_the_engine_is_found(defect: str) -> None:
    owner, name, made = DEFECTS[defect]
    with seeded(owner, name, made), pytest.raises((AssertionError, CertificateError, ExceptionGroup)):
        verify_termination(short_lived(), examples=25)


@pytest.mark.medium
@pytest.mark.usefixtures("as_found")
def test_waiting_for_a_stubborn_call_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphexec.runtime.tasks.GRACE", 3.0)
    with pytest.raises(AssertionError, match=r"seconds, but at most .* are proved"):
        # What is chosen by chance finds it in fifty attacks or a hundred.
        checked.check_attacks(trial_of(executor_of(max_execution_time=8)), examples=400)
