"""Options, calls, attributes, names and modules that are wrong: the error says what to write."""

import copy
import importlib
import importlib.util
import pickle
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import graphexec
from graphexec import Limits, agents, executor, kernel, memory, messages, models, tools, verify
from graphexec import _arguments as arguments
from graphexec._arguments import FLAG, NAME, PATH, SECONDS, STRING, TIMEOUT, optional, validate, whole
from graphexec._mistakes import explain_calls, explain_class
from graphexec.errors import InputError, SignatureError, ToolDefinitionError, format_value
from graphexec.models.wrappers.caching import STORE
from tests.kernel.machines import error_message
from tests.parameters import cases

numbers = st.one_of(st.integers(), st.floats(), st.integers().map(lambda n: n * 10**400))


@given(numbers, st.integers(-3, 3))
def test_numbers_must_be_finite_and_large_enough(value: float, least: int) -> None:
    # Waiting for more seconds than a float can hold would raise an OverflowError.
    finite = abs(value) <= sys.float_info.max
    assert whole(least).fits(value) == (isinstance(value, int) and value >= least)
    assert SECONDS.fits(value) == (finite and value >= 0)
    assert TIMEOUT.fits(value) == (finite and value > 0)


@cases("value", None, True, "3", [], int, 1j)
def test_other_values_are_not_numbers(value: object) -> None:
    assert not any(kind.fits(value) for kind in (whole(0), SECONDS, TIMEOUT))


@cases(
    ("kind", "fits", "others"),
    (STRING, ["", "a"], [b"a", None, str]),
    (NAME, ["a", " a"], ["", " \n", None, 3]),
    (FLAG, [True, False], [0, 1, None, "no"]),
    (PATH, ["a", Path("a")], ["", b"a", 3, None, Path]),
    (arguments.has_methods("a list", "append", "pop"), [[]], [(), list, None]),
    (optional(STRING), ["a", None], [3]),
)
def test_constraint_accepts_only_its_values(kind: arguments.Constraint, fits: list[Any], others: list[Any]) -> None:
    assert [kind.fits(value) for value in [*fits, *others]] == [True] * len(fits) + [False] * len(others)


@given(st.one_of(st.text(), st.lists(st.text()), st.from_type(type)))
@example("long" * 50)
def test_any_value_is_formatted_on_one_short_line(value: object) -> None:
    text = format_value(value)
    assert len(text) <= 120
    assert len(text.splitlines()) == 1


def test_all_invalid_arguments_are_reported_at_once() -> None:
    wrong = ("size", 2.5, whole(1)), ("name", "a", STRING), ("when", None, SECONDS)
    text = "box has size=2.5; give a whole number, 1 or more; box has when=None; give seconds, 0 or more"
    assert error_message(InputError, validate, "box", *wrong) == text
    with pytest.raises(ToolDefinitionError, match=r"^size is 2\.5; give a whole number, 1 or more$"):
        validate("", wrong[0], error=ToolDefinitionError)
    validate("box", wrong[1])


class HalfAStore:
    """A store without `put`."""

    get = len

    def __repr__(self) -> str:
        return "<half>"


def test_missing_method_is_named() -> None:
    for kind, remedy in ((STORE, ""), (optional(STORE), ", or None for none")):
        text = f"the store is <half>, which has no put; give {STORE.words}"
        assert error_message(InputError, validate, "", ("the store", HalfAStore(), kind)) == f"{text}{remedy}"
    assert STORE.lacks(3) == STORE.lacks(models.MemoryCache()) == ()


@cases("several", ["a", "b"], ("a", "b"), {"a": 1, "b": 2}, iter("ab"))
def test_several_values_become_a_tuple(several: Any) -> None:
    assert arguments.validate_each("stop", several, str, "strings") == ("a", "b")


@cases("wrong", "ab", b"ab", None, 3, ["a", 3])
def test_single_value_is_refused_where_a_list_belongs(wrong: Any) -> None:
    message = error_message(InputError, arguments.validate_each, "stop", wrong, str, "strings")
    assert message == f"stop is {wrong!r}; give a list of strings"


