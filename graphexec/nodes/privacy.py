"""Privacy: personal data is replaced by tokens before a model sees it, and restored for tools and people."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from graphexec._arguments import FLAG, STRING, validate, validate_each
from graphexec.actions import AgentFinish, AgentStep, Run, Steps, StoppedResponse
from graphexec.executor.nodes import add_steps
from graphexec.executor.outcomes import Acted, Observed, Ready, Stopped
from graphexec.executor.plugging import Piece
from graphexec.kernel.node import node
from graphexec.messages import ChatRequest, ModelRequest
from graphexec.messages.stored import TypedValues
from graphexec.nodes._personal_data import DEFAULT, AnyPattern, Strategy, to_finders, to_strategies
from graphexec.nodes._vault import (
    Change,
    Matcher,
    Vault,
    hide_result,
    map_excerpt,
    map_input,
    map_inputs,
    map_message,
    map_values,
)

E = TypeVar("E", AgentFinish, StoppedResponse)


def redact_pii(
    patterns: Iterable[str] | Mapping[str, AnyPattern] = DEFAULT,
    *,
    strategy: Strategy | Mapping[str, Strategy] = "token",
    restore: bool = True,
    keep: Sequence[str] = (),
    name: str = "redact_pii",
) -> Piece:
    """Return a piece that replaces personal data by tokens such as `[EMAIL_1]` before the agent's model sees them.

    It replaces them in the inputs (a chat history included), in tool results, and at last in every request of the agent
    and of other pieces, whatever its prompt is made of: no message of a request holds a match. The tools are called
    with the values. The answer, the last word of a stopped run, the steps of the result and what a memory saves have
    the values, too; with `restore=False` all of these have the tokens, and a match that the model wrote is replaced.

    - `patterns`: names of the patterns on the shelf, of `EMAIL`, `CARD` (with a valid checksum), `IBAN` (likewise),
      `PHONE` (international, `+49 ...`) and `API_KEY`, which are the default, and of `IP`, `MAC` and `URL`; or your
      own by name, as regular expressions or as functions from a string to the `(start, end)` of each match.
    - `strategy`: for all patterns, or by name. `token` is what is said above. The others hide a match for good, from
      tools and people, too: `redact` writes `[CARD]`, `mask` `**** **** **** 1111`, and `hash` `<CARD:cworuyak>`, which
      is the same in all runs, so a short value can be guessed. `block` stops the run: a match in the inputs, or in a
      call or its result, is a `Refusal`; one in an answer is redacted.
    - `keep`: strings that are never replaced, such as the address of your own support.

    A value has the same token throughout a run. A token that a tool or a person writes is replaced like a match, and
    one that the model invents is left as it is, so guessing reveals no value. The tokens and the values are
    a part of the run's snapshot. A match that only the request has, such as one in the prompt, is replaced by `[EMAIL]`
    for good. Images are not searched.

    The pieces of an answer are held back until it is restored. In `stream_chunks`, steps have the tokens. Put the piece
    first in the list: a node that asks a model before it, or after the answer is restored, is refused. An agent that a
    tool or a piece runs gets the values, like any tool; give it a `redact_pii` of its own.

    Bound: `6*iterations + 4` transitions; nothing is asked. The default patterns take time linear in the text. Raises
    `InputError` for an invalid option.

        executor = create_agent(model, tools, nodes=[redact_pii()])
        executor.run("Send the invoice to ann@example.com")        # the model reads: ... to [EMAIL_1]

        badge = redact_pii({"BADGE": r"B-[0-9]{6}"}, name="redact_badges")
        executor = executor.plug(badge)
    """
    validate("redact_pii", ("restore", restore, FLAG), ("name", name, STRING))
    finders = to_finders(patterns)
    strategies = to_strategies(strategy, finders)
    matcher = Matcher(finders, frozenset(validate_each("redact_pii: keep", keep, str, "strings")), strategies)
    for_good = matcher.for_good()
    blocks = "block" in strategies.values()

    def stop(run: Run, vault: Vault, where: str) -> Stopped:
        return Stopped.by_refusal(run, name, f"{', '.join(dict.fromkeys(vault.blocked))} in {where}")

    def hide_inputs(ready: Ready) -> Ready | Stopped:
        """Replace the personal data in the inputs."""
        vault = Vault.of(ready.run, name, matcher)
        run = vault.store(map_inputs(ready.run, vault.hide), name)
        return stop(run, vault, "the inputs") if vault.blocked else Ready(run)

    @node(name=f"{name}_arguments")
    def show_arguments(acted: Acted) -> Acted:
        """Restore the arguments of the calls for the tools."""
        show = Vault.of(acted.run, name, matcher).show
        return dataclasses.replace(acted, actions=tuple(map_input(action, show) for action in acted.actions))

    def hide_results(observed: Observed) -> Observed | Stopped:
        """Replace the personal data in the calls and in their results."""
        vault = Vault.of(observed.run, name, matcher)
        actions = tuple(map_input(action, vault.hide) for action in observed.actions)
        results = tuple(hide_result(result, vault.hide) for result in observed.results)
        hidden = Observed(vault.store(observed.run, name), actions, results)
        # The calls were made, so they are steps.
        return stop(add_steps(hidden), vault, "a call or its result") if vault.blocked else hidden

    if not blocks:
        hide_inputs.__annotations__["return"] = Ready
        hide_results.__annotations__["return"] = Observed

    def change_ending(ending: E) -> E:
        vault = Vault.of(ending.run, name, matcher)
        change: Change = vault.show if restore else vault.mask
        if restore and for_good is not None:
            mask = Vault({}, for_good).mask
            change = lambda value: mask(vault.show(value))  # noqa: E731
        return _map_ending(ending, change, _map_run(ending.run, change, name))

    # Two nodes: the table would let one of both classes return either.
    @node(name=f"{name}_answer")
    def show_answer(finish: AgentFinish) -> AgentFinish:
        """Restore the answer and its steps for people, or replace the personal data in them."""
        return change_ending(finish)

    @node(name=f"{name}_stopped")
    def show_stopped(stopped: StoppedResponse) -> StoppedResponse:
        """Do the same with the text of a stopped run."""
        return change_ending(stopped)

    def edits(request: ModelRequest, run: Run) -> ModelRequest:
        vault = Vault.of(run, name, matcher)
        if not isinstance(request, ChatRequest):
            return dataclasses.replace(request, prompt=vault.mask(request.prompt))
        # Through an iterator: `len` would write all messages once more.
        messages = tuple(iter(request.messages))
        masked = [map_message(one, vault.mask, vault.mask_json) for one in messages]
        # A request without a match stays the same object.
        return request if all(map(operator.is_, masked, messages)) else dataclasses.replace(request, messages=masked)

    arguments = (show_arguments,) if restore else ()
    hiding = (node(name=name)(hide_inputs), node(name=f"{name}_results")(hide_results))
    entries = (*hiding, *arguments, show_answer, show_stopped)
    return Piece(name, entries, once=True, edits=edits, reveals=True)


def _map_ending(ending: E, change: Change, run: Run) -> E:
    if isinstance(ending, StoppedResponse):
        return dataclasses.replace(ending, output=str(change(ending.output)), run=run)
    values = map_values(dict(ending.return_values), change)
    if isinstance(ending.return_values, TypedValues):
        values = ending.return_values.with_values(values)
    log, unread = str(change(ending.log)), str(change(ending.unread))
    return dataclasses.replace(ending, return_values=values, log=log, unread=unread, run=run)


def _map_run(run: Run, change: Change, name: str) -> Run:
    """Return the run with its inputs and its steps changed, and without the vault."""
    state = {key: value for key, value in run.aside.state.items() if key != name}
    steps = Steps([_map_step(step, change) for step in run.steps])
    return dataclasses.replace(map_inputs(run, change), steps=steps).with_aside(state=state)


def _map_step(step: AgentStep, change: Change) -> AgentStep:
    action = map_input(step.action, change)
    message = None if action.message is None else map_message(action.message, change)
    action = dataclasses.replace(
        action, log=str(change(action.log)), message=message, unread=str(change(action.unread))
    )
    observation = map_values(step.observation, change)
    excerpt = map_excerpt(step.excerpt, change)
    return dataclasses.replace(step, action=action, observation=observation, excerpt=excerpt)
