"""A writer that revises within a budget that each chapter resets, and one that revises forever."""

from typing import Any

from graphexec import ITERATIONS, Exhausted, Machine, Meter, node
from tests.kernel.machines import machine_of, value

REVISIONS = Meter("revisions", 2)


@value
class Chapter:
    """A chapter to write, with the replies of a critic and an editor, one letter each."""

    wishes: str = ""


@value
class Text:
    wishes: str


@value
class Good:
    wishes: str


@value
class Poor:
    wishes: str


@value
class Book: ...


@value
class GivenUp:
    given: Chapter | Poor
    limit: Exhausted


@node(when_spent=GivenUp, meters=[ITERATIONS])
def write(chapter: Chapter) -> Text:
    return Text(chapter.wishes)


@node
def criticize(text: Text) -> Good | Poor:
    return Poor(text.wishes[1:]) if text.wishes.startswith("p") else Good(text.wishes)


@node(when_spent=GivenUp, meters=[REVISIONS])
def revise(poor: Poor) -> Text:
    return Text(poor.wishes)


@node
def edit(good: Good) -> Chapter | Book:
    return Chapter(good.wishes[1:]) if good.wishes.startswith("m") else Book()


@node
def polish(poor: Poor) -> Text:
    return Text(poor.wishes)


WRITER: Machine[Chapter, Any] = machine_of(write, edit, criticize, revise, resets={Chapter: [REVISIONS]})

# No budget bounds how often it polishes.
PERFECTIONIST: Machine[Chapter, Any] = machine_of(write, criticize, polish, edit)
