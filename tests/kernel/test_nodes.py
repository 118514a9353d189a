"""A node is a function whose annotations declare its value and its outcomes; others are refused."""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Generator
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypedDict, TypeVar, final

import pytest

from graphexec import All, Asks, Effect, Exhausted, ask, charged, metered, node, opaque
from graphexec.effects import CallModel, CallTool
from graphexec.errors import GraphexecError, NodeError
from graphexec.kernel import Perform, rename
from graphexec.kernel.serialization import reply_adapter
from tests.kernel.machines import Errand, Even, Left, Number, Odd, Question, Stopped, Sum, Tick, Total, countdown, halve
from tests.parameters import cases

# Functions that type checkers refuse.
decorate: Any = node


class Translator:
    pass


# ---- valid functions


def test_pure_node_is_read_from_its_annotations() -> None:
    @node
    def sort(number: Number) -> Even | Odd:
        """Sort."""
        return Even(number.value)

    assert (sort.name, sort.kind, sort.takes, sort.outcomes) == ("sort", "pure", (Number,), (Even, Odd))
    assert (sort.effects, sort.metered, sort.when_spent, sort.spent_outcome) == ((), False, None, None)
    assert repr(sort) == "<node sort: Number -> Even | Odd>"


def test_asking_node_is_read_from_its_annotations() -> None:
    @node
    def look(number: Number | Left) -> Asks[CallTool | Question, Even | Odd]:
        answer = yield from ask(Question("even?"))
        return Even(0) if answer == "yes" else Odd(0)

    assert (look.kind, look.takes, look.outcomes) == ("asks", (Number, Left), (Even, Odd))
    assert look.effects == (CallTool, Question)


def test_function_returning_a_generator_is_an_asking_node() -> None:
    def asking(number: Number) -> Asks[Question, Total]:
        return Total((yield from ask(Question("why?"))))

    @node
    def look(number: Number) -> Asks[Question, Total]:
        return asking(number)

    assert (look.kind, look.effects, look.outcomes) == ("asks", (Question,), (Total,))


def test_async_and_opaque_nodes_ask_for_perform() -> None:
    @node
    async def fetch(number: Number) -> Total:
        return Total("fetched")

    @opaque
    def read(number: Number) -> Total:
        return Total("read")

    @opaque
    async def write(number: Number) -> Total:
        return Total("written")

    for one in (fetch, read, write):
        assert (one.kind, one.effects, one.outcomes) == ("opaque", (Perform,), (Total,))


def test_other_parameters_without_default_are_settings() -> None:
    @node
    def translate(number: Number, translator: Translator, *, flag: bool = False) -> Total:
        return Total("")

    assert translate.settings == {"translator": (Translator,)}


def test_bound_method_can_be_a_node() -> None:
    class Shop:
        def sell(self, number: Number) -> Total:
            return Total(str(number.value))

    assert node(Shop().sell).takes == (Number,)


def test_metered_and_charged_add_the_when_spent_outcome() -> None:
    assert (countdown.metered, countdown.spent_outcome, countdown.when_spent) == (True, Stopped, Stopped)
    assert countdown.outcomes[-1] is Stopped

    @charged(when_spent=Stopped)
    @node
    def asks(left: Left) -> Asks[Question, Total | Stopped]:
        return Total((yield from ask(Question("?"))))

    assert (asks.metered, asks.outcomes) == (False, (Total, Stopped))
    assert charged(when_spent=Stopped)(countdown).metered


def test_when_spent_may_be_a_function() -> None:
    def give_up(value: object, limit: Exhausted) -> Total:
        return Total(str(limit))

    assert metered(when_spent=give_up)(halve).outcomes == (Sum, Total)


def test_rename_changes_only_the_name() -> None:
    other = rename(halve, "cut_in_half")
    assert (other.name, other.function, halve.name) == ("cut_in_half", halve.function, "halve")
    with pytest.raises(NodeError, match="a node cannot be named 'cut in half'; give it a name that a function could"):
        rename(halve, "cut in half")


# ---- invalid functions


def unannotated(number: Number, flag: bool) -> Total:
    return Total("")


def without_return(number: Number) -> Total:
    return Total("")


def without_value() -> Total:
    return Total("")


def only_keywords(*, number: Number) -> Total:
    return Total("")


def returns_none(number: Number) -> None:
    return None


def may_return_none(number: Number) -> Total | None:
    return None


def returns_generic(number: Number) -> list[Total]:
    return []


def returns_any(number: Number) -> Any:
    return number


def takes_any(number: Any) -> Total:
    return Total("")


