"""Score a model on 20 everyday questions, each of which needs a tool.

    python benchmarks/score.py [--model NAME] [--base-url URL] [--gguf FILE] [--api-key KEY] [--agent NAME]
                               [--first N] [--check N]

The default is the small local model and the structured agent with its worked examples, as in `graphexec run`. A
question is right only if every tool call was (it was given the numbers of the question, and what it returned is the
right number) and the answer has that number in it. With `--check N` the exit status is 1 for fewer than N right ones. A
model that fails ends the script; a prompt that is too long for it is a wrong answer.

How far the questions are from the worked examples: they share no number. The examples only multiply: 8 of the 12
calculations are sums and differences, which are new, 2 are products in other words, and 2 are stories of a product, as
one of the examples is, about other things. Of the 8 conversions, 4 are of other units in the words of an example, 2 are
of units that an example converts, in the other direction and in other words, and 2 are new in both. The examples were
there before the questions, and neither was changed for the other.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from graphexec import AgentExecutor, AgentStep, RunResult
from graphexec.cli.exit_codes import UsageError, code_of, print_error
from graphexec.cli.run_options import AgentName, ChosenModel, fetch_weights, make_agent, make_model
from graphexec.errors import ContextOverflowError, GraphexecError
from graphexec.tools.everyday import EVERYDAY_TOOLS

# Enough for a call, a mistake and an answer; the time is for a busy machine.
MAX_ITERATIONS = 5
MAX_SECONDS = 120.0

# How far an answer to a conversion may be off, as people round: 42.2 for 42.1648, but not 42.
ROUNDED = 0.002


@dataclass(frozen=True, slots=True)
class Question:
    """A question with the numbers in it, and the number that is its answer, within `tolerance` of itself."""

    text: str
    answer: float
    tolerance: float = 0.0

    @property
    def numbers(self) -> tuple[float, ...]:
        """The numbers that a tool has to be given."""
        return numbers_in(self.text)

    def answered_in(self, text: str) -> bool:
        """Return whether the right number is among those of the text."""
        return any(math.isclose(one, self.answer, rel_tol=self.tolerance) for one in numbers_in(text))


QUESTIONS = (
    Question("What is 418 plus 273?", 691),
    Question("Multiply 125 by 16.", 2000),
    Question("Convert 10 feet to meters.", 3.048, ROUNDED),
    Question("A book has 352 pages and I have read 187. How many pages are left?", 165),
    Question("How much is 905 - 348?", 557),
    Question("Calculate 64 times 27.", 1728),
    Question("What is 25 degrees Celsius in Fahrenheit?", 77, ROUNDED),
    Question("A ticket costs 18 euros. How much do 24 tickets cost?", 432),
    Question("What is the sum of 1250 and 875?", 2125),
    Question("How many liters are in 12 gallons?", 45.42494, ROUNDED),
    Question("A farmer has 146 sheep and buys 78 more. How many sheep does he have now?", 224),
    Question("A marathon is 42.195 kilometers long. How many miles is that?", 26.21876, ROUNDED),
    Question("How many pounds are 70 kilograms?", 154.32358, ROUNDED),
    Question("There are 32 rows with 45 seats in each row. How many seats are there?", 1440),
    Question("What is the difference between 730 and 485?", 245),
    Question("How many centimeters are 15 inches?", 38.1, ROUNDED),
    Question("I paid 365 dollars for a bike and 89 dollars for a helmet. How much did I pay?", 454),
    Question("My suitcase weighs 50 pounds. How heavy is it in kilograms?", 22.67962, ROUNDED),
    Question("Subtract 256 from 1000.", 744),
    Question("How many hours are 450 minutes?", 7.5, ROUNDED),
)

# A minus is a sign where no number stands before it. Thousands may be set off by commas.
_NUMBER = re.compile(r"(?:(?<![\d)])-)?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")


def numbers_in(text: str) -> tuple[float, ...]:
    """The numbers in a text, in order."""
    return tuple(float(found.replace(",", "")) for found in _NUMBER.findall(text))


def calls_of(result: RunResult) -> tuple[AgentStep, ...]:
    """The steps in which a tool was called, or should have been; a reply that could not be read is none."""
    return tuple(step for step in result.steps if step.status != "parse_error")


def call_is_right(question: Question, step: AgentStep) -> bool:
    """Return whether a tool received the question's numbers, and returned the right one."""
    given = numbers_in(json.dumps(step.action.tool_input, ensure_ascii=False))
    returned = question.answered_in(str(step.observation))
    return step.status == "ok" and returned and all(one in given for one in question.numbers)


