"""Options and calls that are wrong, and names that were removed: the error says what to write."""

import copy
import pickle
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import graphexec
from graphexec import Limits, agents, executor, kernel, memory, messages, models, runtime, tools, verify
from graphexec import _arguments as arguments
from graphexec._arguments import FLAG, NAME, PATH, SECONDS, STRING, TIMEOUT, optional, validate, whole
from graphexec._mistakes import explain_calls
from graphexec._mistakes.remedies import REMOVED
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
    """A store without `__setitem__`."""

    get = len

    def __repr__(self) -> str:
        return "<half>"


def test_missing_method_is_named() -> None:
    for kind, remedy in ((STORE, ""), (optional(STORE), ", or None for none")):
        text = f"the store is <half>, which has no __setitem__; give {STORE.words}"
        assert error_message(InputError, validate, "", ("the store", HalfAStore(), kind)) == f"{text}{remedy}"
    assert STORE.lacks(3) == STORE.lacks({}) == ""


@cases("several", ["a", "b"], ("a", "b"), {"a": 1, "b": 2}, iter("ab"))
def test_several_values_become_a_tuple(several: Any) -> None:
    assert arguments.validate_each("stop", several, str, "strings") == ("a", "b")


@cases("wrong", "ab", b"ab", None, 3, ["a", 3])
def test_single_value_is_refused_where_a_list_belongs(wrong: Any) -> None:
    message = error_message(InputError, arguments.validate_each, "stop", wrong, str, "strings")
    assert message == f"stop is {wrong!r}; give a list of strings"


# ---- calls that do not fit


WEIGHT = "AgentExecutor has no option weight"
FORM = "write AgentExecutor(agent=agent, tools=tools)"


@cases(
    ("options", "message"),
    ({"weight": 3}, f"{WEIGHT}; {FORM}"),
    ({"weight": 3, "tool": 3}, f"AgentExecutor has no option tool; did you mean tools? {WEIGHT}; {FORM}"),
    ({"weight": 3, "colour": 3}, f"{WEIGHT} or colour; {FORM}"),
)
def test_wrong_options_name_a_remedy(options: dict[str, Any], message: str) -> None:
    # tests/executor/test_remedies.toml has all other calls that do not fit.
    assert error_message(SignatureError, graphexec.AgentExecutor, **options) == message
    assert issubclass(SignatureError, TypeError)


def test_type_error_within_a_call_is_kept() -> None:
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


def test_explained_objects_are_copied_and_pickled() -> None:
    limits = Limits(iterations=3)
    assert copy.deepcopy(limits) == pickle.loads(pickle.dumps(limits)) == limits


@cases("name", "nothing", "_nothing", "StateGraph")
def test_package_has_no_missing_name(name: str) -> None:
    assert not hasattr(graphexec, name)
    with pytest.raises(ImportError):
        exec(f"from graphexec import {name}")


# ---- names that were removed

PACKAGES = (graphexec, agents, executor, kernel, memory, messages, models, runtime, tools, verify)


@cases("name", *REMOVED)
def test_import_names_the_successor(name: str) -> None:
    package, _, last = f"graphexec.{name}".rpartition(".")
    message = error_message(ImportError, exec, f"from {package} import {last}")
    assert message == f"{package} has no {last}; {REMOVED[name]}"


@pytest.mark.medium
@cases("package", *PACKAGES)
@given(name=st.text() | st.from_regex(r"\A[a-zA-Z_]{1,8}(\.[a-z_]{0,8}){0,3}\Z"))
@example(name="foo.bar")
@example(name="executor.")
@example(name="models.nothing")
@example(name=".")
@example(name="")
@example(name="class")
@example(name="a" * 5_000)
@example(name="\udc80\0")
def test_any_missing_name_can_be_looked_up(package: ModuleType, name: str) -> None:
    # Every object has such attributes: `__class__`.
    assume(not hasattr(ModuleType, name) and f"{package.__name__}.{name}".partition(".")[2] not in REMOVED)
    assert getattr(package, name, None) is vars(package).get(name)


@cases("package", *PACKAGES)
def test_submodules_are_imported_as_before(package: ModuleType) -> None:
    names = [one.partition(".")[2] for one in sys.modules if one.rpartition(".")[0] == package.__name__]
    assert names
    for name in names:
        exec(f"from {package.__name__} import {name.rpartition('.')[2]}")
