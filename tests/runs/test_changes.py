"""Code that changes while a run is stored: refused with the name of what changed, or the run is the same."""

import os
import subprocess
import sys
import types
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from graphexec import AskHuman, Machine, RunResult
from graphexec.kernel import Done
from graphexec.kernel.stepping import replay
from graphexec.runs import RunChangedError, SQLiteRuns
from tests.parameters import cases

# A machine with effects of its own, a batch, and a question.
ORDERS = """
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, final

from pydantic import BaseModel

from graphexec import END, Asks, AskHuman, Effect, Exhausted, ask, ask_all, edges, graph, node, on
from graphexec.kernel import ITERATIONS, Meter

class Kind(Enum):
    GREEN = "g"
    BLACK = "b"

class Sort(BaseModel, frozen=True):
    kind: Kind = Kind.GREEN

@final
@dataclass(frozen=True)
class Order:
    item: str
    count: int = 2
    sort: Sort = Sort()
    note: str = "soon"

@dataclass(frozen=True)
class Price(Effect[float]):
    item: str

@dataclass(frozen=True)
class Stock(Effect[int]):
    item: str
    shop: str = "here"
    # Which JSON cannot express.
    look: object = len

@final
@dataclass(frozen=True)
class Offer:
    item: str
    total: float
    left: int

@final
@dataclass(frozen=True)
class Bought:
    offer: Offer
    by: str

@final
@dataclass(frozen=True)
class Dropped:
    why: str

@final
@dataclass(frozen=True)
class Stopped:
    at: object
    limit: Exhausted

@node(when_spent=Stopped)
def check(order: Order) -> Asks[Price | Stock, Offer | Dropped]:
    price = yield from ask(Price(order.item))
    here, there = yield from ask_all([Stock(order.item), Stock(order.item, "there")])
    if here + there < order.count:
        return Dropped("sold out")
    return Offer(order.item, price * order.count, here + there)

@node
def pack(offer: Offer) -> Offer:
    return offer

@node(when_spent=Stopped)
def confirm(offer: Offer) -> Asks[AskHuman, Bought | Dropped]:
    person = yield from ask(AskHuman(f"Who buys {offer.item}?"))
    again = yield from ask(AskHuman(f"{person}, really?"))
    return Bought(offer, person) if again == "yes" else Dropped(again)

def answer_stock(asked: Stock) -> int:
    return 3

def answer_price(asked: Price) -> float:
    return 1.25

def answer_person(asked: AskHuman) -> str:
    return "Ann" if asked.question.startswith("Who") else "yes"

machine = graph(
    edges(check, on(Offer, pack) | on(Dropped, END) | on(Stopped, END))
    | edges(pack, on(Offer, confirm))
    | edges(confirm, on(Bought, END) | on(Dropped, END) | on(Stopped, END)),
    start=check,
)
handlers = {Stock: answer_stock, Price: answer_price, AskHuman: answer_person}
value = Order("tea")
"""

AGENT = '''
from dataclasses import dataclass

from graphexec import AgentExecutor, create_agent, tool
from graphexec.messages import ModelReply, ToolCall
from graphexec.models import ScriptedModel

@dataclass
class Answer:
    text: str
    sure: bool = True

@tool
def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b

@tool
def look_up(what: str) -> str:
    """Look something up."""
    return what * 2

def make(first: int) -> AgentExecutor:
    replies = [
        ModelReply("", (ToolCall("1", "add", '{"a": 1}'),)),
        ModelReply("", (ToolCall("2", "look_up", '{"what": "a"}'), ToolCall("3", "add", '{"a": 2, "b": 5}'))),
        '{"text": "done"}',
    ]
    model = ScriptedModel(replies[first:])
    return create_agent(model, [add, look_up], kind="tool_calling", system_prompt="Be kind.", output_type=Answer)
'''


def change_text(source: str, changes: str) -> str:
    """Return a program with changes of its text: `old -> new && ...`."""
    for change in filter(None, changes.split(" && ")):
        old, new = change.split(" -> ")
        assert old in source, old
        source = source.replace(old, new)
    return source


