"""A piece that asks a stronger model after failures: `escalate`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from graphexec._arguments import FUNCTION, LangChainObject, validate, whole
from graphexec.actions import Run
from graphexec.agents import Agent
from graphexec.effects import Attempted, CallAgent, ModelEffect, ModelFailure
from graphexec.executor.handlers import make_attempt_handler, make_model_handler
from graphexec.executor.nodes import Policies, ask_agent
from graphexec.executor.options import to_model
from graphexec.executor.outcomes import Ready, Replied
from graphexec.executor.plugging import Piece
from graphexec.kernel.effects import Asks, ask
from graphexec.kernel.meters import Exhausted, Meter
from graphexec.kernel.node import node

if TYPE_CHECKING:
    from graphexec.messages import Model
    from graphexec.models.functions import ModelFunction

# A tool call with one of these statuses has failed.
_FAILED = frozenset({"error", "bad_arguments", "unknown_tool", "timed_out", "parse_error"})

# So many failed calls, one after the other, are a reason to ask a stronger model.
_FAILURES = 2


@final
@dataclass(frozen=True, slots=True)
class Escalated:
    """The next decision of the run is the stronger model's."""

    run: Run


@dataclass(frozen=True, slots=True)
class AskStronger(ModelEffect[Attempted]):
    """Ask the stronger model of `escalate` what the agent would have asked its own."""


def is_stuck(run: Run) -> bool:
    """Return whether the last reply was unreadable, or the last two calls failed."""
    last = [step.status for step in run.steps[-_FAILURES:]]
    return last[-1:] == ["parse_error"] or (len(last) == _FAILURES and _FAILED.issuperset(last))


def escalate(
    stronger_model: Model | LangChainObject | ModelFunction | str,
    *,
    times: int = 2,
    when: Callable[[Run], bool] = is_stuck,
) -> Piece:
    """Let a stronger model make the next decision when the agent is stuck, up to `times` in a run.

    By default the agent is stuck after a reply that it cannot read, and after two calls in a row that failed. `when` is
    another test, a pure function of the run so far. The stronger model is asked what the agent's own would have been
    asked; `stronger_model` is what `create_agent` takes.

        executor = create_agent("local", tools, nodes=[escalate("openai:gpt-5", times=1)])
        print(executor.verify().bounds.model_calls)  # iterations + 1: one call more

    With i iterations a run makes at most i + `times` model calls. When they are used up, and if the stronger model
    fails, the agent's own model decides. If that one fails, its error ends the run: pass
    `with_fallbacks(model, stronger)` to `create_agent` for another model after errors. An agent that is a function
    makes no requests, so it goes on as usual. Raises `InputError` for invalid options, as `create_agent` does.
    """
    validate("escalate", ("times", times, whole(1)), ("when", when, FUNCTION))
    # A class of its own for each piece: another piece may ask another model.
    kind: type[AskStronger] = type("AskStronger", (AskStronger,), {"__slots__": (), "__module__": __name__})

    @node
    def judge_progress(ready: Ready) -> Ready | Escalated:
        """Decide which model is asked next."""
        return Escalated(ready.run) if when(ready.run) else ready

    @node(when_spent=_go_on, meters=[Meter("escalations", times)], asks=(0, 1))
    def ask_stronger(escalated: Escalated, agent: Agent, policies: Policies) -> Asks[AskStronger, Replied | Ready]:
        """Ask the stronger model for the next decision."""
        asked = policies.request(agent, escalated.run, ask_agent)
        if isinstance(asked, CallAgent):
            return Ready(escalated.run)
        reply = yield from ask(kind(asked.request))
        return Ready(escalated.run) if isinstance(reply, ModelFailure) else Replied(escalated.run, reply)

    asking = make_model_handler(to_model(stronger_model))
    handler = dataclasses.replace(make_attempt_handler(asking), check_access=asking.check_access)
    actor = dataclasses.replace(ask_stronger, effects=(kind,))
    return Piece("escalate", (judge_progress, actor), handlers={kind: handler})


def _go_on(escalated: Escalated, _: Exhausted) -> Ready:
    # The plan of the agent leaves with the limit, if it holds for the run.
    return Ready(escalated.run)
