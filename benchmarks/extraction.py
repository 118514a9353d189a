"""Score a model on ten extractions: count the runs with an output type that return the right instance.

    python benchmarks/extraction.py [--model NAME] [--reasks N] [--check N]

The default is the small local model. Each task is a short text with the three values of a model. A run is right only if
its output is an instance with exactly these values; strings are compared without case, blanks and full stops at their
ends. A run that ends without an instance is stopped, which is no error. An output of another class would be an error of
the library: the script then exits with status 2. With `--check N` the exit status is 1 for fewer than N right ones.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel

from graphexec import RunResult, create_agent
from graphexec.models import create_model


class Person(BaseModel):
    """A person."""

    name: str
    age: int
    city: str


class Order(BaseModel):
    """An order of a shop."""

    product: str
    quantity: int
    price: float


class Meeting(BaseModel):
    """A meeting."""

    topic: str
    weekday: Literal["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"]
    room: int


class Book(BaseModel):
    """A book."""

    title: str
    author: str
    year: int


@dataclass(frozen=True)
class Task:
    """A text, and the instance that it describes."""

    text: str
    expected: BaseModel


TASKS = (
    Task("Maria is 34 years old and lives in Lisbon.", Person(name="Maria", age=34, city="Lisbon")),
    Task("My neighbour Tom, 71, moved to Leeds last spring.", Person(name="Tom", age=71, city="Leeds")),
    Task("Aiko lives in Osaka. She turned 28 in March.", Person(name="Aiko", age=28, city="Osaka")),
    Task("Please send me 3 teapots at 12.50 euros each.", Order(product="teapots", quantity=3, price=12.5)),
    Task("We ordered 40 chairs; each costs 59.90 dollars.", Order(product="chairs", quantity=40, price=59.9)),
    Task("One lamp for 25 euros, please.", Order(product="lamp", quantity=1, price=25)),
    Task("The meeting about the budget is on Tuesday in room 12.", Meeting(topic="budget", weekday="Tuesday", room=12)),
    Task("On Friday we talk about hiring, in room 204.", Meeting(topic="hiring", weekday="Friday", room=204)),
    Task("Dracula was written by Bram Stoker in 1897.", Book(title="Dracula", author="Bram Stoker", year=1897)),
    Task(
        "In 1932, Aldous Huxley published Brave New World.",
        Book(title="Brave New World", author="Aldous Huxley", year=1932),
    ),
)


def is_right(output: object, expected: BaseModel) -> bool:
    """Return whether an output is the expected instance."""
    return type(output) is type(expected) and _normalize(output) == _normalize(expected)


def _normalize(instance: BaseModel) -> dict[str, object]:
    values = instance.model_dump()
    return {name: value.strip(" .").casefold() if isinstance(value, str) else value for name, value in values.items()}


def judge(result: RunResult[BaseModel], task: Task) -> str:
    """Return `right`, `wrong values`, `stopped` or `wrong type`."""
    if result.stopped is not None:
        return "stopped"
    # Any class may come from a library with an error.
    output: object = result.output
    if type(output) is not type(task.expected):
        return "wrong type"
    return "right" if is_right(output, task.expected) else "wrong values"


def main() -> int:
    """Run the tasks, and print a line for each and the sums."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", default="local")
    parser.add_argument("--reasks", type=int, default=2)
    parser.add_argument("--check", type=int, default=0)
    options = parser.parse_args()
    model = create_model(options.model)
    counts = Counter[str]()
    for task in TASKS:
        executor = create_agent(model, [], output_type=type(task.expected))
        start = time.perf_counter()
        result = executor.run(task.text)
        verdict = judge(result, task)
        counts[verdict] += 1
        calls = result.spent["model_calls"]
        print(f"{verdict:13} {time.perf_counter() - start:5.1f} s  {calls} calls  {str(result)[:90]}")
    print(", ".join(f"{verdict}: {count}" for verdict, count in counts.items()))
    if counts["wrong type"]:
        return 2
    return int(counts["right"] < options.check)


if __name__ == "__main__":
    sys.exit(main())
