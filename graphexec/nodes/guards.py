"""Guards: a check decides whether a question may be asked of the model, and whether an answer may be given out."""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from typing import Any, TypeAlias, Union, get_args, get_origin

from graphexec._arguments import FLAG, FUNCTION, STRING, validate, validate_each, whole
from graphexec.actions import AgentFinish, Refusal, StoppedResponse
from graphexec.agents.prompt import format_observation
from graphexec.errors import InputError, format_value
from graphexec.executor.nodes import end_stopped
from graphexec.executor.outcomes import Ready, Stopped
from graphexec.executor.plugging import Piece
from graphexec.kernel.effects import Effect
from graphexec.kernel.meters import Exhausted
from graphexec.kernel.node import Node, node
from graphexec.kernel.signatures import read_hints
from graphexec.runtime.handlers import HandlerLike

# Returns the reason to refuse a text, or `None` to allow it. The third kind asks for effects: `Asks[CallModel, ...]`.
Check: TypeAlias = (
    Callable[[str], str | None]
    | Callable[[str], Coroutine[Any, Any, str | None]]
    | Callable[[str], Generator[Any, Any, str | None]]
)


def guard_input(
    check: Check,
    *,
    inputs: Sequence[str] = (),
    blocking: bool = False,
    asks: int = 1,
    handlers: Mapping[type[Effect[Any]], HandlerLike] | None = None,
    name: str = "guard_input",
) -> Piece:
    """Return a piece that checks the inputs of a run before a model or a tool is called.

    `check(text)` returns the reason to refuse, or `None`. The text is the value of `input`, or else the values of all
    inputs that are strings, one below the other; with `inputs`, the values of these. A refused run ends with a
    `StoppedResponse`, whose `cause` has the reason. The check is a function of one of these kinds:

    - `def check(text: str) -> str | None` is called by the engine, so it must do no I/O and return promptly. With
      `blocking=True` it may do both: it is one effect, which the deadline cuts.
    - `async def check(text: str) -> str | None` is one effect, too. A resumed run does not call it again.
    - `def check(text: str) -> Asks[CallModel, str | None]` asks for up to `asks` effects with `yield from`, such as
      the verdict of a model. They are counted; `handlers` answer the effects that the executor does not know.

    If a limit stops the check, the run is refused. A memory is loaded before the check. Bound: one transition a run,
    and the effects of the check. Raises `InputError` for invalid options, and in a run for a check that returns neither
    a string nor `None`.

        def no_passwords(text: str) -> str | None:
            return "It asks for a password." if "password" in text else None

        executor = create_agent(model, tools, nodes=[guard_input(no_passwords)])
        print(executor.run("What is the password?").output)
    """
    names = validate_each("guard_input: inputs", inputs, str, "names")
    make_node = _read_check("guard_input", check, name, blocking=blocking, asks=asks)

    def text_of(ready: Ready) -> str:
        given = ready.run.inputs
        if missing := [key for key in names if key not in given]:
            raise InputError(f"{name}: the run has no input {missing[0]} to check; it has {', '.join(given)}")
        wanted = names or (("input",) if "input" in given else [key for key in given if isinstance(given[key], str)])
        return "\n".join([format_observation(given[key]) for key in wanted])

    entry = make_node(name, (Ready, Stopped), text_of)
    return Piece(name, (entry,), once=True, gates=True, handlers=dict(handlers or {}))


