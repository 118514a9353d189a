"""Pieces about the calls of tools: `limit_tool`, `cache_tools`, `ask_user`, `emulate_tools` and `stop_repeats`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from graphexec._arguments import NAME, Constraint, optional, validate, validate_each, whole
from graphexec.actions import AgentAction, AgentStep, Run, Steps
from graphexec.agents.calls import CallRules, Turn, last_turns
from graphexec.agents.prompt import format_observation, parse_template
from graphexec.effects import AskHuman, Attempted, AttemptModel, ModelFailure, ToolResult
from graphexec.errors import CallLimitError, InputError
from graphexec.executor.handlers import make_attempt_handler, make_model_handler
from graphexec.executor.nodes import Policies, add_steps
from graphexec.executor.options import to_model
from graphexec.executor.outcomes import Acted, Ready, Stopped
from graphexec.executor.plugging import Piece
from graphexec.executor.rules import rule_piece
from graphexec.kernel.effects import Asks, Effect, ask_all
from graphexec.kernel.meters import Exhausted
from graphexec.kernel.node import Node, node
from graphexec.messages import ChatRequest, UserMessage, separate_reasoning
from graphexec.messages.observations import split_observation
from graphexec.runtime.handlers import HandlerLike
from graphexec.tools import AnyTool
from graphexec.tools import tool as make_tool
from graphexec.tools.tool import InvalidArgumentsError

if TYPE_CHECKING:
    from graphexec.messages import Model
    from graphexec.models.functions import ModelFunction

# The statuses of calls that were not made.
NOT_MADE = frozenset({"rejected", "bad_arguments", "unknown_tool", "parse_error"})


# What becomes of a call beyond a limit: the model observes that it is not made, the run stops, or it raises.
OnLimit: TypeAlias = Literal["continue", "end", "error"]
ON_LIMIT = Constraint("'continue', 'end' or 'error'", lambda value: value in get_args(OnLimit))

# The name of the limit on all tools together.
ALL = "tool_calls"


def limit_tool(tool: str | None, calls: int, *, on_limit: OnLimit = "continue", name: str = "limit_tool") -> Piece:
    """Let a run call a tool at most `calls` times, 0 or more; the model observes that further calls are not made.

        executor = create_agent(model, tools, nodes=[limit_tool("search", 3)])

    With `on_limit="end"`, the first call beyond the limit stops the run: none of the reply's calls is made, each has an
    observation, and the limit of the stopped response is `search_calls`. With "error", it raises `CallLimitError`.

    The calls in the record of the run count, except those that were not made: rejected ones, and those with arguments
    that do not fit. A result that was repeated from an earlier call counts, too. To limit two tools, give the pieces
    names: `limit_tool("read", 5, name="limit_read")`; `limit_tool(None, 5)` limits all tools together.

    The engine counts the calls of a named tool, too, in the meter `search_calls`, on which the proof relies: it stops a
    run in which a node of yours calls the tool more often. An executor whose `handlers` answer `CallTool` has no such
    meter. It adds one transition for each decision that calls tools. Raises `InputError` for an invalid option, and the
    executor raises it for a tool that it does not have.
    """
    validate(
        "limit_tool",
        ("tool", tool, optional(NAME, "all tools")),
        ("calls", calls, whole(0)),
        ("on_limit", on_limit, ON_LIMIT),
        ("name", name, NAME),
    )
    label = f"{tool}_calls" if tool else ALL

    def refuse_calls(acted: Acted, rules: CallRules) -> Acted | Stopped:
        """Answer the calls of a tool that has been called often enough."""
        made = [step.action for step in acted.run.steps if step.status not in NOT_MADE]
        count = sum(calls_tool(rules, action, tool) for action in made)
        places = find_calls(acted, rules, tool)
        over = places[max(0, calls - count) :]
        return refuse(acted, over, tool, Exhausted(label, calls, min(count, calls), len(places)), on_limit, "a run")

    refuse_calls.__annotations__["return"] = Acted | Stopped if on_limit == "end" else Acted
    limiting: Node[Acted, Any] = node(name=name)(refuse_calls)
    if on_limit == "error":
        limiting = dataclasses.replace(limiting, raises=(CallLimitError,))
    names, limits = ((tool,), {tool: calls}) if tool else ((), {})
    return Piece(name, (limiting,), tool_names=names, tool_limits=limits, limits=True)


def calls_tool(rules: CallRules, action: AgentAction, tool: str | None) -> bool:
    """Return whether an action calls the tool of this name; without one, whether it calls any tool that there is."""
    return rules.find_tool(action) is not None if tool is None else rules.calls(action, tool)


def find_calls(acted: Acted, rules: CallRules, tool: str | None) -> list[int]:
    """Return the places of the open calls of a tool, or of any, whose arguments fit; others are not made."""
    return [
        place
        for place in acted.open
        if calls_tool(rules, action := acted.actions[place], tool) and rules.make_unmade_result(action) is None
    ]


def refuse(
    acted: Acted, places: Sequence[int], tool: str | None, limit: Exhausted, on_limit: OnLimit, per: str
) -> Acted | Stopped:
    """Return the actions with the calls at these places refused, or the stop of the run; raises `CallLimitError`."""
    if not places:
        return acted
    times = "once" if limit.value == 1 else f"{limit.value} times"
    fact = f"{'it' if tool else 'tools'} may be called {times} in {per}"
    if on_limit == "error":
        remedy = "allow more calls, or let the run go on with on_limit='continue'"
        raise CallLimitError(f"{tool or 'a call'}: {fact}; {remedy}", limit=limit.limit, value=limit.value)
    for place in places:
        called = acted.actions[place].tool if tool is None else tool
        text = f"{called} was not called: {fact}. Go on without it, or give your answer."
        acted = acted.answer(place, ToolResult(text, "rejected"))
    if on_limit == "continue":
        return acted
    rest = [
        ToolResult(f"{acted.actions[place].tool} was not called: the run was stopped by another call.", "rejected")
        for place in acted.open
    ]
    return Stopped(add_steps(acted.with_results(rest)), limit)


def cache_tools(*tools: str, name: str = "cache_tools") -> Piece:
    """Give a call of these tools the result of the same call before in the run, instead of calling the tool again.

        executor = create_agent(model, tools, nodes=[cache_tools("search", "weather")])

    The record of the run is the cache, so a stored run keeps it. A call is the same if its tool and its arguments are;
    only successful calls are repeated. A call that stands twice in one reply is made once. The model sees the result as
    it saw it before; the rule `no_repeats` also tells it that the call was not made again.

    It adds one transition for each decision of the agent that calls tools; a decision compares its calls with all
    steps. Raises `InputError` without a name, and the executor raises it for a tool that it does not have.
    """
    names = validate_each("cache_tools", tools, str, "names of tools")
    if not names:
        raise InputError("cache_tools has no tools; name those whose results may be repeated: cache_tools('search')")
    validate("cache_tools", ("name", name, NAME))

    @node(name=name)
    def repeat_results(acted: Acted, rules: CallRules) -> Acted:
        """Answer the calls that were made before."""
        for place in acted.open:
            action = acted.actions[place]
            called = rules.find_tool(action)
            if called is None or called.name not in names:
                continue
            earlier = (one for one in acted.run.steps if one.status == "ok" and rules.is_same_call(one.action, action))
            if (known := next(earlier, None)) is not None:
                acted = acted.answer(
                    place, ToolResult(known.observation, known.status, called.return_direct, known.excerpt)
                )
                continue
            equal = next(
                (one for one in range(place) if rules.is_same_call(acted.actions[one], action) and _is_own(acted, one)),
                None,
            )
            if equal is not None:
                acted = acted.answer(place, equal)
        return acted

    return Piece(name, (repeat_results,), tool_names=names)


def _is_own(acted: Acted, place: int) -> bool:
    """Return whether the action at this place is called, or answered with a result of its own."""
    return not acted.answered(place) or isinstance(acted.answers[place], ToolResult)


def ask_user(answer: HandlerLike | None = None, *, name: str = "ask_user") -> Piece:
    """Offer the model a tool with which it asks the user a question; the answer is the result of the call.

        def answer(effect: AskHuman) -> str:
            return input(f"{effect.question} ")

        executor = create_agent(model, tools, nodes=[ask_user(answer)])

    `answer` is the handler of `AskHuman`. Without it, pass `handlers={AskHuman: function}` to the executor, or keep the
    run in a store, where it waits for `store.reply`. The questions of one reply are asked at once. The tool has the
    name of the piece and the argument `question`; other tools of the reply are called when the user has answered.

    It adds one transition for each decision of the agent that calls tools, and no model call: the iterations of the
    agent limit the number of questions.
    """
    validate("ask_user", ("name", name, NAME))

    @make_tool(name=name)
    def ask_user_question(question: str) -> str:
        """Ask the user a question, if only the user knows the answer."""
        raise AssertionError(f"{question} is answered by the node")

    @node(name=name)
    def ask_questions(acted: Acted, rules: CallRules) -> Asks[AskHuman, Acted]:
        """Ask the user what the model wants to know."""
        acted, calls = read_calls(acted, rules, ask_user_question)
        answers = yield from ask_all([AskHuman(arguments["question"]) for arguments in calls.values()])
        for place, text in zip(calls, answers, strict=True):
            acted = acted.answer(place, ToolResult(text))
        return acted

    handlers: dict[type[Effect[Any]], HandlerLike] = {} if answer is None else {AskHuman: answer}
    return Piece(name, (ask_questions,), tools=(ask_user_question,), handlers=handlers, acts=True)


def read_calls(acted: Acted, rules: CallRules, tool: AnyTool) -> tuple[Acted, dict[int, dict[str, Any]]]:
    """Return the actions, and the arguments of the calls of a tool by place. Calls with invalid ones are answered."""
    calls: dict[int, dict[str, Any]] = {}
    for place in acted.open:
        if rules.calls(acted.actions[place], tool.name):
            try:
                calls[place] = tool.read(acted.actions[place].tool_input)
            except InvalidArgumentsError as error:
                acted = acted.answer(place, ToolResult(str(error), "bad_arguments"))
    return acted, calls


EMULATION_REQUEST = """\
You stand in for the tool {tool}: {description}
Its arguments are {arguments}. Write a result that it could return, and nothing else."""


@dataclass(frozen=True, slots=True)
class AskEmulator(AttemptModel):
    """Ask the model of `emulate_tools` what a tool would return."""


def emulate_tools(
    model: Model | ModelFunction | str,
    *,
    names: Sequence[str] | None = None,
    prompt: str = EMULATION_REQUEST,
    most: int = 8,
    name: str = "emulate_tools",
) -> Piece:
    """Let a model write the results of tools, which are not called: for trials of an agent whose tools have effects.

        trial = executor.plug(emulate_tools("openai:gpt-5-mini", names=["send_mail"]))
        print(trial.run("Invite Ada to lunch.").output)

    `names` are the tools, by default all but those of other pieces. `model` is what `create_agent` takes. `prompt` is a
    template with `{tool}`, and optionally `{description}` and `{arguments}`. At most `most` calls of a reply are
    emulated, at once; further ones are answered with that limit. The arguments are validated as for a call, and
    approvals come before. A call whose model fails has the status "error".

    It adds one transition for each decision that calls tools, and up to `most` model calls, which count. Raises
    `InputError` for invalid options, and the executor raises it for a tool that it does not have.
    """
    chosen = None if names is None else validate_each("emulate_tools: names", names, str, "names of tools")
    validate("emulate_tools", ("most", most, whole(1)), ("name", name, NAME))
    template = parse_template(prompt, required=("tool",))
    template.render(dict.fromkeys(("tool", "description", "arguments"), ""))
    # A class of its own for each piece: another one may have another model.
    kind: type[AskEmulator] = type("AskEmulator", (AskEmulator,), {"__slots__": (), "__module__": __name__})

    @node(name=name, asks=(0, most))
    def write_results(acted: Acted, rules: CallRules, policies: Policies) -> Asks[AskEmulator, Acted]:
        """Ask for the results of the calls."""
        emulated = {*rules.tools} - {*policies.piece_tools} if chosen is None else {*chosen}
        asked: dict[int, AskEmulator] = {}
        for place in acted.open:
            action = acted.actions[place]
            tool = rules.find_tool(action)
            if tool is None or tool.name not in emulated:
                continue
            if (unmade := rules.make_unmade_result(action)) is not None:
                acted = acted.answer(place, unmade)
            elif len(asked) == most:
                text = f"{tool.name} was not called: at most {most} calls are made in one turn; make it in the next."
                acted = acted.answer(place, ToolResult(text, "rejected"))
            else:
                arguments = format_observation(action.tool_input)
                text = template.render({"tool": tool.name, "description": tool.description, "arguments": arguments})
                asked[place] = kind(ChatRequest([UserMessage(text)]))
        for place, reply in zip(asked, (yield from ask_all([*asked.values()])), strict=True):
            acted = acted.answer(place, _read_emulation(acted.actions[place].tool, reply))
        return acted

    emulating = dataclasses.replace(write_results, effects=(kind,))
    handler = make_model_handler(to_model(model))
    handlers: dict[type[Effect[Any]], HandlerLike] = {}
    handlers[kind] = dataclasses.replace(make_attempt_handler(handler), check_access=handler.check_access)
    return Piece(name, (emulating,), handlers=handlers, tool_names=chosen or (), acts=True)


def _read_emulation(tool: str, reply: Attempted) -> ToolResult:
    if isinstance(reply, ModelFailure):
        return ToolResult(f"{tool} failed: {reply.text}", "error", error=reply.error)
    return ToolResult(separate_reasoning(reply).content.strip())


# The most turns in a repeated round: the agent may repeat one turn, or alternate between a few.
ROUND = 4

# The name of the limit in the stopped response.
REPEATS = "repeats"

WARNING = (
    "(You have done exactly this {times} times, with the same result. Do something else, or give your final answer.)"
)


def stop_repeats(*, warn_after: int = 2, stop_after: int = 3, name: str = "stop_repeats") -> Piece:
    """Warn a model that repeats itself, and then stop the run; the limit of the stopped response is `repeats`.

        executor = create_agent(model, tools, nodes=[stop_repeats()])
        result = executor.run("How many people live in Porto?")
        print(result.reason)  # "repeats", if the model made the same call three times

    A turn is the steps of one reply. The piece looks for the last turn, or the last round of up to four turns, being
    repeated in a row with the same tools, inputs and observations. After `warn_after` times it adds a warning to the
    observation that the model is shown; after `stop_after` times it stops the run. Each visit compares the last
    `4 * stop_after` turns; a warning copies all steps.

    It adds one transition before each decision, and no model call. Raises `InputError` unless
    2 <= warn_after <= stop_after.
    """
    # A turn that is done once is not repeated.
    validate("stop_repeats", ("warn_after", warn_after, whole(2)), ("stop_after", stop_after, whole(2)))
    validate("stop_repeats", ("name", name, NAME))
    if warn_after > stop_after:
        raise InputError(
            f"stop_repeats has warn_after={warn_after} and stop_after={stop_after}; make stop_after at least warn_after"
        )

    @node(name=name)
    def notice_repeats(ready: Ready) -> Ready | Stopped:
        """Warn the model that it repeats itself, or stop the run."""
        times = count_repeats(ready.run.steps, stop_after)
        if times >= stop_after:
            return Stopped(ready.run, Exhausted(REPEATS, stop_after, times))
        return Ready(_add_warning(ready.run, times)) if times >= warn_after else ready

    return Piece(name, (notice_repeats,))


def count_repeats(steps: Sequence[AgentStep], most: int) -> int:
    """Return how many times in a row the last round of turns was done, counted up to `most`."""
    turns = last_turns(steps, ROUND * most)
    return max(_count_rounds(turns, size, most) for size in range(1, ROUND + 1))


def _count_rounds(turns: Sequence[Turn], size: int, most: int) -> int:
    rounds = [turns[end - size : end] for end in range(len(turns), size - 1, -size)][:most]
    return sum(1 for _ in takewhile(lambda one: all(map(_is_same_turn, one, rounds[0])), rounds))


def _is_same_turn(one: Turn, other: Turn) -> bool:
    return len(one) == len(other) and all(map(_is_same_step, one, other))


def _is_same_step(one: AgentStep, other: AgentStep) -> bool:
    return (
        one.action.tool == other.action.tool
        and one.action.tool_input == other.action.tool_input
        # Different unreadable replies may have the same observation, so their texts are compared.
        and (one.status != "parse_error" or one.action.log == other.action.log)
        # Compared as text and images: an observation may define == in its own way.
        and split_observation(one.observation) == split_observation(other.observation)
    )


def _add_warning(run: Run, times: int) -> Run:
    *before, last = run.steps
    noted = dataclasses.replace(last.excerpt, note=f"{last.excerpt.note}\n{WARNING.format(times=times)}")
    return dataclasses.replace(run, steps=Steps([*before, dataclasses.replace(last, excerpt=noted)]))


def no_dummies() -> Piece:
    """Refuse calls with an argument that the model copied from a worked example.

    It asks the model again, up to three times, with what the question has or without the tool; a call that still has
    such an argument is not made, and the observation says why. It is for agents with worked examples, whose rule it is
    by default; for others it has no nodes.

        executor = AgentExecutor(agent=agent, tools=tools, nodes=[no_dummies()])
        print(executor.seats())

    In i iterations it adds at most 3i model calls. At `plug`, `GraphError` is raised if the agent has the rule, and
    `InputError` if it has no `narrow` function.
    """
    return rule_piece("no_dummies")


def no_repeats() -> Piece:
    """Answer a call that was made before, with the same arguments, with its earlier result.

    A reply that only repeats calls is replaced by the model's answer, if it has one. Tools that are `repeatable` are
    called again.

        executor = AgentExecutor(agent=agent, tools=tools, nodes=[no_repeats()])
        print(executor.run("Look it up twice.").output)

    In i iterations it adds at most i model calls. At `plug`, `GraphError` is raised if the agent has a rule against
    repetitions, and `InputError` if it has neither `narrow` nor `conclude`.
    """
    return rule_piece("no_repeats")


def no_immediate_repeats() -> Piece:
    """Answer a call as `no_repeats` does, unless a later reply has made another call in between.

    It is the rule of the agents that `create_agent` makes without worked examples.

        executor = AgentExecutor(agent=agent, tools=tools, nodes=[no_immediate_repeats()])
        print(executor.run("Look it up twice.").output)

    In i iterations it adds at most i model calls. Raises what `no_repeats` raises.
    """
    return rule_piece("no_immediate_repeats")
