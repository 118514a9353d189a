"""Every exception of the package can be pickled and copied, with its attributes, notes and cause."""

from __future__ import annotations

import copy
import importlib
import pickle
import pkgutil
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphexec
from graphexec import Limits, executor, verify
from graphexec.errors import Fault, GraphexecError, InputError, MissingHandlerError, ModelError
from graphexec.kernel.snapshot import Snapshot, attach_snapshot, snapshot_of
from graphexec.testing.failures import WaitingTask
from graphexec.tools.options import ToolRaisedError
from tests.parameters import cases

# The arguments of each constructor that takes more than a text; a subclass without its own has that of its base.
ARGUMENTS: Mapping[str, tuple[tuple[object, ...], Mapping[str, object]]] = {
    "GraphError": (([Fault("GX001", "plan", None, "no edge; add one")],), {}),
    "InputError": (("a key is missing; pass it",), {"missing": ["input"]}),
    "UndeclaredOutcomeError": (("plan", 3, ["Replied"]), {}),
    "UndeclaredEffectError": (("plan", {"effect": 3}, ["CallModel"]), {}),
    "MeasureError": (("work", 3, 2), {}),
    "UndeclaredCountError": (("plan", 3, 1, None), {}),
    "MissingHandlerError": ((3,), {}),
    "CallLimitError": (("search may be called once; allow more",), {"limit": "search_calls", "value": 1}),
    "ParseError": (("no action",), {"observation": "write JSON", "llm_output": "?", "prose": True}),
    "ModelError": (("the server is away",), {"status": 503}),
    "RateLimitError": (("slow down",), {"status": 429, "retry_after": 2.5}),
    "ContextOverflowError": (("too long",), {"status": 400, "prompt_tokens": 9, "context_tokens": 8}),
    "ReplyLimitError": (("too long",), {"status": 200, "limit": "bytes", "allowed": 8, "seen": 9}),
    "Terminated": ((15,), {}),
    "ForkRequestError": (("there is no step 9; name another", 404), {}),
    "UsageError": (("these do not exist",), {"each": ["a", "b"]}),
    "DeadlockError": (("nothing goes on", [WaitingTask([print])]), {}),
    "BrokenPromiseError": (("plan", "asks without end", "declare it"), {}),
    "ReportedError": (({"fact": "it is closed"},), {}),
    "ToolRaisedError": ((ValueError("a tool's own"),), {}),
    "InvalidArgumentsError": (("x is not a number", ["x"]), {}),
    "UnprovedError": ((executor.AGENT_EXECUTOR.verify(Limits(iterations=None)),), {}),
    "RunStoreError": (("trip", "is carried on elsewhere; wait"), {}),
    "RunChangedError": (("trip", "was begun by another version", ["the node plan"]), {}),
    "RunRefused": ((ValueError("the store is away"),), {}),
    "UndeclaredGotoError": (("plan", "act", ["plan", "act"]), {}),
    "_Interrupted": ((KeyboardInterrupt(),), {}),
}
_TEXT: tuple[tuple[object, ...], Mapping[str, object]] = (("something is wrong; mend it",), {})


@cache
def classes() -> Mapping[str, type[BaseException]]:
    """Return every exception class of the package by its name."""
    names = [one.name for one in pkgutil.walk_packages(graphexec.__path__, "graphexec.")]
    found: set[type] = set()
    for name in names:
        try:
            module = importlib.import_module(name.removesuffix(".__main__"))
        except (ImportError, InputError):
            # Some integrations need packages that only the extra dev has.
            assert name.startswith("graphexec.integrations.")
        else:
            found |= {one for one in vars(module).values() if isinstance(one, type)}
    return {
        f"{one.__module__}.{one.__qualname__}": one
        for one in found
        if issubclass(one, BaseException) and one.__module__.startswith("graphexec")
    }


def example(kind: type[BaseException]) -> BaseException:
    """Return an exception of a class, with a note and a cause."""
    owner = next(one for one in kind.__mro__ if "__init__" in vars(one))
    own = owner.__module__.startswith("graphexec")
    args, options = ARGUMENTS[owner.__qualname__] if own else _TEXT
    error = kind(*args, **options)
    error.add_note("a note")
    error.__cause__ = ModelError("the cause", status=500)
    return error


