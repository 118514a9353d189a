"""Pieces for the rules that an agent may name: calls copied from an example, and calls made before."""

from __future__ import annotations

from graphexec.executor.plugging import Piece


def no_dummies() -> Piece:
    """Refuse calls with an argument that the model copied from a worked example.

    It asks the model again, up to three times, with what the question has or without the tool; a call that still has
    such an argument is not made, and the observation says why. It is for agents with worked examples, whose rule it is
    by default; for others it has no nodes.

        executor = AgentExecutor(agent=agent, tools=tools, nodes=[no_dummies()])
        print(executor.seats())

    In i iterations it adds at most 3i model calls. Raises `InputError` at `plug` for an agent that has the rule, and
    for one without a `narrow` function.
    """
    return Piece("no_dummies", (), rule="no_dummies")


def no_repeats() -> Piece:
    """Answer a call that was made before, with the same arguments, with its earlier result.

    A reply that only repeats calls is replaced by the model's answer, if it has one. Tools that are `repeatable` are
    called again.

        executor = AgentExecutor(agent=agent, tools=tools, nodes=[no_repeats()])
        print(executor.run("Look it up twice.").output)

    In i iterations it adds at most i model calls. Raises `InputError` at `plug` for an agent that has a rule against
    repetitions, and for one without `narrow` and `conclude`.
    """
    return Piece("no_repeats", (), rule="no_repeats")


def no_immediate_repeats() -> Piece:
    """Answer a call as `no_repeats` does, unless a later reply has made another call in between.

    It is the rule of the agents that `create_agent` makes without worked examples.

        executor = AgentExecutor(agent=agent, tools=tools, nodes=[no_immediate_repeats()])
        print(executor.run("Look it up twice.").output)

    In i iterations it adds at most i model calls. Raises `InputError` as `no_repeats` does.
    """
    return Piece("no_immediate_repeats", (), rule="no_immediate_repeats")
