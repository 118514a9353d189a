"""Pieces that ask for what the agent's decisions need: a summary, a choice of tools, a review, and the time."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, final

from graphexec._arguments import FUNCTION, MODEL, NAME, adapt, optional, validate, validate_each, whole
from graphexec._parsing import compile_lazily
from graphexec.actions import AgentAction, AgentFinish, AgentStep, Run
from graphexec.agents import Agent
from graphexec.agents.asides import require_fewer_tools
from graphexec.agents.calls import CallRules, last_turns
from graphexec.agents.prompt import format_observation, parse_template
from graphexec.effects import Attempted, AttemptModel, CallAgent, ModelFailure
from graphexec.executor.handlers import make_attempt_handler, make_model_handler
from graphexec.executor.nodes import Policies, ask_agent
from graphexec.executor.outcomes import Ready
from graphexec.executor.plugging import Piece
from graphexec.kernel.effects import Asks, Effect, ask
from graphexec.kernel.meters import Exhausted, Meter
from graphexec.kernel.node import Node, node
from graphexec.memory import estimated_tokens
from graphexec.messages import ChatRequest, Model, ModelRequest, UserMessage, separate_reasoning, transcript
from graphexec.runtime.handlers import HandlerLike

SUMMARY_REQUEST = """\
An assistant works on this task:
{task}

These are its steps so far:
{steps}

