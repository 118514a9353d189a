"""A piece that keeps the requests of a long run short: `compact`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from graphexec._arguments import FUNCTION, NAME, validate, whole
from graphexec.actions import Run
from graphexec.agents import Agent
from graphexec.agents.calls import last_turns
from graphexec.effects import AttemptModel, CallAgent, CallModel, attempt
from graphexec.executor.nodes import Policies, ask_agent
from graphexec.executor.outcomes import Ready
from graphexec.executor.plugging import Piece
from graphexec.kernel.effects import Asks
from graphexec.kernel.meters import Exhausted
from graphexec.kernel.node import node
from graphexec.memory import estimated_tokens
from graphexec.messages import ChatRequest, ModelRequest, UserMessage, transcript
from graphexec.nodes._texts import describe_steps, describe_task, read_text

SUMMARY_REQUEST = """\
An assistant works on this task:
{task}

These are its steps so far:
{steps}

Summarize them for the assistant, which will see your summary in their place. Keep names, numbers, decisions and what is
still to be done. Write the summary, and nothing else."""


@final
@dataclass(frozen=True, slots=True)
class TooLong:
    """The next request is too long; the first `hidden` steps can be summarized."""

    run: Run
    hidden: int


def compact(
    max_tokens: int = 4000, keep: int = 4, *, count: Callable[[str], int] = estimated_tokens, name: str = "compact"
) -> Piece:
    """Replace older steps by a summary, which the model writes, when the next request is too long.

    The request is measured whole before each decision, with the system prompt, the tools and the notes: `count` returns
    the number of tokens of a text, and more than `max_tokens` are too many. At least the last `keep` steps stay; the
    calls of one reply and their results are never separated. A later summary takes in the earlier one.

        from graphexec.nodes import compact

        executor = create_agent(model, tools, nodes=[compact(max_tokens=8000)])
        result = executor.run("Read all of these files: ...")
        print(len(result.steps))  # All steps: only what the model is shown is shortened.

    A summary that fails, is empty or is no shorter than the steps changes nothing, and so does a limit that leaves no
    call for it. In i iterations a run has at most 6i + 4 transitions and 2i + 1 model calls. Raises `InputError` for an
    invalid argument.
    """
    validate(
        "compact",
        ("max_tokens", max_tokens, whole(1)),
        ("keep", keep, whole(1)),
        ("count", count, FUNCTION),
        ("name", name, NAME),
    )

    @node(name=name)
    def measure(ready: Ready, agent: Agent, policies: Policies) -> Ready | TooLong:
        """Check the length of the next request, with a guess from the last count where that is short enough."""
        run, measured = ready.run, ready.run.aside.state.get(name)
        if measured is not None and measured["hidden"] == run.aside.hidden:
            tokens = measured["tokens"] + 2 * count(describe_steps(run.steps[measured["steps"] :]))
            if tokens <= max_tokens:
                return Ready(_remember(run, name, tokens))
        asked = policies.request(agent, ready.run, ask_agent)
        text = describe_steps(policies.trim(asked.run).steps) if isinstance(asked, CallAgent) else _text(asked.request)
        hidden, tokens = _find_cut(run, keep), count(text)
        if hidden > run.aside.hidden and tokens > max_tokens:
            return TooLong(run, hidden)
        return Ready(_remember(run, name, tokens))

    def leave(given: TooLong, _: Exhausted) -> Ready:
        return Ready(given.run)

    @node(name=f"{name}_steps", when_spent=leave, asks=1)
    def summarize(given: TooLong) -> Asks[AttemptModel, Ready]:
        """Hide the older steps behind a summary."""
        run, aside = given.run, given.run.aside
        steps = describe_steps(run.steps[aside.hidden : given.hidden])
        earlier = f"{aside.summary}\n{steps}" if aside.summary else steps
        text = SUMMARY_REQUEST.format(task=describe_task(run), steps=earlier)
        summary = read_text((yield from attempt(CallModel(ChatRequest([UserMessage(text)])))))
        if not summary or count(summary) > count(earlier):
            return Ready(run)
        return Ready(run.with_aside(hidden=given.hidden, summary=summary))

    return Piece(name, (measure, summarize))


def _text(request: ModelRequest) -> str:
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


def _remember(run: Run, name: str, tokens: int) -> Run:
    """Return the run with its count of tokens, from which the next one is guessed without writing all messages."""
    measured = {"steps": len(run.steps), "tokens": tokens, "hidden": run.aside.hidden}
    return run.with_aside(state={**run.aside.state, name: measured})


def _find_cut(run: Run, keep: int) -> int:
    """Return the number of first steps to hide, so that at least `keep` stay and no reply is cut in two."""
    kept = 0
    for turn in reversed(last_turns(run.steps, keep)):
        if kept >= keep:
            break
        kept += len(turn)
    return max(len(run.steps) - kept, 0)