def described(error: BaseException) -> tuple[object, ...]:
    attributes = {name: repr(one) for name, one in vars(error).items()}
    if isinstance(error, verify.UnprovedError):
        # The repr of the machine replaces it.
        verdict = error.verdict
        shown = repr(verdict.graph).strip("'")
        attributes["verdict"] = repr((verdict.status, shown, verdict.limits, verdict.findings))
    return type(error), str(error), repr(error.args), attributes


@cases("name", *sorted(classes()))
def test_exception_survives_pickling_and_copying(name: str) -> None:
    error = example(classes()[name])
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert described(pickle.loads(pickle.dumps(error, protocol))) == described(error)
    assert described(copy.copy(error)) == described(error)
    assert described(copy.deepcopy(error)) == described(error)
    if isinstance(error, GraphexecError):
        for same in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
            assert str(same.__cause__) == "the cause"
            assert same.__suppress_context__


def test_what_cannot_be_pickled_or_copied_is_kept() -> None:
    effect = [lambda: 3]
    error = MissingHandlerError(effect)
    error.__cause__ = ModelError("the cause")
    error.__cause__.__dict__["of"] = effect
    same = pickle.loads(pickle.dumps(error))
    assert str(same) == str(error)
    assert same.effect.startswith("[<function test_what_cannot_be_pickled")
    assert same.__cause__.of == same.effect
    verdict = executor.AGENT_EXECUTOR.verify(Limits(iterations=3))
    assert copy.copy(verdict) is copy.deepcopy(verdict) is verdict
    restored = pickle.loads(pickle.dumps(verdict))
    assert (restored.status, restored.certificate) == (verdict.status, verdict.certificate)


class _Own(GraphexecError):
    """A user's error, whose constructor takes more than a text."""

    def __init__(self, name: str, *, code: int) -> None:
        self.name, self.code = name, code
        super().__init__(f"{name}: {code}")


def test_exception_is_pickled_with_what_it_holds() -> None:
    same = pickle.loads(pickle.dumps(_Own("a", code=3)))
    assert (str(same), same.name, same.code) == ("a: 3", "a", 3)
    error = ModelError("the server is away")
    error.__cause__ = _OnlyOut("a", "b")
    same = pickle.loads(pickle.dumps(error))
    assert (str(same), same.__cause__) == ("the server is away", None)
    assert pickle.loads(pickle.dumps(ToolRaisedError(_OnlyOut("a", "b")))).error == "_OnlyOut('ab')"
    attach_snapshot(error, Snapshot("plan", 3))
    assert snapshot_of(pickle.loads(pickle.dumps(error))) == Snapshot("plan", 3)


class _OnlyOut(Exception):
    """An exception that can be pickled, and not unpickled."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one}{other}")


class _WithoutNotes(Exception):
    def add_note(self, note: str, /) -> None:
        raise KeyError(note)


class _WithATextForNotes(Exception):
    __notes__: Any = "no list"


@cases("kind", _WithoutNotes, _WithATextForNotes)
def test_exception_that_takes_no_note_has_its_snapshot(kind: type[Exception]) -> None:
    error = kind("mine")
    attach_snapshot(error, Snapshot("plan", 3))
    assert snapshot_of(error) == Snapshot("plan", 3)


@given(depth=st.integers(1, 40))
def test_chain_of_causes_is_pickled_in_linear_time(depth: int) -> None:
    first = error = ModelError("0")
    for number in range(1, depth):
        error.__cause__ = ModelError(f"{number}")
        error = error.__cause__
    same: Any = pickle.loads(pickle.dumps(first))
    found: list[str] = []
    while same is not None:
        found.append(str(same))
        same = same.__cause__
    assert found == [f"{number}" for number in range(depth)]


def _raise(error: BaseException) -> None:
    raise error


@pytest.mark.slow
def test_exceptions_cross_processes() -> None:
    errors = [error for kind in classes().values() if isinstance(error := example(kind), Exception)]
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        for error in errors:
            with pytest.raises(type(error)) as raised:
                pool.submit(_raise, error).result(60)
            assert str(raised.value) == str(error)
