"""A piece that asks a person before a tool is called: `approve_tools`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from textwrap import shorten
from typing import Any, Literal, TypeAlias, final, get_args

from pydantic import ConfigDict

from graphexec._arguments import NAME, PLAIN_FUNCTION, STRING, TEXT, Constraint, optional, validate
from graphexec.actions import AgentAction, ToolInput
from graphexec.agents.calls import CallRules
from graphexec.effects import CallTool, ToolResult
from graphexec.errors import InputError, format_value
from graphexec.executor.outcomes import Acted
from graphexec.executor.plugging import Piece
from graphexec.kernel.effects import Asks, Effect, ask_all
from graphexec.kernel.node import node
from graphexec.messages import ToolCall
from graphexec.runtime.handlers import HandlerLike
from graphexec.tools.calling import describe_unknown
from graphexec.tools.tool import InvalidArgumentsError

# What a person may decide about a call.
ReviewDecision: TypeAlias = Literal["approve", "edit", "reject", "respond"]
_DECISIONS: tuple[ReviewDecision, ...] = get_args(ReviewDecision)
_DECISION = Constraint(f"one of {', '.join(_DECISIONS)}", lambda value: value in _DECISIONS)

# How often a person is asked about one call. After as many invalid reviews the call counts as rejected.
MOST_REVIEWS = 3


@final
@dataclass(frozen=True, slots=True)
class Review:
    """The decision of a person about a call.

    - `Review("approve")`: the tool is called.
    - `Review("edit", arguments={...})`: the tool is called with these arguments, or with `tool="name"` another one.
    - `Review("reject", "the reason")`: the tool is not called, and the model observes the reason.
    - `Review("respond", "the text")`: the tool is not called, and the text is its result.

    Raises `InputError` for another decision, for an edit without arguments, and for what other decisions do not take.
    """

    # The text of a person is not lost in a field of another name.
    __pydantic_config__ = ConfigDict(extra="forbid")

    decision: ReviewDecision
    text: str = ""
    # Any: the values of arguments are JSON data.
    arguments: dict[str, Any] | None = None
    tool: str | None = None

    def __post_init__(self) -> None:
        # Users without a type checker pass other values.
        validate("Review", ("decision", self.decision, _DECISION), ("text", self.text, STRING))
        validate("Review", ("tool", self.tool, optional(STRING, "an edit's")))
        given: Any = self.arguments
        if (self.decision == "edit") is not isinstance(given, dict) or not (given is None or isinstance(given, dict)):
            remedy = "write Review('edit', arguments={...}), and leave them out of other decisions"
            raise InputError(f"Review: {self.decision!r} has arguments={format_value(given)}; {remedy}")
        if self.tool is not None and self.decision != "edit":
            raise InputError(f"Review: {self.decision!r} has tool={self.tool!r}; only an edit calls another tool")


@dataclass(frozen=True, slots=True)
class ReviewCall(Effect[Review]):
    """Ask a person about a call of `tool` with `arguments`, before it is made.

    `allowed` are the decisions that the person may take, `reason` is what the model wrote with the call, `by` is the
    name of the piece, `problem` says why the last review of this call was invalid, if there was one, and `description`
    is that of `approve_tools`.
    """

    tool: str
    arguments: ToolInput
    allowed: tuple[ReviewDecision, ...]
    reason: str = ""
    by: str = "approve_tools"
    problem: str = ""
    description: str = ""

    @property
    def reply_choices(self) -> tuple[str, ...]:
        """The decisions that are `allowed`."""
        return self.allowed

    def __str__(self) -> str:
        decide = " or ".join(", ".join(self.allowed).rsplit(", ", 1))
        # What the model wrote besides the call itself.
        prose = takewhile(lambda line: not line.startswith(("Action", "{", "```", "<")), self.reason.splitlines())
        words = " ".join(one.removeprefix("responded: ") for one in prose if not one.startswith("Invoking: `"))
        reason = shorten(words, 300, placeholder="...")
        lines = (
            self.problem and f"The last review was invalid: {self.problem.removesuffix('.')}.",
            self.description,
            f"Call {CallTool(self.tool, self.arguments)}? Decide: {decide}.",
            reason and f"The model wrote: {reason}",
        )
        return "\n".join(filter(None, lines))


def approve_tools(
    tools: Mapping[str, Sequence[ReviewDecision]],
    *,
    when: Callable[[AgentAction], bool] | None = None,
    description: str | Callable[[AgentAction], str] = "",
    reviewer: HandlerLike | None = None,
    name: str = "approve_tools",
) -> Piece:
    """Ask a person about each call of these tools before it is made; the calls of one reply are asked about at once.

    `tools` has the decisions that are allowed for each tool: `approve`, `edit`, `reject` and `respond`. Only calls for
    which `when(action)` is true are asked about. The person reads the `description`, a string or a function of the
    action, above the call. Both functions are pure, as a resumed run calls them again. `reviewer` takes a `ReviewCall`
    and returns a `Review`. Without it, pass `handlers={ReviewCall: function}` to the executor, or keep the run in a
    store, where it waits for `store.reply(run_id, key, "approve")`, or a `Review`.

        def review(call: ReviewCall) -> Review:
            return Review("approve" if input(f"{call.tool} {call.arguments}? ") == "y" else "reject")

        gate = approve_tools({"delete_file": ["approve", "reject"]}, reviewer=review)
        executor = create_agent(model, tools, nodes=[gate])

    What runs is what the person has seen: pieces that change calls come before it, pieces that carry them out behind
    it, and every way to a tool leads through it. The agents of `sub_agent`, `handoffs` and `map_agents` need an
    approval of their own for the same tools, without which they are refused. An edit changes the call, also in the
    message that the model is shown; a call that stands twice in a reply is one call under the rule `no_repeats`, and
    both places are edited. An edit that calls another tool of the piece is asked about with the decisions for that
    tool; a tool that another piece gates or limits is refused. If a decision is not allowed, or the arguments do not
    fit the tool, the person is asked again; after three times the call counts as rejected.

    It adds one transition for each decision of the agent that calls tools, and no model call. Raises `InputError` for
    an unknown decision, and the executor raises it for a tool that it does not have.
    """
    validate("approve_tools", ("when", when, optional(PLAIN_FUNCTION)), ("name", name, NAME))
    validate("approve_tools", ("description", description, TEXT))
    gates = _read_gates(tools)

    def make_call(action: AgentAction, rules: CallRules) -> ReviewCall | None:
        tool = rules.find_tool(action)
        allowed = gates.get(action.tool if tool is None else tool.name)
        if allowed is None or not (when is None or when(action)):
            return None
        text = description if isinstance(description, str) else description(action)
        validate(name, ("the description", text, STRING))
        return ReviewCall(action.tool, action.tool_input, allowed, action.log, name, description=text)

    @node(name=name)
    def approve(acted: Acted, rules: CallRules) -> Asks[ReviewCall, Acted]:
        """Ask a person about the calls of the gated tools."""
        made = {place: make_call(acted.actions[place], rules) for place in acted.open}
        calls = {place: call for place, call in made.items() if call is not None}
        for _ in range(MOST_REVIEWS):
            again: dict[int, ReviewCall] = {}
            reviews = yield from ask_all([*calls.values()])
            for (place, call), review in zip(calls.items(), reviews, strict=True):
                if problem := _find_problem(review, call, acted.actions[place], rules):
                    again[place] = dataclasses.replace(call, problem=problem)
                    continue
                acted = _apply(review, acted, place)
                # A call of another tool has that tool's decisions.
                if not rules.calls(action := acted.actions[place], call.tool) and (gated := make_call(action, rules)):
                    again[place] = gated
            calls = again
            if not calls:
                break
        for place, call in calls.items():
            why = call.problem or "it was edited each time"
            acted = acted.answer(place, _make_rejection(call.tool, f"No valid review: {why}."))
        return acted

    handlers: dict[type[Effect[Any]], HandlerLike] = {} if reviewer is None else {ReviewCall: reviewer}
    return Piece(name, (approve,), handlers=handlers, gates=True, tool_names=tuple(gates))


def _read_gates(tools: Mapping[str, Sequence[ReviewDecision]]) -> Mapping[str, tuple[ReviewDecision, ...]]:
    # Users without a type checker pass a list of names, and one decision as a string.
    given: Any = tools
    example = "approve_tools({'delete_file': ['approve', 'reject']})"
    if not isinstance(given, Mapping) or not given or not all(isinstance(tool, str) for tool in tools):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"approve_tools has tools={format_value(tools)}; give decisions by the tool's name: {example}")
    gates = {tool: () if isinstance(decisions, str) else tuple(decisions) for tool, decisions in tools.items()}
    for tool, several in gates.items():
        if not several or not {*several} <= {*_DECISIONS}:
            remedy = f"give some of {', '.join(_DECISIONS)}: {example}"
            raise InputError(f"approve_tools has decisions={format_value(tools[tool])} for {tool}; {remedy}")
    return gates


def _find_problem(review: Review, call: ReviewCall, action: AgentAction, rules: CallRules) -> str:
    """Return why a review does not fit the call, or an empty string."""
    # Any: users write the handler.
    given: Any = review
    if not isinstance(given, Review):
        raise InputError(
            f"{call.by} asked for ReviewCall and was answered with {format_value(given)}; answer with a Review, such "
            "as Review('approve')"
        )
    if review.decision not in call.allowed:
        return f"{review.decision} is not allowed for {call.tool}; choose {' or '.join(call.allowed)}"
    if review.arguments is None:
        return ""
    fits = rules.make_unmade_result(action) is None
    action = dataclasses.replace(action, tool=review.tool or action.tool)
    tool = rules.find_tool(action)
    if tool is None:
        return describe_unknown(action.tool, rules.tools) if review.tool else ""
    # They have decided about the call as it was.
    known = fits and rules.calls(action, call.tool)
    gates = [(gate, names) for gate, names in rules.gates.items() if gate != call.by]
    if others := [gate for gate, names in gates if not (known if tool.name in names else fits or names)]:
        return f"{others[0]} decides about calls of {tool.name}; reject this one, so that the model makes the other"
    try:
        tool.read(review.arguments)
        json.dumps(review.arguments)
    except InvalidArgumentsError as error:
        return str(error)
    # A user's validator may raise any exception.
    except Exception as error:  # noqa: BLE001
        return f"the arguments do not fit {tool.name}: {error}"
    return ""


def _apply(review: Review, acted: Acted, place: int) -> Acted:
    """Return the actions after a valid review of one of them."""
    tool = acted.actions[place].tool
    match review.decision:
        case "approve":
            return acted
        case "edit":
            assert review.arguments is not None, "Review requires them"
            return replace_arguments(acted, place, review.arguments, review.tool or tool)
        case "reject":
            return acted.answer(place, _make_rejection(tool, review.text or "Do not repeat the call."))
        case "respond":
            return acted.answer(place, ToolResult(review.text))


def _make_rejection(tool: str, text: str) -> ToolResult:
    return ToolResult(f"{tool} was not called: a person rejected this call. {text}", "rejected")


def replace_arguments(acted: Acted, place: int, arguments: dict[str, Any], tool: str) -> Acted:
    """Return the actions with another call in place of one of them, and of those that have its result.

    The message and the text that the model is shown have them, too: they describe the call that is made.
    """
    places = {place, *acted.sharing(place)}
    ids, text = {acted.actions[one].call_id for one in places}, json.dumps(arguments, ensure_ascii=False)
    old = acted.actions[place].message

    def replace(place: int, action: AgentAction) -> AgentAction:
        message = action.message
        # The actions of one reply share its message.
        if message is not None and message == old:
            calls = tuple(ToolCall(one.id, tool, text) if one.id in ids else one for one in message.tool_calls)
            action = dataclasses.replace(action, message=dataclasses.replace(message, tool_calls=calls))
        if place not in places:
            return action
        log = action.log
        if message is None and tool != action.tool:
            log = f"{log}\n(A person changed the call to {tool} with {text}.)"
        elif message is None:
            log = _rewrite_input(log, action.tool_input, arguments)
        # `original` is the action as another library has it, with the arguments before.
        return dataclasses.replace(action, tool=tool, tool_input=arguments, log=log, original=None)

    return Acted(acted.run, tuple(replace(*one) for one in enumerate(acted.actions)), acted.answers)


def _rewrite_input(log: str, old: ToolInput, arguments: dict[str, Any]) -> str:
    """Return what the model wrote with the arguments in the place of its input, or with a note if that is not found."""
    text = json.dumps(arguments, ensure_ascii=False)
    if isinstance(old, str) and old.strip() and (place := log.rfind(old)) >= 0:
        return log[:place] + text + log[place + len(old) :]
    decoder = json.JSONDecoder()
    place = log.find("{")
    while place >= 0:
        try:
            value, end = decoder.raw_decode(log, place)
        except ValueError:
            value, end = None, place
        if value == old:
            return log[:place] + text + log[end:]
        place = log.find("{", place + 1)
    return f"{log}\n(A person changed the input to {text}.)"
