"""A piece that shows the model no old results of tools: `clear_results`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphexec._arguments import FLAG, FUNCTION, NAME, STRING, validate, validate_each, whole
from graphexec.actions import Cleared
from graphexec.agents import Agent
from graphexec.agents.calls import CallRules
from graphexec.executor.nodes import Policies
from graphexec.executor.outcomes import Ready
from graphexec.executor.plugging import Piece
from graphexec.kernel.node import node
from graphexec.memory import estimated_tokens
from graphexec.nodes.asking import measure_request


def clear_results(
    max_tokens: int = 4000,
    keep: int = 3,
    *,
    exclude: Sequence[str] = (),
    placeholder: str = "[cleared]",
    inputs: bool = False,
    at_least: int = 0,
    count: Callable[[str], int] = estimated_tokens,
    name: str = "clear_results",
) -> Piece:
    """Show the model a placeholder in place of older results when the next request is too long; no model is asked.

    The request is measured as in `compact`: more than `max_tokens` are too many. The last `keep` results stay, 0 or
    more, and those of the tools in `exclude`. The oldest are cleared first; all of them, or with `at_least` no more
    than free so many tokens. With `inputs` the arguments of their calls are not shown either, for agents that call
    tools natively. What is cleared stays so: the beginning of the requests, which servers cache, rarely changes.

        from graphexec.nodes import clear_results

        executor = create_agent(model, tools, nodes=[clear_results(max_tokens=8000, exclude=["read_plan"])])
        result = executor.run("Read all of these files: ...")
        print(result.steps[0].observation)  # The whole result: only what the model is shown is shortened.

    In front of `compact` in the list, it makes summaries rarer. It adds one transition before each decision. Raises
    `InputError` for an invalid argument, and the executor raises it for a tool that it does not have.
    """
    validate(
        "clear_results",
        ("max_tokens", max_tokens, whole(1)),
        ("keep", keep, whole(0)),
        ("placeholder", placeholder, STRING),
        ("inputs", inputs, FLAG),
        ("at_least", at_least, whole(0)),
        ("count", count, FUNCTION),
        ("name", name, NAME),
    )
    excluded = validate_each("clear_results: exclude", exclude, str, "names of tools")

    @node(name=name)
    def clear(ready: Ready, agent: Agent, policies: Policies, rules: CallRules) -> Ready:
        """Clear older results if the next request is too long."""
        run = measure_request(ready.run, name, max_tokens, count, agent, policies)
        if run.aside.state[name]["tokens"] <= max_tokens:
            return Ready(run)
        results = [place for place, step in enumerate(run.steps) if rules.find_tool(step.action) is not None]
        done = {one.step for one in run.aside.cleared}
        cleared: list[Cleared] = []
        freed = 0
        for place in results[: max(0, len(results) - keep)]:
            step = run.steps[place]
            if place in done or any(rules.calls(step.action, tool) for tool in excluded):
                continue
            cleared.append(Cleared(place, placeholder, inputs))
            freed += count(step.text) - count(placeholder)
            if 0 < at_least <= freed:
                break
        return Ready(run.with_aside(cleared=(*run.aside.cleared, *cleared)))

    return Piece(name, (clear,), tool_names=excluded)
