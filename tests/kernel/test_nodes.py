"""A node is a function whose annotations declare its value and its outcomes; others are refused."""

import asyncio
import functools
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypedDict, TypeVar

from graphexec import ITERATIONS, All, Asks, Effect, Exhausted, ask, errors, kernel, node
from graphexec.effects import CallModel, CallTool
from graphexec.kernel.effects import Perform
from graphexec.kernel.serialization import reply_adapter
from tests.kernel import machines as m
from tests.parameters import cases

# Functions that type checkers refuse.
decorate: Any = node


class Translator:
    pass


def sort(number: m.Number) -> m.Even | m.Odd:
    """Sort."""
    return m.Even(number.value)


def look(number: m.Number | m.Left) -> Asks[CallTool | m.Question, m.Even | m.Odd]:
    answer = yield from ask(m.Question("even?"))
    return m.Even(0) if answer == "yes" else m.Odd(0)


def inquire(number: m.Number) -> Asks[m.Question, m.Total]:
    return m.Total((yield from ask(m.Question("why?"))))


def inquire_elsewhere(number: m.Number) -> Asks[m.Question, m.Total]:
    return inquire(number)


async def fetch(number: m.Number) -> m.Total:
    return m.Total("fetched")


def read(number: m.Number) -> m.Total:
    return m.Total("read")


def yields_without_asks(number: m.Number) -> Generator[CallTool, Any, m.Total]:
    yield CallTool("x", "y")
    return m.Total("")


class Shop:
    def sell(self, number: m.Number) -> m.Total:
        return m.Total(str(number.value))


@cases(
    ("one", "kind", "takes", "effects", "outcomes"),
    (node(sort), "pure", (m.Number,), (), (m.Even, m.Odd)),
    (node(look), "asks", (m.Number, m.Left), (CallTool, m.Question), (m.Even, m.Odd)),
    # A function may return a generator, or have its annotation.
    (node(inquire_elsewhere), "asks", (m.Number,), (m.Question,), (m.Total,)),
    (decorate(yields_without_asks), "asks", (m.Number,), (CallTool,), (m.Total,)),
    (node(fetch), "opaque", (m.Number,), (Perform,), (m.Total,)),
    (node(opaque=True)(read), "opaque", (m.Number,), (Perform,), (m.Total,)),
    (node(opaque=True)(fetch), "opaque", (m.Number,), (Perform,), (m.Total,)),
    (node(Shop().sell), "pure", (m.Number,), (), (m.Total,)),
)
def test_node_is_read_from_its_annotations(one: Any, kind: str, takes: Any, effects: Any, outcomes: Any) -> None:
    assert (one.kind, one.takes, one.effects, one.outcomes) == (kind, takes, effects, outcomes)
    assert (one.meters, one.when_spent, one.spent_outcome) == ((), None, None)


def test_node_has_a_name_and_a_function() -> None:
    assert node(sort).name == "sort"
    assert repr(node(sort)) == "<node sort: Number -> Even | Odd>"
    other = kernel.node(name="cut_in_half")(m.halve)
    assert (other.name, other.function, m.halve.name) == ("cut_in_half", m.halve.function, "halve")
    assert m.halve.function(m.Even(8)) == m.Sum(4, "halved")
    assert asyncio.run(node(fetch).function(m.Number(1))) == m.Total("fetched")


def test_decorators_add_parameters_and_outcomes() -> None:
    @node
    def translate(number: m.Number, translator: Translator, *, flag: bool = False) -> m.Total:
        return m.Total("")

    assert translate.parameters == {"translator": (Translator,)}
    assert (m.countdown.spent_outcome, m.countdown.when_spent) == (m.Stopped, m.Stopped)
    assert m.countdown.outcomes[-1] is m.Stopped

    @node(when_spent=m.Stopped)
    def asks(left: m.Left) -> Asks[m.Question, m.Total | m.Stopped]:
        return m.Total((yield from ask(m.Question("?"))))

    assert (asks.meters, asks.outcomes) == ((), (m.Total, m.Stopped))
    assert node(when_spent=m.Stopped)(m.countdown).meters == m.countdown.meters == (ITERATIONS,)

    def give_up(value: object, limit: Exhausted) -> m.Total:
        return m.Total(str(limit))

    assert node(when_spent=give_up, meters=[ITERATIONS])(m.halve).outcomes == (m.Sum, m.Total)


def without_value() -> m.Total:
    return m.Total("")


def only_keywords(*, number: m.Number) -> m.Total:
    return m.Total("")


def declare(name: str, *missing: str, **annotations: Any) -> Any:
    """Return a function of a number and a translator with other annotations, and some missing."""

    def function(number: m.Number, translator: Translator) -> m.Total:
        return m.Total("")

    function.__annotations__.update(annotations)
    for one in missing:
        del function.__annotations__[one]
    function.__name__ = function.__qualname__ = name
    return function


class HasValue(Protocol):
    value: int


class Record(TypedDict):
    value: int


T = TypeVar("T")


def misdeclared(number: m.Number) -> Any:
    yield CallTool("x", "y")
    return m.Total("")


def asks_int(number: m.Number) -> Asks[int, m.Total]:
    yield 3
    return m.Total("")


class Instance:
    def __call__(self, number: m.Number) -> m.Total:
        return m.Total("")


BARE = "f does not annotate '{}'; write def f(number: In) -> Out"
UNCHECKED = "which isinstance cannot check; name a class of your own"