# ---- calls that do not fit, and missing attributes


@explain_class("Box(size=1)", options={"width": "write size=..."}, attributes={"volume": "write box.size"}, item="no")
class Box:
    def __init__(self, *, size: int, lid: bool = False) -> None:
        self.size = size
        self.lid = lid

    def open(self) -> str:
        raise TypeError("the lid is stuck")


made: Any = Box


@cases(
    ("options", "message"),
    ({"width": 3}, "Box has no option width; write size=..."),
    ({"sise": 3}, "Box has no option sise; did you mean size?"),
    ({"size": 3, "weight": 3}, "Box has no option weight; write Box(size=1)"),
    ({"sise": 3, "width": 3}, "Box has no option sise; did you mean size? Box has no option width; write size=..."),
    ({"size": 3, "weight": 3, "colour": 3}, "Box has no option weight or colour; write Box(size=1)"),
    ({}, "Box needs size; write Box(size=1)"),
)
def test_wrong_options_name_a_remedy(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SignatureError) as raised:
        made(**options)
    assert str(raised.value) == message
    assert isinstance(raised.value, TypeError)


def test_arguments_by_position_are_refused() -> None:
    with pytest.raises(SignatureError, match=r"^Box takes its arguments by name, .* given 2 by position; write Box\("):
        made(3, 4)


def test_type_error_within_a_call_is_kept() -> None:
    with pytest.raises(TypeError, match="the lid is stuck") as raised:
        Box(size=1).open()
    assert not isinstance(raised.value, SignatureError)

    def fail(value: object) -> object:
        return len(anything(value))

    explained = explain_calls("fail", "fail(value)", {})(fail)
    for one in (explained, explain_calls("length", "length(value)", {})(len)):
        with pytest.raises(TypeError, match="has no len") as raised:
            one(anything(3))
        assert not isinstance(raised.value, SignatureError)


def anything(value: object) -> Any:
    """A value that a type checker lets pass."""
    return value


def test_missing_attribute_is_explained() -> None:
    with pytest.raises(AttributeError, match=r"^Box has no volume; write box\.size$"):
        _ = made(size=1).volume
    with pytest.raises(AttributeError, match=r"^'Box' object has no attribute 'colour'$") as raised:
        _ = made(size=1).colour
    assert raised.value.name == "colour"
    assert not hasattr(Box(size=1), "volume")


def test_explained_objects_are_copied_and_pickled() -> None:
    limits = Limits(iterations=3)
    assert copy.deepcopy(limits) == pickle.loads(pickle.dumps(limits)) == limits


@cases("name", "nothing", "_nothing", "StateGraph")
def test_package_has_no_missing_name(name: str) -> None:
    assert not hasattr(graphexec, name)
    with pytest.raises(ImportError):
        exec(f"from graphexec import {name}")


@given(st.text() | st.from_regex(r"\A[a-z_]{1,8}(\.[a-z_]{0,8}){1,3}\Z"))
@example("foo.bar")
@example("executor.")
@example("models.nothing")
@example(".")
@example("")
@example("class")
@example("a" * 5_000)
@example("\udc80\0")
def test_any_name_can_be_looked_up(name: str) -> None:
    # Every object has such attributes: `__class__`.
    assume(not hasattr(ModuleType, name))
    assert getattr(graphexec, name, None) is vars(graphexec).get(name)


# ---- names and modules that users expect elsewhere, or spell wrongly

PACKAGES = (graphexec, agents, executor, kernel, memory, messages, models, tools, verify)
TOOL = "a tool is a function with annotations and a docstring: write @tool above def"
AGENT = "create_agent(model, tools) makes an agent and its executor"
MODELS = "write OpenAICompatible, Anthropic or LocalModel of graphexec.models"
MESSAGES = "write UserMessage, AssistantMessage, SystemMessage or ToolMessage of graphexec.messages"

