"""A writer that revises within a budget that each chapter resets, and one that revises forever."""

from typing import Any

from graphexec import ITERATIONS, Exhausted, Machine, Meter, node
from tests.kernel.machines import machine_of, value

REVISIONS = Meter("revisions", 2)


@value
class Chapter: ...


@value
class Text: ...


@value
class Good: ...


@value
class Poor: ...


@value
class Book: ...


@value
class GivenUp:
    given: Chapter | Poor
    limit: Exhausted


@node(when_spent=GivenUp, meters=[ITERATIONS])
def write(chapter: Chapter) -> Text:
    return Text()


@node
def criticize(text: Text) -> Good | Poor:
    return Good()


@node(when_spent=GivenUp, meters=[REVISIONS])
def revise(poor: Poor) -> Text:
    return Text()


@node
def edit(good: Good) -> Chapter | Book:
    return Book()


@node
def polish(poor: Poor) -> Text:
    return Text()


WRITER: Machine[Chapter, Any] = machine_of(write, edit, criticize, revise, resets={Chapter: [REVISIONS]})

# No budget bounds how often it polishes.
PERFECTIONIST: Machine[Chapter, Any] = machine_of(write, criticize, polish, edit)