Summarize them for the assistant, which will see your summary in their place. Keep names, numbers, decisions and what is
still to be done. Write the summary, and nothing else."""


@dataclass(frozen=True, slots=True)
class AskSummarizer(AttemptModel):
    """Ask the model of `compact` for a summary."""


@final
@dataclass(frozen=True, slots=True)
class TooLong:
    """The next request is too long; the first `hidden` steps can be summarized."""

    run: Run
    hidden: int


def compact(
    max_tokens: int = 4000,
    keep: int = 4,
    *,
    count: Callable[[str], int] = estimated_tokens,
    prompt: str = SUMMARY_REQUEST,
    model: Model | None = None,
    name: str = "compact",
) -> Piece:
    """Replace older steps by a summary, which the model writes, when the next request is too long.

    The request is measured whole before each decision, with the system prompt, the tools and the notes: `count` returns
    the number of tokens of a text, and more than `max_tokens` are too many. At least the last `keep` steps stay; the
    calls of one reply and their results are never separated. A later summary takes in the earlier one. It is written by
    `model`, or by the agent's; `prompt` is a template with `{steps}`, and optionally `{task}` and inputs of the run.

        from graphexec.nodes import compact

        executor = create_agent(model, tools, nodes=[compact(max_tokens=8000)])
        result = executor.run("Read all of these files: ...")
        print(len(result.steps))  # All steps: only what the model is shown is shortened.

    A summary that fails, is empty or is no shorter than the steps changes nothing, and so does a limit that leaves no
    call for it. In i iterations a run has at most 6i + 4 transitions and 2i + 1 model calls. Raises `InputError` for an
    invalid argument.
    """
    model = adapt(model, "model")
    validate(
        "compact",
        ("max_tokens", max_tokens, whole(1)),
        ("keep", keep, whole(1)),
        ("count", count, FUNCTION),
        ("model", model, optional(MODEL, "the agent's")),
        ("name", name, NAME),
    )
    template = parse_template(prompt, required=("steps",))
    effect, handlers = _choose_model(model, AskSummarizer)

    @node(name=name)
    def measure(ready: Ready, agent: Agent, policies: Policies) -> Ready | TooLong:
        """Check the length of the next request, with a guess from the last count where that is short enough."""
        run, hidden = measure_request(ready.run, name, max_tokens, count, agent, policies), _find_cut(ready.run, keep)
        if hidden > run.aside.hidden and run.aside.state[name]["tokens"] > max_tokens:
            return TooLong(run, hidden)
        return Ready(run)

    def leave(given: TooLong, _: Exhausted) -> Ready:
        return Ready(given.run)

    @node(name=f"{name}_steps", when_spent=leave, asks=1)
    def summarize(given: TooLong) -> Asks[AttemptModel, Ready]:
        """Hide the older steps behind a summary."""
        run, aside = given.run, given.run.aside
        steps = _describe_steps(run.steps[aside.hidden : given.hidden])
        earlier = f"{aside.summary}\n{steps}" if aside.summary else steps
        text = template.render({**run.inputs, "task": _describe_task(run), "steps": earlier})
        summary = _read_text((yield from ask(effect(ChatRequest([UserMessage(text)])))))
        if not summary or count(summary) > count(earlier):
            return Ready(run)
        return Ready(run.with_aside(hidden=given.hidden, summary=summary))

    return Piece(name, (measure, dataclasses.replace(summarize, effects=(effect,))), handlers=handlers)


def measure_request(
    run: Run, name: str, most: int, count: Callable[[str], int], agent: Agent, policies: Policies
) -> Run:
    """Return the run with the number of tokens of its next request in the state of a piece, under `tokens`.

    It is a guess, from the last count, if that is at most `most`: so not all messages are written each time.
    """
    measured, aside = run.aside.state.get(name), run.aside
    tokens = most + 1
    if measured is not None and measured["hidden"] == aside.hidden:
        tokens = measured["tokens"] + 2 * count(_describe_steps(run.steps[measured["steps"] :]))
    if tokens > most:
        asked = policies.request(agent, run, ask_agent)
        text = (
            _describe_steps(policies.trim(asked.run).steps)
            if isinstance(asked, CallAgent)
            else _write_request(asked.request)
        )
        tokens = count(text)
    measured = {"steps": len(run.steps), "tokens": tokens, "hidden": aside.hidden}
    return run.with_aside(state={**aside.state, name: measured})


def _write_request(request: ModelRequest) -> str:
    """Return what a request sends: its messages, the tools and the schema."""
    if not isinstance(request, ChatRequest):
        return request.prompt
    specs = [{"name": one.name, "description": one.description, "parameters": one.parameters} for one in request.tools]
    calls = [call for message in request.messages for call in getattr(message, "tool_calls", ())]
    return "\n".join(
        [
            transcript(request.messages),
            *(f"{call.name}({call.arguments})" for call in calls),
            *(json.dumps(spec, default=str) for spec in specs),
            *([] if request.schema is None else [json.dumps(request.schema, default=str)]),
        ]
    )


def _find_cut(run: Run, keep: int) -> int:
    """Return the number of first steps to hide, so that at least `keep` stay and no reply is cut in two."""
    kept = 0
    for turn in reversed(last_turns(run.steps, keep)):
        if kept >= keep:
            break
        kept += len(turn)
    return max(len(run.steps) - kept, 0)


SELECTION_REQUEST = """\
Choose the tools that are useful for this task:
{task}

The tools are:
{tools}

