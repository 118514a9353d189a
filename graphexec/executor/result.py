"""The result of a run of an agent."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, cast

from graphexec._mistakes import explain_class
from graphexec.actions import AgentFinish, Steps, StoppedResponse, reason_of, steps_of
from graphexec.effects import CACHED_TOKENS, COMPLETION_TOKENS, PROMPT_TOKENS
from graphexec.errors import InputError, OutputError
from graphexec.kernel.events import Done, Journal
from graphexec.kernel.meters import Limits, Spent
from graphexec.messages import Usage
from graphexec.messages.observations import format_observation
from graphexec.messages.stored import TypedValues

if TYPE_CHECKING:
    from pathlib import Path

    # The TypeVar of Python 3.13.
    from typing_extensions import TypeVar

    from graphexec.executor.plugging.piece import Output

    # The class of the answer: of `create_agent(output_type=...)`, else any.
    T_co = TypeVar("T_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)

Ending: TypeAlias = AgentFinish | StoppedResponse


@explain_class("executor.run(inputs), which returns a result")
@dataclass(frozen=True, slots=True)
class RunResult(Generic[T_co]):
    """The ending of a run with its steps and its usage. A run stopped by a limit has a result, not an exception.

    `steps` holds every action with its observation, in order, including parse errors. `journal` holds the replies since
    the run was started or resumed; the run is drawn and replayed from it.
    """

    ending: Ending
    steps: Steps
    spent: Spent
    limits: Limits
    journal: Journal | None = field(default=None, compare=False, repr=False)
    # Why there is no instance of the executor's output type; `None` if there is one, and without such a type.
    no_output: str | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        """The answer as text, as a model writes it, or the text of the stopped response."""
        return format_observation(self.ending.answer if isinstance(self.ending, AgentFinish) else self.ending.output)

    @property
    def output(self) -> T_co:
        """The answer, or the text of the stopped response.

        With an output type, it is an instance. Raises `OutputError` if a limit or a refusal stopped such a run: then
        `stopped` says which, and `str(result)` is the text.
        """
        if self.no_output is not None:
            raise OutputError(self.no_output)
        # With an output type, `make_result` has validated it; without one, the class is `Any`.
        return cast("T_co", self.ending.output)

    @property
    def reason(self) -> str:
        """The reason of the ending: `finished`, `return_direct`, `refused`, or the limit that stopped it."""
        return reason_of(self.ending)

    @property
    def stopped(self) -> StoppedResponse | None:
        """The stopped response, with the cause that stopped the run; `None` for a finished run."""
        return self.ending if isinstance(self.ending, StoppedResponse) else None

    def draw(
        self,
        path: str | Path,
        *,
        format: str | None = None,  # noqa: A002 - as `Machine.draw` has it
    ) -> Path:
        """Draw the run over its machine, `result.draw("run.html")` with every step, or `"run.svg"`; return the path.

        Raises `InputError` as `Machine.draw` does, and for a result without a journal.
        """
        from graphexec.draw import save
        from graphexec.verify import verify

        if self.journal is None:
            raise InputError("the result has no journal, so its path is unknown; draw a result of executor.run")
        return save(verify(self.journal.graph, self.limits), path, format=format, runs=self)

    @property
    def usage(self) -> Usage:
        """The tokens of all model calls."""
        return Usage(*(int(self.spent[meter]) for meter in (PROMPT_TOKENS, COMPLETION_TOKENS, CACHED_TOKENS)))


def make_result(done: Done[Ending], limits: Limits, output: Output | None = None) -> RunResult[Any]:
    """Return the result of a run that has ended; `output` is the type of its answer."""
    # A user's node may end a run and leave its steps out of the finish; the node's value has them.
    steps = max(done.outcome.steps, steps_of(done.snapshot.value), key=len)
    result: RunResult[Any] = RunResult(done.outcome, steps, done.spent, limits, done.journal)
    return result if output is None else _with_instance(result, output)


def load_answer(finish: AgentFinish, output: Output) -> AgentFinish:
    """Return the finish of a stored run with the instance of the output type; any other one as it is.

    Raises `OutputError` if the stored answer is none of this type.
    """
    values = finish.return_values
    if not isinstance(values, TypedValues) or values.form is None:
        return finish
    stored = values[values.typed]
    instance = output.load(values.form, stored)
    # A text is the source of the instance.
    dump = partial(output.dump, source=stored if values.form == "text" else None)
    loaded = TypedValues({**values, values.typed: instance}, values.typed, dump=dump)
    return dataclasses.replace(finish, return_values=loaded)


def _with_instance(result: RunResult[Any], output: Output) -> RunResult[Any]:
    """Return a result whose answer is an instance of the output type, or which says why it has none."""
    ending = result.ending
    if isinstance(ending, StoppedResponse):
        why = f"the run was stopped ({result.reason}), so it has no answer of its type; look at result.stopped"
        return dataclasses.replace(result, no_output=why)
    try:
        ending = load_answer(ending, output)
        instance = output.restore(ending.answer)
    except OutputError as error:
        return dataclasses.replace(result, no_output=str(error))
    if instance is not ending.answer:
        # A node has returned data in the place of an instance.
        name = "output" if "output" in ending.return_values else next(iter(ending.return_values))
        ending = dataclasses.replace(ending, return_values={**ending.return_values, name: instance})
    return dataclasses.replace(result, ending=ending)