@cases(
    ("function", "text"),
    (declare("f", "number", "translator", "return"), BARE.format("number")),
    (declare("f", "return"), BARE.format("return")),
    (declare("f", "translator"), BARE.format("translator")),
    (without_value, "without_value takes no value; write def without_value(value: In) -> Out"),
    (only_keywords, "only_keywords takes no value; write def only_keywords(value: In) -> Out"),
    (declare("f", **{"return": None}), f"f returns None, {UNCHECKED}"),
    (declare("f", **{"return": m.Total | None}), f"f returns None, {UNCHECKED}"),
    (declare("f", **{"return": list[m.Total]}), f"f returns list[tests.kernel.machines.Total], {UNCHECKED}"),
    (declare("f", **{"return": Any}), f"f returns typing.Any, {UNCHECKED}"),
    (declare("f", **{"return": Literal["yes", "no"]}), f"f returns typing.Literal['yes', 'no'], {UNCHECKED}"),
    (declare("f", number=Any), f"f takes number typing.Any, {UNCHECKED}"),
    (declare("f", number=HasValue), f"f takes number <class 'tests.kernel.test_nodes.HasValue'>, {UNCHECKED}"),
    (declare("f", number=Record), f"f takes number <class 'tests.kernel.test_nodes.Record'>, {UNCHECKED}"),
    (declare("f", number=Callable[[], int]), f"f takes number collections.abc.Callable[[], int], {UNCHECKED}"),
    (declare("f", number=T), f"f takes number ~T, {UNCHECKED}"),
    (declare("f", translator=list[Translator]), f"f takes translator list[{__name__}.Translator], {UNCHECKED}"),
    (
        declare("f", **{"return": "Nowhere"}),
        "f has an annotation that cannot be resolved: name 'Nowhere' is not defined; "
        "import or define it at the top of its module",
    ),
    (misdeclared, "misdeclared yields, but returns typing.Any; write -> Asks[Effect, Outcome]"),
    (asks_int, "asks_int asks for <class 'int'>, which is not an effect; write class Name(Effect[Reply])"),
    (declare("<lambda>"), "a node cannot be named '<lambda>'; define its function with def, or write @node(name=...)"),
    (Instance(), "Instance is not a function; define it with def"),
    (functools.partial(read, number=m.Number(3)), "partial is not a function; define it with def"),
)
def test_invalid_node_function_is_refused_with_a_remedy(function: Any, text: str) -> None:
    assert m.error_message(errors.NodeError, decorate, function) == text
    assert issubclass(errors.NodeError, (errors.GraphexecError, TypeError))


def by_protocol(value: HasValue, limit: Exhausted) -> m.Total:
    return m.Total("")


def unsaid(value: object, limit: Exhausted) -> m.Total:
    return m.Total("")


def silent(value: object, limit: Exhausted) -> m.Total:
    return m.Total("")


def undecided(value: object, limit: Exhausted) -> m.Total | m.Sum:
    return m.Total("")


del unsaid.__annotations__["value"], unsaid.__annotations__["limit"], silent.__annotations__["return"]
# Any: type checkers refuse some of these.
as_node: Any = node


@cases(
    ("write", "text"),
    (
        lambda: as_node(when_spent=m.GaveUp)(m.halve),
        "halve takes Even, which GaveUp does not; give a function that makes one, as limit_reached makes a "
        "Stopped, or widen its field",
    ),
    (
        lambda: as_node(when_spent=silent)(m.halve),
        "silent does not annotate its outcome; write def silent(value: In, limit: Exhausted) -> Out",
    ),
    (
        lambda: as_node(when_spent=undecided)(m.halve),
        "undecided returns 2 outcomes, but a limit takes one edge; return one class",
    ),
    (
        lambda: as_node(opaque=True)(yields_without_asks),
        "yields_without_asks yields effects, so it is not opaque; leave out opaque=True",
    ),
    (
        lambda: kernel.node(name="cut in half")(m.halve),
        "a node cannot be named 'cut in half'; define its function with def, or write @node(name=...)",
    ),
    (lambda: reply_adapter(Unsaid), "Unsaid does not declare its reply; write class Unsaid(Effect[Reply])"),
    (
        lambda: reply_adapter(Strange),
        "Strange has the reply <class 'tests.kernel.test_nodes.Translator'>, which cannot be stored as JSON; reply "
        "with a dataclass or a pydantic model",
    ),
)
def test_invalid_decoration_or_reply_is_refused(write: Callable[[], object], text: str) -> None:
    assert m.error_message(errors.NodeError, write) == text


@cases("when_spent", by_protocol, unsaid)
def test_when_spent_may_take_a_protocol_or_anything(when_spent: Any) -> None:
    assert as_node(when_spent=when_spent)(m.halve).spent_outcome is m.Total


class Unsaid(Effect):  # type: ignore[type-arg]
    pass


@dataclass(frozen=True)
class Strange(Effect[Translator]):
    pass


class Special(m.Question):
    pass


@cases("effect", m.Question, Special)
def test_reply_type_is_read_from_the_effect_class(effect: Any) -> None:
    assert reply_adapter(effect).validate_python("yes") == "yes"


def test_effect_defaults_to_no_cost_or_cut_reply() -> None:
    exhausted = Exhausted("seconds", 1, 2)
    assert tuple(m.Question("?").measure("any")) == ()
    assert m.Question("?").cut(exhausted) is None
    cut = CallTool("search", "tea").cut(exhausted)
    assert (cut.observation, cut.status) == ("search was cut off: the limit of 1 second was reached (2 spent).", "cut")
    kinds: list[type[Effect[Any]]] = [CallModel, CallTool, m.Question]
    charged = [{meter.name: amount for meter, amount in kind.charges.items()} for kind in kinds]
    assert charged == [{"model_calls": 1, "tokens": 1}, {"tool_calls": 1}, {}]
    assert All((m.Question("?"),)).effects == (m.Question("?"),)
