"""Score a model on tasks that need a tool, without worked examples from a user.

    python benchmarks/score.py [--set three|six|one|everyday] [--half development|held-out] [--first N] [--check N]
                               [--model NAME] [--base-url URL] [--gguf FILE] [--api-key KEY] [--agent NAME]

The default is the small local model, the structured agent, and 43 tasks with made-up tools, at most three for an agent;
`six` has 15 tasks with six tools, `one` has 10 tools alone, and `everyday` has 12 questions for the tools of `graphexec
run`. Prompts are developed on every other task, and the rest are held out. Replies have at most 160 tokens, and a run
has at most 6 model calls.

A task is right only if exactly the right tools returned a result, with the right arguments, and the answer has the
right value in it. With `--check N` the exit status is 1 for fewer than N right ones. A model that fails ends the
script; a prompt that is too long for it is a wrong answer.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias, get_args

from score_tasks import SETS, Call, Computation, Task

from graphexec import AgentExecutor, AgentFinish, Exhausted, StoppedResponse
from graphexec.cli.exit_codes import UsageError, code_of, print_error
from graphexec.cli.runs.options import ChosenModel, make_agent, make_model
from graphexec.effects import CallModel, CallTool, ToolResult
from graphexec.errors import ContextOverflowError, GraphexecError
from graphexec.executor.options import AgentKind
from graphexec.kernel import Answered, Done, Event
from graphexec.messages import Model, ModelReply
from graphexec.models import LocalModel, OpenAICompatible, pull
from graphexec.tools import AnyTool

# Enough for two calls, a mistake or two, and an answer; the time is for a busy machine.
MAX_MODEL_CALLS = 6
MAX_SECONDS = 120.0
# Tokens of a reply: a confused small model does not stop before its limit.
MAX_TOKENS = 160

HALVES = {"all": (0, 1), "development": (0, 2), "held-out": (1, 2)}

# A minus is a sign where no number stands before it. Thousands may be set off by commas.
_NUMBER = re.compile(r"(?:(?<![\d)])-)?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")


def numbers_in(text: str) -> tuple[float, ...]:
    """The numbers in a text, in order."""
    return tuple(float(found.replace(",", "")) for found in _NUMBER.findall(text))


@dataclass(slots=True)
class Outcome:
    """The data of a run: its tool calls with results, the tokens of the first prompt, the model calls, and the answer.

    `stopped` is the limit that stopped the run.
    """

    calls: list[tuple[CallTool, ToolResult]] = field(default_factory=list[tuple[CallTool, ToolResult]])
    prompt_tokens: int = 0
    model_calls: int = 0
    answer: str = ""
    stopped: str = ""
    right: bool = False

    def observe(self, event: Event[Any]) -> None:
        """Note a call of a tool or of the model, and the ending."""
        match event:
            case Answered(_, CallTool() as call, ToolResult() as result):
                self.calls.append((call, result))
            case Answered(_, CallModel(), ModelReply(usage=usage)):
                self.prompt_tokens = self.prompt_tokens or usage.prompt_tokens
                self.model_calls += 1
            case Done(StoppedResponse(cause=Exhausted() as exhausted)):
                self.stopped = exhausted.limit
            case Done(AgentFinish() as finish):
                self.answer = str(finish.output)
            case _:
                pass

    @property
    def successes(self) -> list[tuple[CallTool, ToolResult]]:
        """The calls that returned a result."""
        return [(call, result) for call, result in self.calls if result.status == "ok"]

    @property
    def repeated(self) -> bool:
        """True if a tool was called again with the same arguments after it had returned a result."""
        made = [(call.name, _as_json(call.tool_input)) for call, _ in self.successes]
        return len(set(made)) < len(made)

    def __str__(self) -> str:
        calls = ", ".join(f"{call.name}({_as_json(call.tool_input)})" for call, _ in self.calls)
        flags = ["repeated"] * self.repeated + [f"stopped by {self.stopped}"] * bool(self.stopped)
        return " ".join(f"{calls or 'no call'} -> {self.answer} {' '.join(f'[{flag}]' for flag in flags)}".split())


# Any: the arguments of a tool have any type.
def _as_json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def is_call(expected: Call | Computation, call: CallTool, result: ToolResult, tools: Sequence[AnyTool]) -> bool:
    """Return whether a successful call is the expected one."""
    if isinstance(expected, Computation):
        given, returned = numbers_in(_as_json(call.tool_input)), numbers_in(str(result.observation))
        return expected.result in returned and all(one in given for one in expected.numbers)
    if call.name != expected.tool:
        return False
    (tool,) = (tool for tool in tools if tool.name == call.name)
    return _folded(tool.read(call.tool_input)) == _folded(tool.read(dict(expected.arguments)))


def _folded(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments without differences that do not matter: case, blanks, a full stop at the end."""
    return {
        name: value.strip().removesuffix(".").casefold() if isinstance(value, str) else value
        for name, value in arguments.items()
    }


def is_answered(task: Task, text: str) -> bool:
    """Return whether the text has the answer in it: the number, if it is one, or else the words, in any case."""
    try:
        wanted = float(task.answer)
    except ValueError:
        return re.search(rf"(?<!\w){re.escape(task.answer)}(?!\w)", text, re.IGNORECASE) is not None
    return wanted in numbers_in(text)