def returns_literal(number: Number) -> Literal["yes", "no"]:
    return "no"


class HasValue(Protocol):
    value: int


class Record(TypedDict):
    value: int


def takes_protocol(number: HasValue) -> Total:
    return Total("")


def takes_typed_dict(number: Record) -> Total:
    return Total("")


def takes_callable(number: Callable[[], int]) -> Total:
    return Total("")


T = TypeVar("T")


def takes_variable(number: T, *others: T) -> Total:
    return Total("")


def setting_without_annotation(number: Number, translator: Translator) -> Total:
    return Total("")


# Any: type checkers refuse functions without annotations.
unannotated.__annotations__.clear()
del without_return.__annotations__["return"]
del setting_without_annotation.__annotations__["translator"]


def setting_generic(number: Number, translators: list[Translator]) -> Total:
    return Total("")


def yields_without_asks(number: Number) -> Generator[CallTool, Any, Total]:
    yield CallTool("x", "y")
    return Total("")


def yields_but_says_otherwise(number: Number) -> Any:
    yield CallTool("x", "y")
    return Total("")


def asks_for_no_effect(number: Number) -> Asks[int, Total]:
    yield 3
    return Total("")


async def yields_asynchronously(number: Number) -> AsyncIterator[Total]:
    yield Total("")


def nameless(number: Number) -> Total:
    return Total("")


# The name of a lambda.
nameless.__name__ = "<lambda>"


class Instance:
    def __call__(self, number: Number) -> Total:
        return Total("")


@cases(
    ("function", "text"),
    [
        (unannotated, "unannotated does not annotate 'number'; write def unannotated(number: In) -> Out"),
        (without_return, "without_return does not annotate 'return'; write def without_return(number: In) -> Out"),
        (without_value, "without_value takes no value; write def without_value(value: In) -> Out"),
        (only_keywords, "only_keywords takes no value; write def only_keywords(value: In) -> Out"),
        (returns_none, "returns_none returns None, which isinstance cannot check; name a class of your own"),
        (may_return_none, "may_return_none returns None, which isinstance cannot check; name a class of your own"),
        (
            returns_generic,
            "returns_generic returns list[tests.kernel.machines.Total], which isinstance cannot check; name a "
            "class of your own",
        ),
        (returns_any, "returns_any returns typing.Any, which isinstance cannot check; name a class of your own"),
        (takes_any, "takes_any takes number typing.Any, which isinstance cannot check; name a class of your own"),
        (
            returns_literal,
            "returns_literal returns typing.Literal['yes', 'no'], which isinstance cannot check; name a class of "
            "your own",
        ),
        (
            takes_protocol,
            "takes_protocol takes number <class 'tests.kernel.test_nodes.HasValue'>, which isinstance cannot check; "
            "name a class of your own",
        ),
        (
            takes_typed_dict,
            "takes_typed_dict takes number <class 'tests.kernel.test_nodes.Record'>, which isinstance cannot check; "
            "name a class of your own",
        ),
        (
            takes_callable,
            "takes_callable takes number collections.abc.Callable[[], int], which isinstance cannot check; name a "
            "class of your own",
        ),
        (takes_variable, "takes_variable takes number ~T, which isinstance cannot check; name a class of your own"),
        (
            setting_without_annotation,
            "setting_without_annotation does not annotate 'translator'; write def setting_without_annotation(number: "
            "In) -> Out",
        ),
        (
            setting_generic,
            "setting_generic takes translators list[tests.kernel.test_nodes.Translator], which isinstance cannot "
            "check; name a class of your own",
        ),
        (
            yields_but_says_otherwise,
            "yields_but_says_otherwise yields, but returns typing.Any; write -> Asks[Effect, Outcome]",
        ),
        (
            asks_for_no_effect,
            "asks_for_no_effect asks for <class 'int'>, which is not an effect; write class Name(Effect[Reply])",
        ),
        (
            yields_asynchronously,
            "yields_asynchronously is async def, but a node that asks for effects is def; write "
            "def yields_asynchronously(...) -> Asks[Effect, Outcome]",
        ),
        (nameless, "a node cannot be named '<lambda>'; define its function with def"),
        (Instance(), "Instance is not a function; define it with def"),
        (functools.partial(unannotated, flag=True), "partial is not a function; define it with def"),
    ],
)
def test_invalid_node_function_is_refused_with_a_remedy(function: Any, text: str) -> None:
    with pytest.raises(NodeError) as caught:
        decorate(function)
    assert str(caught.value) == text
    assert isinstance(caught.value, GraphexecError)
    assert isinstance(caught.value, TypeError)