MISSING_NAMES = [
    ("agents", "AgentExecutor", "write from graphexec import AgentExecutor"),
    ("agents", "create_agent", "write from graphexec import create_agent"),
    ("agents", "tool", "write from graphexec import tool"),
    ("agents", "initialize_agent", AGENT),
    ("agents", "load_tools", TOOL),
    ("tools", "BaseTool", TOOL),
    ("tools", "StructuredTool", TOOL),
    ("tools", "CallTool", "write from graphexec.effects import CallTool"),
    ("models", "ChatOpenAI", MODELS),
    ("models", "ChatAnthropic", MODELS),
    ("models", "OpenAICompatable", "did you mean OpenAICompatible?"),
    ("memory", "ConversationBufferMemory", "write BufferMemory of graphexec.memory"),
    ("memory", "UserMessage", "write from graphexec.messages import UserMessage"),
    ("messages", "HumanMessage", MESSAGES),
    ("executor", "Runner", AGENT),
    ("kernel", "Snapshots", "did you mean Snapshot?"),
    ("verify", "UnprovedErrors", "did you mean UnprovedError?"),
    ("verify", "diff", "compare {*after.edges} with {*before.edges}, and the bounds of both verdicts"),
    ("", "create_agnt", "did you mean create_agent?"),
    ("", "BuferMemory", "did you mean BufferMemory of graphexec.memory?"),
    ("", "load_tools", TOOL),
    ("", "llms", MODELS),
    ("", "OpenAICompatible", "write from graphexec.models import OpenAICompatible"),
    ("", "BufferMemory", "write from graphexec.memory import BufferMemory"),
    ("", "UserMessage", "write from graphexec.messages import UserMessage"),
    ("", "AgentError", "write from graphexec.errors import AgentError"),
]


@cases(("package", "name", "remedy"), *MISSING_NAMES)
def test_package_explains_missing_name(package: str, name: str, remedy: str) -> None:
    module = f"graphexec.{package}".rstrip(".")
    imported = error_message(ImportError, exec, f"from {module} import {name}")
    missing = error_message(AttributeError, getattr, sys.modules[module], name)
    assert imported == missing == f"{module} has no {name}; {remedy}"


MISSING_MODULES = [
    ("chat_models", MODELS),
    ("llms", MODELS),
    ("prompts", "a prompt is a string with {variables}"),
    ("callbacks", "write AgentExecutor(observers=[function]), with a function of an event"),
    ("schema", "messages are in graphexec.messages, and the steps of a run in graphexec.actions"),
    ("agents.agent_toolkits", TOOL),
    ("tolls", "did you mean graphexec.tools?"),
    (
        "verify.audit",
        "the engine compares each step of a run with its certificate, which check of graphexec.verify checks",
    ),
]


@cases(("module", "remedy"), *MISSING_MODULES)
def test_import_explains_missing_module(module: str, remedy: str) -> None:
    with pytest.raises(ModuleNotFoundError) as raised:
        exec(f"import graphexec.{module}")
    assert str(raised.value) == f"there is no module graphexec.{module}; {remedy}"
    assert raised.value.name == f"graphexec.{module}"


@cases("module", "nothing_here", "graphexec.nothing", "graphexec.agents.nothing")
def test_other_module_is_missing_as_usual(module: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=f"^No module named '{module}'$"):
        importlib.import_module(module)


@cases("module", "llms", "tolls", "nothing")
def test_missing_module_has_no_spec(module: str) -> None:
    assert importlib.util.find_spec(f"graphexec.{module}") is None


@pytest.mark.medium
@cases("package", *PACKAGES)
@given(name=st.from_regex(r"\A[a-zA-Z][a-zA-Z_]{0,8}\Z"))
def test_any_missing_name_can_be_looked_up(package: ModuleType, name: str) -> None:
    assert getattr(package, name, None) is vars(package).get(name)


@cases("package", *PACKAGES)
def test_submodules_are_imported_as_before(package: ModuleType) -> None:
    names = [one.partition(".")[2] for one in sys.modules if one.rpartition(".")[0] == package.__name__]
    assert names
    for name in names:
        exec(f"from {package.__name__} import {name.rpartition('.')[2]}")