Write the names of at most {most} tools, the most useful first, one a line, and nothing else."""

_WORD = compile_lazily(r"[^\s,;:\"'`*()\[\]{}]+")


@dataclass(frozen=True, slots=True)
class AskSelector(AttemptModel):
    """Ask the model of `select_tools` which tools are useful."""


def select_tools(
    max_tools: int = 3,
    *,
    always: Sequence[str] = (),
    prompt: str = SELECTION_REQUEST,
    model: Model | None = None,
    name: str = "select_tools",
) -> Piece:
    """Offer the model only the tools that are useful for the task, which a model chooses before the first decision.

    At most `max_tools` are chosen. The tools in `always` and those of other pieces, such as `write_todos`, are always
    offered. The choice is made by `model`, or by the agent's; `prompt` is a template with `{tools}`, and optionally
    `{task}`, `{most}` and inputs of the run. Names that it makes up are ignored. All tools are offered if it names
    none, if its call fails, and if a limit leaves no call for it.

        from graphexec.nodes import select_tools

        executor = create_agent(model, many_tools, nodes=[select_tools(max_tools=3, always=["search"])])
        print(executor.run("What is the weather in Rome?").output)

    It adds one transition and one model call to a run; none where it has nothing to choose. Raises `InputError` for an
    invalid argument, and the executor raises it for a tool that it does not have, and for an agent that cannot offer
    fewer tools.
    """
    model = adapt(model, "model")
    validate(
        "select_tools",
        ("max_tools", max_tools, whole(1)),
        ("model", model, optional(MODEL, "the agent's")),
        ("name", name, NAME),
    )
    kept = validate_each("always", always, str, "names of tools")
    template = parse_template(prompt, required=("tools",))
    effect, handlers = _choose_model(model, AskSelector)

    def offer_all(ready: Ready, _: Exhausted) -> Ready:
        return ready

    @node(name=name, when_spent=offer_all, asks=(0, 1))
    def select(ready: Ready, agent: Agent, policies: Policies) -> Asks[AttemptModel, Ready]:
        """Choose the tools that the model is offered."""
        fixed = {*kept, *policies.piece_tools}
        tools = [tool for tool in agent.tools or () if tool.name not in fixed]
        if len(tools) <= max_tools:
            return ready
        listing = "\n".join(f"- {tool.name}: {tool.description}" for tool in tools)
        facts = {"task": _describe_task(ready.run), "tools": listing, "most": str(max_tools)}
        text = template.render({**ready.run.inputs, **facts})
        words = _WORD().findall(_read_text((yield from ask(effect(ChatRequest([UserMessage(text)]))))))
        known = {tool.name for tool in tools}
        chosen = [word for word in dict.fromkeys(word.rstrip(".") for word in words) if word in known][:max_tools]
        if not chosen:
            return ready
        offered = tuple(tool.name for tool in agent.tools or () if tool.name in fixed or tool.name in chosen)
        return Ready(ready.run.with_aside(tools=offered))

    selecting = dataclasses.replace(select, effects=(effect,))

    def fit(rules: CallRules) -> tuple[Node[Any, Any], ...]:
        require_fewer_tools(rules.agent)
        return (selecting,)

    return Piece(name, (selecting,), once=True, handlers=handlers, tool_names=kept, fit=fit)


# The tool name in the step of a review; no tool has such a name.
REVIEW_TOOL = "_Review"

REVIEW_REQUEST = """\
Review the answer of an assistant.

The task: {task}

Its steps:
{steps}

Its answer: {answer}

