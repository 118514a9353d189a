"""The piece `output_type`: the answer of a run is an instance of a type."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, final

from graphexec._arguments import validate, whole
from graphexec.actions import AgentAction, AgentFinish, AgentStep, Run
from graphexec.executor.nodes import EXCEPTION_TOOL
from graphexec.executor.outcomes import Ready, limit_reached
from graphexec.executor.plugging import Piece
from graphexec.kernel.meters import Meter
from graphexec.kernel.node import node
from graphexec.messages.observations import format_observation
from graphexec.messages.stored import TypedValues
from graphexec.nodes.output.kind import OutputKind, UnreadableOutputError, make_output_kind


@final
@dataclass(frozen=True, slots=True)
class InvalidOutput:
    """The answer is no instance of the output type: its text, and `why`, for the model."""

    run: Run
    text: str
    why: str


# Any: pydantic takes more than classes, such as `int | None` and `Literal["a", "b"]`.
def output_type(kind: Any, *, reasks: int = 2, name: str = "output_type") -> Piece:
    """Make each answer of the agent an instance of a type, or ask the model again.

    `kind` is what pydantic validates: a model, a dataclass, a `TypedDict`, an enumeration, `Literal["a", "b"]`, a
    union, `list[Item]`, `int` or `datetime`. The answer is read as JSON: as a whole, in a fence or in prose, with the
    coercions of pydantic. If it is no instance, the model reads the errors and decides again, at most `reasks` times
    in a run, within `max_iterations`; then the run ends with a `StoppedResponse` whose reason is `reasks`. Nothing else
    than an instance comes out, and no answer raises.

    The requests have the type's JSON schema where the provider lets replies follow one, and a note in the instructions.
    The bound: at most `2 + 2 * reasks` more transitions, and no more model calls than `max_iterations`.

        class City(BaseModel):
            name: str
            country: str

        executor = create_agent("openai:gpt-5-mini", output_type=City)
        print(executor.run("Where is the Louvre?").output.country)

    `create_agent(output_type=...)` plugs this piece, and type checkers then know the class of `result.output`. Put
    pieces that change the answer's text behind it: earlier in the list of `nodes`. Raises `InputError` for what is not
    a type, for a type without a JSON schema, and for invalid `reasks`. An executor has at most one output type.
    """
    validate("output_type", ("reasks", reasks, whole(0)))
    known = make_output_kind(kind)

    @node(name=name)
    def judge_output(finish: AgentFinish) -> AgentFinish | InvalidOutput:
        """Return the finish with the instance in its answer, or why the answer is none."""
        return read_output(finish, known)

    @node(name=f"{name}_reask", when_spent=limit_reached, meters=[Meter(_REASKS, reasks)])
    def reask_output(invalid: InvalidOutput) -> Ready:
        """Show the model the errors of its answer, as an observation."""
        observation = known.explain(invalid.why)
        action = AgentAction(EXCEPTION_TOOL, observation, invalid.text)
        return Ready(invalid.run.with_steps((AgentStep(action, observation, "parse_error"),)))

    return Piece(name, (judge_output, reask_output), output=known)


# The meter, and so the reason of a run that has used it up.
_REASKS = "reasks"


def read_output(finish: AgentFinish, kind: OutputKind) -> AgentFinish | InvalidOutput:
    """Return the finish with the instance of a type in its answer, or why the answer is none."""
    values: Mapping[str, Any] = finish.return_values
    # As `finish.answer`: an only value may have any name.
    only = next(iter(values)) if len(values) == 1 else "output"
    try:
        instance = kind.read(finish.answer)
    except UnreadableOutputError as error:
        return InvalidOutput(finish.run, finish.log or format_observation(finish.answer), str(error))
    kept: Mapping[str, Any] = values if only in values else {}
    dump = partial(kind.dump, source=finish.answer)
    return dataclasses.replace(finish, return_values=TypedValues({**kept, only: instance}, only, dump=dump))