def is_right(question: Question, result: RunResult) -> bool:
    """Return whether tools were called, and all calls and the agent's answer were right."""
    calls = calls_of(result)
    called = bool(calls) and all(call_is_right(question, step) for step in calls)
    return called and result.stopped is None and question.answered_in(str(result.output))


def format_result(result: RunResult) -> str:
    """Return the calls and the answer in one line."""
    calls = [f"{step.action.tool}({_arguments(step)})" for step in calls_of(result)]
    answer = result.stopped.reason if result.stopped else str(result.output)
    return " ".join(f"{', '.join(calls) or 'no call'} -> {answer}".split())


def _arguments(step: AgentStep) -> str:
    given = step.action.tool_input
    return given if isinstance(given, str) else ", ".join(f"{name}={value!r}" for name, value in given.items())


def ask_all(executor: AgentExecutor, questions: Sequence[Question]) -> int:
    """Ask the questions one by one, print how each went, and return how many were right."""
    right = 0
    for number, question in enumerate(questions, 1):
        began = time.perf_counter()
        try:
            result = executor.run(question.text)
        except ContextOverflowError as error:
            correct, summary = False, str(error)
        else:
            correct, summary = is_right(question, result), format_result(result)
        right += correct
        seconds = time.perf_counter() - began
        print(f"{number:>2} {'right' if correct else 'WRONG'} {seconds:5.1f} s  {question.text}")
        print(f"                 {summary}", flush=True)
    return right


def model_of(options: argparse.Namespace) -> ChosenModel:
    """Make the model that the options mean, as `graphexec run` does. Raises `UsageError` and `WeightsError`."""
    if options.api_key is None:
        return make_model(options.model, options.base_url, options.gguf)
    if options.model is None or options.gguf is not None:
        raise UsageError("--api-key is for a model of a server; add --model NAME, and leave out --gguf")
    from graphexec.models import OpenAICompatible

    model = OpenAICompatible(options.model, base_url=options.base_url, api_key=options.api_key)
    return ChosenModel(model, options.model, local=False)


def read_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Score a model on 20 everyday questions that need a tool.")
    parser.add_argument("--model", metavar="NAME", help="a model of an OpenAI-compatible server, or a local one's name")
    parser.add_argument("--base-url", metavar="URL", help="the server's address; without it OPENAI_BASE_URL")
    parser.add_argument("--gguf", metavar="FILE", type=Path, help="a local model of your own")
    parser.add_argument("--api-key", metavar="KEY", help="the server's key; without it OPENAI_API_KEY")
    parser.add_argument("--agent", choices=get_args(AgentName), default="structured", help="how the model decides")
    parser.add_argument("--first", metavar="N", type=int, default=len(QUESTIONS), help="ask only the first N questions")
    parser.add_argument("--check", metavar="N", type=int, default=0, help="exit with 1 if fewer than N are right")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask, print the score, and return the exit status."""
    options = read_options(arguments)
    try:
        chosen = model_of(options)
        fetch_weights(chosen)
        executor = AgentExecutor(
            agent=make_agent(options.agent, chosen.model, EVERYDAY_TOOLS),
            tools=EVERYDAY_TOOLS,
            handle_parsing_errors=True,
            max_iterations=MAX_ITERATIONS,
            max_execution_time=MAX_SECONDS,
        )
        questions = QUESTIONS[: max(0, options.first)]
        print(f"{chosen.name}, {options.agent} agent, {len(questions)} questions", flush=True)
        right = ask_all(executor, questions)
    except (UsageError, GraphexecError) as error:
        print_error(error, debug=False)
        return code_of(error)
    print(f"score: {right} of {len(questions)}")
    if right < options.check:
        print(f"fewer than {options.check} are right", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