def is_right(task: Task, outcome: Outcome, tools: Sequence[AnyTool]) -> bool:
    """Return whether a run made exactly the expected calls, and its answer is right."""
    if outcome.stopped or not outcome.answer.strip() or not is_answered(task, outcome.answer):
        return False
    expected = [[is_call(one, call, result, tools) for one in task.calls] for call, result in outcome.successes]
    none_wrong = all(map(any, expected))
    none_missing = all(map(any, zip(*expected, strict=True))) if expected else not task.calls
    return none_wrong and none_missing


# A task with the tools of its agent.
Chosen: TypeAlias = tuple[tuple[AnyTool, ...], Task]


def run_task(executor: AgentExecutor, task: Task) -> Outcome:
    """Ask the question, and return what the run did."""
    outcome = Outcome()
    try:
        for event in executor.stream(task.question):
            outcome.observe(event)
    except ContextOverflowError as error:
        outcome.stopped = str(error)
    outcome.right = is_right(task, outcome, list(executor.tools.values()))
    return outcome


def run_all(make_executor: Callable[[Sequence[AnyTool]], AgentExecutor], chosen: Sequence[Chosen]) -> list[Outcome]:
    """Run the tasks one by one, and print how each went."""
    outcomes: list[Outcome] = []
    for number, (tools, task) in enumerate(chosen, 1):
        began = time.perf_counter()
        outcome = run_task(make_executor(tools), task)
        seconds = time.perf_counter() - began
        figures = f"{seconds:5.1f} s {outcome.model_calls} calls {outcome.prompt_tokens:4} tokens"
        print(f"{number:>2} {'right' if outcome.right else 'WRONG'} {figures}  {task.question}")
        print(f"         {outcome}", flush=True)
        outcomes.append(outcome)
    return outcomes


def print_summary(outcomes: Sequence[Outcome]) -> None:
    """Print the figures of all tasks together."""
    if outcomes:
        calls = sum(outcome.model_calls for outcome in outcomes) / len(outcomes)
        print(f"model calls: {calls:.1f} a task; first prompt: {max(one.prompt_tokens for one in outcomes)} tokens")
    print(f"repeated a successful call: {sum(outcome.repeated for outcome in outcomes)}")
    print(f"stopped by a limit: {sum(bool(outcome.stopped) for outcome in outcomes)}")
    print(f"score: {sum(outcome.right for outcome in outcomes)} of {len(outcomes)}")


def choose_tasks(name: str, half: str, first: int | None) -> list[Chosen]:
    """Return the tasks of a set, or of a half of it, and only the first of them."""
    several = [(group.tools, task) for group in SETS[name] for task in group.tasks]
    start, step = HALVES[half]
    return several[start::step][:first]


def model_of(options: argparse.Namespace) -> ChosenModel:
    """Make the model that the options mean. Raises `UsageError` and `WeightsError`."""
    if options.api_key is not None and (options.model is None or options.gguf is not None):
        raise UsageError("--api-key is for a model of a server; add --model NAME, and leave out --gguf")
    if options.gguf is not None and not options.gguf.is_file():
        raise UsageError(f"there is no file {options.gguf}; name a GGUF file")
    name = options.model if options.gguf is None else f"local:{options.gguf}"
    chosen = make_model(name, options.base_url)
    return replace(chosen, model=_limited(chosen, options))


def _limited(chosen: ChosenModel, options: argparse.Namespace) -> Model:
    if not chosen.local:
        return OpenAICompatible(
            options.model,
            base_url=options.base_url,
            api_key=options.api_key,
            temperature=0.0,
            max_tokens=MAX_TOKENS,
        )
    if options.gguf is not None:
        return LocalModel(options.gguf, max_tokens=MAX_TOKENS)
    return LocalModel(model=chosen.name, max_tokens=MAX_TOKENS)


def read_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Score a model on tasks that need a tool.")
    parser.add_argument("--set", choices=tuple(SETS), default="three", help="the tasks, by the tools of an agent")
    parser.add_argument("--half", choices=tuple(HALVES), default="all", help="the half of the tasks that is asked")
    parser.add_argument("--model", metavar="NAME", help="a model of an OpenAI-compatible server, or a local one's name")
    parser.add_argument("--base-url", metavar="URL", help="the server's address; without it OPENAI_BASE_URL")
    parser.add_argument("--gguf", metavar="FILE", type=Path, help="a local model of your own")
    parser.add_argument("--api-key", metavar="KEY", help="the server's key; without it OPENAI_API_KEY")
    parser.add_argument("--agent", choices=get_args(AgentKind), default="structured", help="how the model decides")
    parser.add_argument("--first", metavar="N", type=int, help="ask only the first N questions")
    parser.add_argument("--check", metavar="N", type=int, default=0, help="exit with 1 if fewer than N are right")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask, print the score, and return the exit status."""
    options = read_options(arguments)
    try:
        chosen = model_of(options)
        if chosen.weights is not None:
            pull(chosen.weights)

        def make_executor(tools: Sequence[AnyTool]) -> AgentExecutor:
            return AgentExecutor(
                agent=make_agent(options.agent, chosen.model, tools),
                tools=tools,
                handle_parsing_errors=True,
                max_iterations=None,
                max_model_calls=MAX_MODEL_CALLS,
                max_execution_time=MAX_SECONDS,
            )

        tasks = choose_tasks(options.set, options.half, options.first)
        print(f"{chosen.name}, {options.agent} agent, {len(tasks)} tasks", flush=True)
        outcomes = run_all(make_executor, tasks)
    except (UsageError, GraphexecError) as error:
        print_error(error, debug=False)
        return code_of(error)
    print_summary(outcomes)
    if sum(outcome.right for outcome in outcomes) < options.check:
        print(f"fewer than {options.check} are right", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