@contextmanager
def loaded(source: str, changes: str = "") -> Generator[Any]:
    """Load a program whose text has changed."""
    module = types.ModuleType("shop")
    sys.modules["shop"] = module
    try:
        exec(compile(change_text(source, changes), "shop.py", "exec"), module.__dict__)
        yield module
    finally:
        del sys.modules["shop"]


def facts(result: Any) -> str:
    """Return what has to be equal of two runs."""
    if isinstance(result, RunResult):
        return f"{result.ending} {result.steps} {dict(result.spent.meters)} {result.spent.iterations}"
    done: Done[Any] = result
    return f"{done.outcome} {dict(done.spent.meters)} {done.spent.iterations}"


class Stored:
    """A run of a program in a store, and what it returned."""

    def __init__(self, source: str, store: SQLiteRuns, run_id: str = "whole") -> None:
        self.source, self.store, self.run_id = source, store, run_id
        with loaded(source) as program:
            if self.is_machine:
                handlers = program.handlers
                self.whole = facts(program.machine.run(program.value, handlers=handlers, runs=store, run_id=run_id))
            else:
                self.whole = facts(program.make(0).run("go", runs=store, run_id=run_id))

    @property
    def is_machine(self) -> bool:
        return self.source is ORDERS

    def go_on(self, changes: str, *, at: int, **options: Any) -> str:
        """Continue a copy of the run with changed code."""
        with loaded(self.source, changes) as program:
            copy = self.store.fork(self.run_id, at=at)
            if self.is_machine:
                machine: Machine[Any, Any] = program.machine
                return facts(machine.run(None, handlers=program.handlers, runs=self.store, run_id=copy, **options))
            return facts(program.make(MODEL_CALLS[at]).resume(copy, runs=self.store, **options))


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Stored]]:
    """Return a run of each program."""
    with SQLiteRuns(tmp_path_factory.mktemp("changes") / "runs.db") as store:
        yield {source: Stored(source, store, run_id) for source, run_id in ((ORDERS, "orders"), (AGENT, "agent"))}


# The last reply is left to the changed code.
ORDERS_AT, AGENT_AT = 4, 5
# The model calls of the agent among its first replies.
MODEL_CALLS = [0, 1, 1, 2, 2, 2, 3]

# The change, what the error names (nothing if the run ends as it would have), and with `migrate` whether the run ends
# as it would have, is refused, or goes on as the changed code does.
SAME, REFUSED, CHANGED = "same", "refused", "changed"


@pytest.mark.medium
@cases(
    ("change", "named", "migrated"),
    ("def check( -> def inspect( && check, on -> inspect, on && start=check -> start=inspect", "node check", REFUSED),
    (
        "AskHuman, Bought | Dropped -> AskHuman, Bought | Dropped | Offer && "
        "on(Bought, END) -> on(Bought, END) | on(Offer, END)",
        "the edge confirm --Offer--> is new",
        SAME,
    ),
    ("note: str -> remark: str", "class Order", REFUSED),
    ("count: int = 2 -> count: float = 2", "class Order", SAME),
    ("count: int = 2 -> count: str = 2", "class Order", REFUSED),
    ("left: int -> left: int\n    more: int = 0", "class Offer", CHANGED),
    ("    by: str ->     by: str | None", "class Bought", SAME),
    ("class Price(Effect[float]) -> class Price(Effect[str])", "effect Price", REFUSED),
    ('GREEN = "g"\n    BLACK = "b" -> GREEN = "b"\n    BLACK = "g"', "class Kind", SAME),
    ("kind: Kind = Kind.GREEN -> kind: Kind = Kind.BLACK", "class Sort", SAME),
    (
        "class Price(Effect[float]): -> class Price(Effect[float]):\n    charges: ClassVar = {Meter('coins'): 1}",
        "effect Price",
        CHANGED,
    ),
    (
        "@node(when_spent=Stopped)\ndef check -> @node(when_spent=Stopped, meters=[ITERATIONS])\ndef check",
        "node check",
        CHANGED,
    ),
    ("Stock -> Supply", "the effect Stock is gone", REFUSED),
    ('shop: str = "here" -> shop: str = "far"', "shop", REFUSED),
    (
        '[Stock(order.item), Stock(order.item, "there")] -> [Stock(order.item, "there"), Stock(order.item)]',
        "check",
        REFUSED,
    ),
    (
        "    price = yield from ask(Price(order.item))\n ->  && "
        "    return Offer -> \n    price = yield from ask(Price(order.item))\n    return Offer",
        "has asked for Price",
        REFUSED,
    ),
    ('    again = yield from ask(AskHuman(f"{person}, really?"))\n -> \n    again = "yes"\n', None, SAME),
    ("here + there < order.count -> here < 100", "check>Offer", REFUSED),
    (
        "on(Offer, pack) -> on(Offer, confirm) && | edges(pack, on(Offer, confirm))\n -> \n",
        "node pack is gone",
        REFUSED,
    ),
    ("Who buys -> Who wants", "Who wants", REFUSED),
    ("really? -> are you sure?", None, SAME),
    ("return 3 -> return 7", None, SAME),
    ("count: int = 2 -> count: int = 3", None, SAME),
    ("from dataclasses -> from __future__ import annotations\nfrom dataclasses", None, SAME),
    ("buys {offer.item} -> buys {offer.left} {offer.item}", "Who buys 6", REFUSED),
)
def test_changed_machine_is_refused_by_name(
    change: str, named: str | None, migrated: str, stored: Mapping[str, Stored]
) -> None:
    check_change(stored[ORDERS], change, named, migrated, ORDERS_AT)