If the answer does what the task asks, write OK. Otherwise write in a sentence or two what is wrong or missing."""


@dataclass(frozen=True, slots=True)
class AskCritic(AttemptModel):
    """Ask the model of `critic` for a review."""


def critic(rounds: int = 2, *, prompt: str = REVIEW_REQUEST, model: Model | None = None, name: str = "critic") -> Piece:
    """Have the agent's answer reviewed, and send it back with the criticism, at most `rounds` times.

    `prompt` is a template with `{answer}`, and optionally `{task}`, `{steps}` and inputs of the run. The review is
    written by `model`, or by the agent's. One that begins with the word OK, or is empty, accepts the answer; any other
    is shown to the model, which decides again. After `rounds` reviews the next answer is given out without one, and so
    is an answer whose review fails, or that no limit leaves a call for. The result of a return-direct tool is not
    reviewed.

        from graphexec.nodes import critic

        polite = critic(rounds=1, prompt="Write OK if this is polite, or else why not: {answer}")
        executor = create_agent(model, tools, nodes=[polite])
        print(executor.run("Write to the landlord.").output)

    A run has at most `rounds` model calls more than without it. Raises `InputError` for an invalid argument, and in a
    run for a template with a variable that the run does not have.
    """
    model = adapt(model, "model")
    validate(
        "critic",
        ("rounds", rounds, whole(0)),
        ("model", model, optional(MODEL, "the agent's")),
        ("name", name, NAME),
    )
    template = parse_template(prompt, required=("answer",))
    effect, handlers = _choose_model(model, AskCritic)

    def accept(finish: AgentFinish, _: Exhausted) -> AgentFinish:
        return finish

    @node(name=name, when_spent=accept, meters=[Meter(f"{name}_rounds", rounds)], asks=(0, 1))
    def review(finish: AgentFinish) -> Asks[AttemptModel, AgentFinish | Ready]:
        """Ask what is wrong with the answer."""
        if finish.return_direct:
            return finish
        run, answer = finish.run, format_observation(finish.answer)
        steps = _describe_steps(run.steps) or "none"
        text = template.render({**run.inputs, "task": _describe_task(run), "steps": steps, "answer": answer})
        criticism = _read_text((yield from ask(effect(ChatRequest([UserMessage(text)])))))
        word = criticism.split(maxsplit=1)[0] if criticism else "OK"
        if word.strip(".,:;!*\"'`").casefold() in ("ok", "okay"):
            return finish
        action = AgentAction(REVIEW_TOOL, answer, finish.log or answer)
        step = AgentStep(action, f"Your answer was reviewed: {criticism}\nImprove it, and answer again.", "rejected")
        return Ready(run.with_steps([step]))

    return Piece(name, (dataclasses.replace(review, effects=(effect,)),), handlers=handlers)


@dataclass(frozen=True, slots=True)
class ReadClock(Effect[str]):
    """Ask for the date and the time, as a string."""


def _now() -> datetime:
    return datetime.now().astimezone()


def tell_time(now: Callable[[], datetime | str] = _now, *, name: str = "tell_time") -> Piece:
    """Tell the model the date and the time at which the run begins, in each of its requests.

    `now` returns them; by default the local time is written as `Monday, 2026-11-23 22:40 +0100`. A resumed run keeps
    the time of its beginning. Pass `handlers={ReadClock: function}` to the executor to answer the effect in another
    way.

        from graphexec.nodes import tell_time

        executor = create_agent(model, tools, nodes=[tell_time()])
        print(executor.run("Which day is it?").output)

    It adds one transition to a run, and no model call. Raises `InputError` for an invalid argument.
    """
    validate("tell_time", ("now", now, FUNCTION), ("name", name, NAME))

    @node(name=name)
    def read_clock(ready: Ready) -> Asks[ReadClock, Ready]:
        """Note the time at which the run begins."""
        time = yield from ask(ReadClock())
        notes = {**ready.run.aside.notes, name: f"The run began at this time: {time}."}
        return Ready(ready.run.with_aside(notes=notes))

    def answer(_: ReadClock) -> str:
        time = now()
        return f"{time:%A, %Y-%m-%d %H:%M %z}".strip() if isinstance(time, datetime) else time

    return Piece(name, (read_clock,), once=True, handlers={ReadClock: answer})


# Characters of a call or an observation in a request about many steps.
_LONGEST_STEP = 2_000


def _describe_task(run: Run) -> str:
    """Return the text of the run's inputs: the input of this name alone, or all strings."""
    if isinstance(task := run.inputs.get("input"), str):
        return task
    return "\n".join(f"{name}: {value}" for name, value in run.inputs.items() if isinstance(value, str))


def _describe_steps(steps: Iterable[AgentStep]) -> str:
    """Return a line for each call, with its observation; what is long is cut."""
    given = ((one.action.tool, _shorten(format_observation(one.action.tool_input)), one.text) for one in steps)
    return "\n".join(f"{tool}({tool_input}) -> {_shorten(text)}" for tool, tool_input, text in given)


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST_STEP else f"{text[:_LONGEST_STEP]}..."


def _read_text(reply: Attempted) -> str:
    """Return the text of a reply without reasoning and blanks around it; an empty string for a failed call."""
    return "" if isinstance(reply, ModelFailure) else separate_reasoning(reply).content.strip()


def _choose_model(
    model: Model | None, kind: type[AttemptModel]
) -> tuple[type[AttemptModel], Mapping[type[Effect[Any]], HandlerLike]]:
    """Return the effect that asks a model and its handlers: of the class `kind`, or the agent's own without a model."""
    return (AttemptModel, {}) if model is None else (kind, {kind: make_attempt_handler(make_model_handler(model))})
