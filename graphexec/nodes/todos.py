"""A piece that gives the model a list of things to do: `todo_list`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal, final

from typing_extensions import TypedDict

from graphexec._arguments import NAME, STRING, validate, whole
from graphexec.actions import AgentAction, AgentFinish, AgentStep, Run
from graphexec.agents.prompt import format_observation
from graphexec.effects import ToolResult
from graphexec.executor.outcomes import Acted, Ready
from graphexec.executor.plugging import Piece
from graphexec.kernel.meters import Exhausted, Meter
from graphexec.kernel.node import node
from graphexec.tools import tool
from graphexec.tools.tool import InvalidArgumentsError

# The tool name in the step of a reminder; no tool has such a name.
REMINDER_TOOL = "_Reminder"


class Todo(TypedDict):
    """An item of the list."""

    content: str
    status: Literal["pending", "in_progress", "completed"]


@tool(max_tool_input=20_000)
def write_todos(todos: list[Todo]) -> str:
    """Replace your to-do list. Write it for a task of several steps, and again when the status of an item changes."""
    marks = {"pending": " ", "in_progress": "~", "completed": "x"}
    return "\n".join(f"[{marks[todo['status']]}] {todo['content']}" for todo in todos) or "The list is empty."


@final
@dataclass(frozen=True, slots=True)
class TodosOpen:
    """The agent finishes, and its list has items that are not completed."""

    finish: AgentFinish
    items: tuple[str, ...]

    @property
    def run(self) -> Run:
        """The run so far."""
        return self.finish.run


def todo_list(reminders: int = 1, *, description: str = write_todos.description, name: str = "todo_list") -> Piece:
    """Give the model a to-do list, which it replaces with the tool `write_todos`, and remind it of open items.

    An answer with open items is not given out yet: up to `reminders` times the model is reminded of them. After
    that the answer ends the run. A reply may write one list: further ones are answered with an error. The list of a run
    is the one that was written last: `graphexec.nodes.todos.find_todos(result.ending.run)` returns it. `description` is
    that of the tool, by which the model decides when to write a list.

        from graphexec.nodes import todo_list

        executor = create_agent(model, tools, nodes=[todo_list()])
        print(executor.run("Plan the party, and invite everyone.").output)

    In i iterations a run has at most 7i + 2 transitions, and i model calls. Raises `InputError` for an invalid
    argument.
    """
    validate(
        "todo_list", ("reminders", reminders, whole(0)), ("description", description, STRING), ("name", name, NAME)
    )
    writing = dataclasses.replace(write_todos, description=description)

    @node(name=f"{name}_once")
    def allow_one_list(acted: Acted) -> Acted:
        """Answer all lists of a reply but the first with an error."""
        for place in [place for place in acted.open if _writes(acted.actions[place])][1:]:
            acted = acted.answer(place, ToolResult("Write one list at a time; the first one is kept.", "error"))
        return acted

    @node(name=f"{name}_check")
    def check_todos(finish: AgentFinish) -> AgentFinish | TodosOpen:
        """Look for open items."""
        items = tuple(todo["content"] for todo in find_todos(finish.run) if todo["status"] != "completed")
        return TodosOpen(finish, items) if items else finish

    def finish_anyway(given: TodosOpen, _: Exhausted) -> AgentFinish:
        return given.finish

    @node(name=f"{name}_remind", when_spent=finish_anyway, meters=[Meter(f"{name}_reminders", reminders)])
    def remind(given: TodosOpen) -> Ready:
        """Show the model the open items."""
        finish = given.finish
        items = "\n".join(f"- {item}" for item in given.items)
        text = f"Your to-do list has open items:\n{items}\nDo them, or mark them as completed, and answer again."
        action = AgentAction(REMINDER_TOOL, "", finish.log or format_observation(finish.answer))
        return Ready(finish.run.with_steps([AgentStep(action, text, "rejected")]))

    return Piece(name, (allow_one_list, check_todos, remind), tools=(writing,))


def find_todos(run: Run) -> list[Todo]:
    """Return the to-do list of a run: the one that was written last; empty without one."""
    for step in reversed(run.steps):
        if _writes(step.action) and step.status == "ok":
            try:
                todos: list[Todo] = write_todos.read(step.action.tool_input)["todos"]
            except InvalidArgumentsError:
                # A person has answered the call in the place of the tool.
                continue
            return todos
    return []


def _writes(action: AgentAction) -> bool:
    # Without regard to case, as an executor may look its tools up; another case is an unknown tool, or this one.
    return action.tool.casefold() == write_todos.name