def guard_output(
    check: Check,
    *,
    blocking: bool = False,
    asks: int = 1,
    handlers: Mapping[type[Effect[Any]], HandlerLike] | None = None,
    name: str = "guard_output",
) -> Piece:
    """Return a piece that checks every answer before it is given out or saved, the last word of a stopped run included.

    `check(text)` is as in `guard_input`; the text is the answer as a model would read it. A refused answer is replaced
    by the stopped response of a refusal, and the model is asked nothing more. A `StoppedResponse` is checked if it is
    not the executor's own text; if it is refused, the refusal is its cause. If a limit stops the check, the answer is
    refused.

    No event, piece or chunk of `stream_answer`, `stream_chunks` and `verbose` has a refused answer, nor has the result.
    The model's reply itself is an event of `stream` and a part of the journal and the trace: they record what happened.
    So do the steps of the run: they have the result of a return-direct tool, and an answer that a critic sent back.
    The pieces of an answer are held back until the check has decided, so an allowed answer comes in one piece.

    Bound: one transition a run, and the effects of the check. Raises as `guard_input` does.

        def no_pins(text: str) -> str | None:
            return "It contains a PIN." if "PIN is" in text else None

        executor = create_agent(model, tools, nodes=[guard_output(no_pins)])
        print(executor.run("What is the PIN?").output)
    """
    make_node = _read_check("guard_output", check, name, blocking=blocking, asks=asks)

    def answer_of(finish: AgentFinish) -> str:
        return format_observation(finish.answer)

    def words_of(stopped: StoppedResponse) -> str | None:
        # What the executor itself says of this cause.
        own = end_stopped(Stopped(stopped.run, stopped.cause)).output
        return None if stopped.output == own else stopped.output

    def replace(stopped: StoppedResponse, why: str) -> StoppedResponse:
        refusal = Refusal(name, why)
        text = f"Agent stopped: {refusal}"
        return dataclasses.replace(stopped, output=text, cause=refusal, generated=False)

    answer = make_node(name, (AgentFinish, Stopped), answer_of)
    # A node of its own: a refused answer is stopped, and the stopped response comes here, not back to the first.
    last_word = make_node(f"{name}_stopped", (StoppedResponse,), words_of, replace)
    return Piece(name, (answer, last_word), handlers=dict(handlers or {}))


# Any: each kind of check returns another class; so below.
def _read_check(owner: str, check: Any, name: str, *, blocking: bool, asks: int) -> Callable[..., Node[Any, Any]]:
    """Return a function that makes the nodes in which a check decides. Raises `InputError` for invalid options."""
    validate(
        owner,
        ("check", check, FUNCTION),
        ("name", name, STRING),
        ("blocking", blocking, FLAG),
        ("asks", asks, whole(0)),
    )
    waits = inspect.iscoroutinefunction(check)
    hint: Any = read_hints(check, name).get("return") if inspect.isroutine(check) else None
    effects: Any = get_args(hint)[0] if get_origin(hint) is Generator else None
    if inspect.isgeneratorfunction(check) and effects is None:
        raise InputError(f"{owner}: the check yields effects; annotate it with -> Asks[Effect, str | None]")
    if blocking and (waits or effects is not None):
        raise InputError(f"{owner} has blocking=True; leave it out, because the check does not block")

    def stop(value: Any, why: str) -> Stopped:
        return Stopped.by_refusal(value.run, name, why)

    def make_node(
        node_name: str,
        outcomes: tuple[type, ...],
        text_of: Callable[[Any], str | None],
        refuse: Callable[[Any, str], object] = stop,
    ) -> Node[Any, Any]:
        """Return a node that passes on a value of the first class, or returns what `refuse` returns, of the last one.

        A text of `None` is allowed; another one is refused if a limit stops the check.
        """

        def settle(value: Any, why: object) -> Any:
            if why is None:
                return value
            if not isinstance(why, str) or not why:
                raise InputError(
                    f"{name}: the check returned {format_value(why)}; return the reason to refuse, or None"
                )
            return refuse(value, why)

        # The values may be of any class: the annotations below say which.
        def judge(value: Any) -> Any:
            return value if (text := text_of(value)) is None else settle(value, check(text))

        async def await_verdict(value: Any) -> Any:
            return value if (text := text_of(value)) is None else settle(value, await check(text))

        def ask_verdict(value: Any) -> Generator[Any, Any, Any]:
            if (text := text_of(value)) is None:
                return value
            verdict: Generator[Any, Any, object] = check(text)
            return settle(value, (yield from verdict))

        def refuse_unchecked(value: Any, limit: Exhausted) -> Any:
            return value if text_of(value) is None else refuse(value, f"the check was not finished: {limit}")

        # Any: a union of classes that are known at run time only.
        returned: Any = Union[outcomes]  # noqa: UP007 - the classes are in a tuple
        function: Callable[[Any], Any] = await_verdict if waits else judge
        if effects is not None:
            function, returned = ask_verdict, types.GenericAlias(Generator, (effects, Any, returned))
        function.__annotations__ = {"value": outcomes[0], "return": returned}
        made: Node[Any, Any] = node(name=node_name, opaque=blocking)(function)
        if made.kind == "pure":
            return made
        refuse_unchecked.__annotations__ |= {"value": outcomes[0], "return": outcomes[-1]}
        return node(when_spent=refuse_unchecked, asks=(0, asks) if made.kind == "asks" else None)(made)

    return make_node