def test_generator_annotation_works_like_asks() -> None:
    assert decorate(yields_without_asks).effects == (CallTool,)


def test_unresolved_annotation_is_refused() -> None:
    def lost(number: Number) -> Total:
        return Total("")

    lost.__annotations__["return"] = "Nowhere"
    with pytest.raises(NodeError) as caught:
        node(lost)
    assert (
        str(caught.value)
        == "lost has an annotation that cannot be resolved: name 'Nowhere' is not defined; import or define it"
    )


def test_opaque_function_that_yields_is_refused() -> None:
    make_opaque: Any = opaque
    with pytest.raises(NodeError) as caught:
        make_opaque(yields_without_asks)
    assert str(caught.value) == "yields_without_asks yields effects, so it is not opaque; decorate it with @node"


def test_when_spent_must_take_the_nodes_value() -> None:
    @final
    @dataclass(frozen=True)
    class OutOfTicks:
        at: Tick
        limit: Exhausted

    with pytest.raises(NodeError) as caught:
        metered(when_spent=OutOfTicks)(halve)
    assert str(caught.value) == (
        "halve takes Even, which OutOfTicks does not; give a function that makes one, as limit_reached makes a "
        "LimitReached, or widen its field"
    )


def test_when_spent_needs_exactly_one_outcome() -> None:
    def silent(value: object, limit: Exhausted) -> Total:
        return Total("")

    del silent.__annotations__["return"]

    def undecided(value: object, limit: Exhausted) -> Total | Sum:
        return Total("")

    meter: Any = metered
    with pytest.raises(NodeError) as caught:
        meter(when_spent=silent)(halve)
    assert str(caught.value) == (
        "silent does not annotate its outcome; write def silent(value: In, limit: Exhausted) -> Out"
    )
    with pytest.raises(NodeError) as caught:
        meter(when_spent=undecided)(halve)
    assert str(caught.value) == "undecided returns 2 outcomes, but a limit takes one edge; return one class"


def test_when_spent_may_take_a_protocol_or_anything() -> None:
    def by_protocol(value: HasValue, limit: Exhausted) -> Total:
        return Total("")

    def unsaid(value: object, limit: Exhausted) -> Total:
        return Total("")

    del unsaid.__annotations__["value"]
    del unsaid.__annotations__["limit"]

    meter: Any = metered
    assert meter(when_spent=by_protocol)(halve).spent_outcome is Total
    assert meter(when_spent=unsaid)(halve).spent_outcome is Total


# ---- effects


class Unsaid(Effect):  # type: ignore[type-arg]
    pass


@dataclass(frozen=True)
class Strange(Effect[Translator]):
    pass


class Special(Question):
    pass


def test_reply_type_is_read_from_the_effect_class() -> None:
    assert reply_adapter(Question).validate_python("yes") == "yes"
    assert reply_adapter(Special).validate_python("yes") == "yes"


def test_effect_without_a_reply_type_is_refused() -> None:
    with pytest.raises(NodeError) as caught:
        reply_adapter(Unsaid)
    assert str(caught.value) == "Unsaid does not declare its reply; write class Unsaid(Effect[Reply])"


def test_effect_with_an_unstorable_reply_is_refused() -> None:
    with pytest.raises(NodeError) as caught:
        reply_adapter(Strange)
    assert str(caught.value) == (
        "Strange has the reply <class 'tests.kernel.test_nodes.Translator'>, which cannot be stored as JSON; reply "
        "with a dataclass or a pydantic model"
    )


def test_effect_defaults_to_no_cost_or_cut_reply() -> None:
    exhausted = Exhausted("seconds", 1, 2)
    assert tuple(Question("?").measure("any")) == ()
    assert Question("?").cut(exhausted) is None
    cut = CallTool("search", "tea").cut(exhausted)
    assert (cut.observation, cut.status) == ("search was cut off: the limit of 1 second was reached (2 spent).", "cut")
    kinds: list[type[Effect[Any]]] = [CallModel, CallTool, Question]
    charged = [{meter.name: amount for meter, amount in kind.charges.items()} for kind in kinds]
    assert charged == [{"model_calls": 1, "tokens": 1}, {"tool_calls": 1}, {}]
    assert All((Question("?"),)).effects == (Question("?"),)


def test_function_of_a_node_remains_callable() -> None:
    assert halve.function(Even(8)) == Sum(4, "halved")

    @node
    async def rest(errand: Errand) -> Total:
        return Total("rested")

    assert asyncio.run(rest.function(Errand())) == Total("rested")