@pytest.mark.medium
@cases(
    ("change", "named", "migrated"),
    ("Be kind -> Be short", None, SAME),
    ("return a + b -> return a * b", None, SAME),
    ("b: int = 1 -> b: int = 2", "tool add", SAME),
    ("b: int = 1 -> b: float = 1", "tool add", SAME),
    ("[add, look_up], -> [look_up],", "the tool add is gone", SAME),
    ('kind="tool_calling" -> kind="structured"', "avoid_dummies", REFUSED),
    (", output_type=Answer -> ", "the output type", CHANGED),
    ("output_type=Answer -> output_type=dict", "the output type", CHANGED),
    ("sure: bool = True -> certain: bool = True", "the output type", CHANGED),
    ("@tool\ndef add -> @tool(name='plus')\ndef add", "the tool plus is new", SAME),
    ("output_type=Answer -> output_type=Answer, max_iterations=3", None, SAME),
    ("output_type=Answer -> output_type=Answer, max_model_calls=2", None, CHANGED),
    ('"b": 5 -> "b": 6', None, SAME),
)
def test_changed_agent_is_refused_by_name(
    change: str, named: str | None, migrated: str, stored: Mapping[str, Stored]
) -> None:
    check_change(stored[AGENT], change, named, migrated, AGENT_AT)


def check_change(stored: Stored, change: str, named: str | None, migrated: str, at: int) -> None:
    if named is None:
        assert (stored.go_on(change, at=at) == stored.whole) is (migrated == SAME)
    else:
        with pytest.raises(RunChangedError) as caught:
            stored.go_on(change, at=at)
        assert named in f"{caught.value} {caught.value.changes}"
    if migrated == REFUSED:
        with pytest.raises(RunChangedError):
            stored.go_on(change, at=at, migrate=True)
    else:
        assert (stored.go_on(change, at=at, migrate=True) == stored.whole) is (migrated == SAME)


@pytest.mark.medium
def test_finished_run_is_compared_too(tmp_path: Path) -> None:
    with SQLiteRuns(tmp_path / "runs.db") as store:
        stored = Stored(ORDERS, store)
        for change, named in (
            ("Who buys -> Who wants", "Who wants"),
            ("here + there < order.count -> here < 100", "check>Dropped"),
            ('again == "yes" -> again == "no"', "confirm>Dropped"),
            (
                '    again = yield from ask(AskHuman(f"{person}, really?"))\n -> \n    again = "yes"\n',
                "where the machine now ends",
            ),
            ("return Bought -> yield from ask(AskHuman('Really?'))\n    return Bought", "confirm>Bought"),
            ("return Bought(offer, person) -> return Bought(offer, 'somebody')", "now ends with .*somebody"),
            ('Order("tea") -> Order("tea", 2)', None),
        ):
            with loaded(ORDERS, change) as program:
                run = partial(program.machine.run, handlers=program.handlers, runs=store, run_id="whole")
                if named is None:
                    assert facts(run(program.value)) == stored.whole
                else:
                    with pytest.raises(RunChangedError, match=named):
                        run(None)


