"""The parameters of tests: tables whose cases are one test, and values that the usual tests leave out."""

import functools
import inspect
import tomllib
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings

Test: TypeAlias = Callable[..., None]

# The numbers of examples of a property in `pytest` and in the quick gate.
QUICK, GATE = 5, 30

# The longest description of a case that is shown.
_LONGEST = 300


def thorough(test: Test, number: int, *drawn: Any, gate: int = 300) -> Test:
    """Return the slow test of a property that tries so many examples, of these strategies."""
    # Any: `given` adds the attribute, and changes the signature.
    inner: Any = vars(test)["hypothesis"].inner_test
    tried: Any = given(*drawn)
    slow: Test = pytest.mark.slow(settings(max_examples=examples(number, gate), deadline=None)(tried(inner)))
    return slow


# Any: a parameter may have any values.
def mark_except(values: Iterable[Any], *quick: object, mark: pytest.MarkDecorator = pytest.mark.medium) -> list[Any]:
    """Return the values for `parametrize`; all but the `quick` ones are marked."""
    values = list(values)
    assert all(one in values for one in quick), "each quick value is one of the values"
    return [value if value in quick else pytest.param(value, marks=mark) for value in values]


def some(values: Mapping[str, Any], step: int) -> list[Any]:
    """Return the values for `parametrize`, with their names; the quick gate has one of `step`, and `.ci/full` all."""
    return [
        pytest.param(value, id=name, marks=[pytest.mark.full] if number % step else [])
        for number, (name, value) in enumerate(values.items())
    ]


def read_tables(test: str) -> dict[str, Any]:
    """Return the tables in the TOML file beside a test, of which this is the file."""
    return tomllib.loads(Path(test).with_suffix(".toml").read_text(encoding="utf-8"))


def examples(number: int, gate: int = 300) -> int:
    """Return how often a test with its own number tries: so often in `.ci/full`, at most `gate` times in `.ci/run`."""
    return min(number, {QUICK: QUICK, GATE: gate}.get(settings().max_examples, number))


def cases(names: str | Sequence[str], *rows: Any) -> Callable[[Test], Test]:
    """Run a test with each row of a table, as `pytest.mark.parametrize` does, but as one test of pytest.

    An item of pytest costs more than most cases do. Every case runs; the first failure is raised, and names the others.
    Each has a `tmp_path` and a `monkeypatch` of its own, and an empty `capsys` and `caplog`; the cases share all else.
    The test's attribute `cases` is their number, which the last line of a session adds up.
    """
    columns = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = [dict(zip(columns, (row,) if len(columns) == 1 else row, strict=True)) for row in rows]
    assert table, f"no case of {names}"

    def fold(test: Test) -> Test:
        signature = inspect.signature(test)

        @functools.wraps(test)
        def run_cases(*instance: Any, **fixtures: Any) -> None:
            failures: list[BaseException] = []
            for number, row in enumerate(table):
                try:
                    with _fresh(fixtures, number) as fresh:
                        test(*instance, **row, **fresh)
                # `pytest.fail` and `pytest.raises` raise what is no Exception.
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001
                    error.add_note(f"case {number}: {_describe(row)}")
                    failures.append(error)
            for other in failures[1:]:
                failures[0].add_note(f"also {other.__notes__[-1]}: {type(other).__name__}: {_shorten(str(other))}")
            if failures:
                raise failures[0]

        # What is left for pytest to give.
        kept = [one for name, one in signature.parameters.items() if name not in columns]
        run_cases.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        run_cases.cases = len(table) * getattr(test, "cases", 1)  # type: ignore[attr-defined]
        return run_cases

    return fold


@contextmanager
def _fresh(fixtures: dict[str, Any], number: int) -> Generator[dict[str, Any]]:
    """Give the fixtures of pytest that a case could leave changed for the next one."""
    fresh = dict(fixtures)
    with ExitStack() as stack:
        if "monkeypatch" in fresh:
            fresh["monkeypatch"] = stack.enter_context(fresh["monkeypatch"].context())
        if "tmp_path" in fresh:
            fresh["tmp_path"] = fresh["tmp_path"] / f"case{number}"
            fresh["tmp_path"].mkdir()
        if "capsys" in fresh:
            fresh["capsys"].readouterr()
        if "caplog" in fresh:
            fresh["caplog"].clear()
        yield fresh


def _describe(row: dict[str, Any]) -> str:
    return _shorten(", ".join(f"{name}={_represent(value)}" for name, value in row.items()))


def _represent(value: object) -> str:
    try:
        return repr(value)
    # Of hostile values, and of integers with more digits than Python writes.
    except Exception as error:  # noqa: BLE001
        return f"<{type(value).__name__} whose repr raises {type(error).__name__}>"


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
