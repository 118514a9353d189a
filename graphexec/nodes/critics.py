"""A piece that has answers reviewed before they are given out: `critic`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from graphexec._arguments import MODEL, NAME, optional, validate, whole
from graphexec.actions import AgentAction, AgentFinish, AgentStep
from graphexec.agents.prompt import format_observation, parse_template
from graphexec.effects import AttemptModel
from graphexec.executor.outcomes import Ready
from graphexec.executor.plugging import Piece
from graphexec.kernel.effects import Asks, ask
from graphexec.kernel.meters import Exhausted, Meter
from graphexec.kernel.node import node
from graphexec.messages import ChatRequest, Model, UserMessage
from graphexec.nodes._texts import choose_model, describe_steps, describe_task, read_text

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
    validate(
        "critic",
        ("rounds", rounds, whole(0)),
        ("model", model, optional(MODEL, "the agent's")),
        ("name", name, NAME),
    )
    template = parse_template(prompt, required=("answer",))
    effect, handlers = choose_model(model, AskCritic)

    def accept(finish: AgentFinish, _: Exhausted) -> AgentFinish:
        return finish

    @node(name=name, when_spent=accept, meters=[Meter(f"{name}_rounds", rounds)], asks=(0, 1))
    def review(finish: AgentFinish) -> Asks[AttemptModel, AgentFinish | Ready]:
        """Ask what is wrong with the answer."""
        if finish.return_direct:
            return finish
        run, answer = finish.run, format_observation(finish.answer)
        values = {**run.inputs, "task": describe_task(run), "steps": describe_steps(run.steps) or "none"}
        text = template.render({**values, "answer": answer})
        criticism = read_text((yield from ask(effect(ChatRequest([UserMessage(text)])))))
        if _accepts(criticism):
            return finish
        action = AgentAction(REVIEW_TOOL, answer, finish.log or answer)
        step = AgentStep(action, f"Your answer was reviewed: {criticism}\nImprove it, and answer again.", "rejected")
        return Ready(run.with_steps([step]))

    return Piece(name, (dataclasses.replace(review, effects=(effect,)),), handlers=handlers)


def _accepts(criticism: str) -> bool:
    word = criticism.split(maxsplit=1)[0] if criticism else "OK"
    return word.strip(".,:;!*\"'`").casefold() in ("ok", "okay")