@pytest.mark.medium
def test_no_answer_is_given_to_another_question(tmp_path: Path) -> None:
    def go_on(store: SQLiteRuns, change: str, value: bool) -> Any:
        with loaded(ORDERS, change) as program:
            handlers = {kind: one for kind, one in program.handlers.items() if kind is not AskHuman}
            return program.machine.run(program.value if value else None, handlers=handlers, runs=store, run_id="trip")

    with SQLiteRuns(tmp_path / "runs.db") as store:
        [question] = go_on(store, "", value=True).questions
        with pytest.raises(RunChangedError, match="Who wants"):
            go_on(store, "Who buys -> Who wants", value=False)
        assert go_on(store, "", value=False).questions == (question,)
        store.reply("trip", question.key, "Ann")
        with pytest.raises(RunChangedError, match="Who wants"):
            go_on(store, "Who buys -> Who wants", value=False)
        assert "really" in go_on(store, "", value=False).questions[0].text


@pytest.mark.medium
def test_limits_change_between_processes(tmp_path: Path) -> None:
    unlimited, limited = "", "output_type=Answer -> output_type=Answer, max_model_calls=2"
    with SQLiteRuns(tmp_path / "runs.db") as store:
        whole = Stored(AGENT, store).whole
        with loaded(AGENT, limited) as program:
            stopped = program.make(0).run("go", runs=store, run_id="stopped")
        assert (stopped.reason, len(stopped.steps)) == ("model_calls", 3)
        for first, then, run_id in ((limited, unlimited, "stopped"), (unlimited, limited, "whole")):
            for at in range(6):
                # Each process with the other limits than the one before, and the last one to the end.
                with loaded(AGENT, then) as program:
                    copy = store.fork(run_id, at=at)
                    result = program.make(MODEL_CALLS[at]).resume(copy, runs=store)
                assert facts(result) == (whole if then == unlimited else facts(stopped)), at
                # Its journal has the limits of both.
                done: Any = [*replay(result.journal)][-1]
                assert (done.outcome, done.spent) == (result.ending, result.spent)
                with loaded(AGENT, first) as program:
                    # It has ended.
                    assert facts(program.make(0).resume(copy, runs=store)) == facts(result)


# Annotations with a function, with modules, and with quotes.
ODD = (
    "from typing import ClassVar, final -> from typing import Annotated, Literal, Optional, Union, final && "
    'note: str = "soon" -> note: Annotated[str, len] = "soon"\n    others: "list[Order] | None" = None\n'
    '    kind: Optional[Literal["a", 1]] = None\n    more: Union[dict[str, "Order"], None] = None\n'
    '    tags: frozenset[str] = frozenset("abcdefgh") && '
    "class Price(Effect[float]):\n    item: str -> class Price(Effect[float]):\n    item: str\n"
    '    also: frozenset[str] = frozenset("abcdefgh")'
)

SCRIPT = """
from graphexec.runs import SQLiteRuns

with SQLiteRuns("runs.db") as store:
    del handlers[AskHuman]
    print(machine.run(value, handlers=handlers, runs=store, run_id="one"))
"""


@pytest.mark.medium
def test_fingerprint_is_the_same_in_another_process(tmp_path: Path) -> None:
    """The program is a script in one process, and is imported in the other."""
    script = tmp_path / "shop.py"
    script.write_text(change_text(ORDERS, ODD) + SCRIPT, encoding="utf-8")
    told = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONHASHSEED": "1"},
    )
    assert "Who buys tea?" in told.stdout
    with SQLiteRuns(tmp_path / "runs.db") as store, loaded(ORDERS, ODD) as program:
        parts = store.machine_of("one")["fingerprint"]
        assert parts["the class Order"] == (
            "item: str, count: int, sort: Sort, note: str, others: list[Order] | NoneType, "
            "kind: Literal['a', 1] | NoneType, more: dict[str, Order] | NoneType, tags: frozenset[str]"
        )
        assert not any(word in f"{parts}" for word in ("0x", "function", "__main__", "typing"))
        # Their sets have other orders.
        done = program.machine.run(program.value, handlers=program.handlers, runs=store, run_id="one")
        assert isinstance(done.outcome, program.Bought)
