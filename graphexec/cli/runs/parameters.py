"""The options that select an executor and its limits, for every command that runs one."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import typer

from graphexec.agents import WorkedExample, synthesised_examples
from graphexec.cli.exit_codes import UsageError, option
from graphexec.cli.runs.options import AgentName
from graphexec.errors import ToolDefinitionError, did_you_mean
from graphexec.tools import AnyTool, ToolExample, tools_by_name
from graphexec.tools.examples import check_examples

MODEL, LIMITS, SAVED, OUTPUT = "Model and tools", "Limits", "Saved between runs", "Output"


def decode_argument(text: str) -> str:
    """Return an argument as UTF-8, in any locale. Raises `typer.BadParameter` for bytes that are not UTF-8."""
    try:
        # Python keeps the bytes that the locale cannot decode as lone surrogates.
        return os.fsencode(text).decode() if any("\udc80" <= one <= "\udcff" for one in text) else text
    except UnicodeError:
        raise typer.BadParameter("it is not UTF-8; write it in UTF-8, or write ASCII") from None


def _decode_optional(text: str | None) -> str | None:
    return None if text is None else decode_argument(text)


def _check_finite(seconds: float | None) -> float | None:
    if seconds is not None and not math.isfinite(seconds):
        raise typer.BadParameter("it is not a finite number of seconds; leave the option out for no limit")
    return seconds


def _check_timeout(seconds: float | None) -> float | None:
    if seconds is not None and not 0 < seconds < math.inf:
        raise typer.BadParameter("it is not a finite number of seconds above 0; write one, such as --timeout 120")
    return seconds


def _check_temperature(temperature: float | None) -> float | None:
    if temperature is not None and not 0 <= temperature < math.inf:
        raise typer.BadParameter("it is not a number, 0 or more; write one, such as --temperature 0.2")
    return temperature


OwnExecutor: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        metavar="TARGET",
        help="An executor of your own, as my_agent.py:executor or package.module:executor, or a function without "
        "parameters that makes one. The file is imported, and so run. Default: the built-in agent.",
        show_default=False,
    ),
]
ModelName: TypeAlias = Annotated[
    str | None,
    option(
        MODEL,
        "NAME",
        "A provider and its model, such as openai:gpt-5-mini, anthropic:claude-sonnet-4-5 or ollama:llama3.2:3b; "
        "local:FILE.gguf, or a local model that `graphexec models` lists. Providers: openai, openai-responses, "
        "anthropic, groq, mistral, deepseek, gemini, xai, openrouter, together, fireworks, cerebras, perplexity, "
        "nvidia, moonshot, cohere, dashscope, huggingface, and on this machine ollama, lmstudio, vllm, llamacpp, "
        "local. With --base-url the whole name is that of a model at this address, such as llama3.2:3b, and with "
        "OPENAI_BASE_URL a name without a provider is. Default: a small local model, downloaded at first use.",
    ),
]
BaseURL: TypeAlias = Annotated[
    str | None,
    option(
        MODEL,
        "URL",
        "The address of an OpenAI-compatible server, such as http://127.0.0.1:8080/v1. Default: OPENAI_BASE_URL, "
        "else OpenAI's server. The key is read from OPENAI_API_KEY, or from the variable of the named provider, such "
        "as ANTHROPIC_API_KEY.",
    ),
]
Retries: TypeAlias = Annotated[
    int | None, option(MODEL, "N", "Retries of a failed request to a server. Default: 2.", min=0)
]
GGUF: TypeAlias = Annotated[Path | None, option(MODEL, "PATH", "A local model of your own: a GGUF file.")]
AgentOption: TypeAlias = Annotated[
    AgentName | None,
    option(
        MODEL,
        "NAME",
        "The kind of agent: structured, tool_calling, react, or LangChain's mrkl, conversational, chat, "
        "structured_chat, json_chat or xml. Default: tool_calling for a model that is known to call tools, else "
        "structured.",
    ),
]
System: TypeAlias = Annotated[
    str | None,
    option(
        MODEL,
        "TEXT",
        "Instructions for the model, such as 'Answer in one sentence.' They replace those of the tool_calling agent, "
        "and stand before those of the structured and the react agent.",
        callback=_decode_optional,
    ),
]
Temperature: TypeAlias = Annotated[
    float | None,
    option(
        MODEL,
        "NUMBER",
        "Randomness of the replies: 0 for the likeliest, up to 1 or 2. Default: the server's.",
        callback=_check_temperature,
    ),
]
Timeout: TypeAlias = Annotated[
    float | None,
    option(
        MODEL,
        "SECONDS",
        "Seconds for one call of the model. Default: 600, and 300 for a local model. --max-seconds limits the run.",
        callback=_check_timeout,
    ),
]
MaxReplyTokens: TypeAlias = Annotated[
    int | None, option(MODEL, "N", "Tokens of one reply. Default: the server's, and 256 for a local model.", min=1)
]
Examples: TypeAlias = Annotated[
    list[str] | None,
    option(
        MODEL,
        "EXAMPLE",
        'A worked example, such as \'What is 2 + 3? => calculator {"expression": "2 + 3"} => 5\': the question, each '
        "call with its arguments, its result, and the answer if it is not the last result. The last result may be left "
        "out. The structured agent shows all of it, in place of the built-in examples, and also 'Hello => Hi!', which "
        "has no call; other agents show the calls with their tools. May be repeated.",
        "--example",
    ),
]
Trim: TypeAlias = Annotated[
    int | None,
    option(MODEL, "N", "Show the model only the last N steps, for runs that exceed its context.", min=1),
]
Tools: TypeAlias = Annotated[
    list[str] | None,
    option(
        MODEL,
        "MODULE:OBJECT",
        "A tool or a list of tools, as module:object or file.py:object, instead of the built-in ones (calculator "
        "and today). An object may be a function with annotations and a docstring; a module or a file "
        "alone means all its tools. The file is imported, and so run. May be repeated.",
    ),
]
NamedInputs: TypeAlias = Annotated[
    list[str] | None,
    option(
        MODEL,
        "NAME=TEXT",
        "An input of your own executor that is not the question. May be repeated.",
        "--input",
    ),
]
MaxIterations: TypeAlias = Annotated[
    int | None, option(LIMITS, "N", "Iterations: decisions of the agent. Default: 15, or the executor's own.", min=0)
]
MaxSeconds: TypeAlias = Annotated[
    float | None, option(LIMITS, "SECONDS", "Elapsed seconds.", min=0, callback=_check_finite)
]
MaxModelCalls: TypeAlias = Annotated[int | None, option(LIMITS, "N", "Model calls.", min=0)]
MaxToolCalls: TypeAlias = Annotated[int | None, option(LIMITS, "N", "Tool calls.", min=0)]
MaxTokens: TypeAlias = Annotated[
    int | None,
    option(
        LIMITS,
        "N",
        "Tokens of the run, prompts and replies together; up to 4,096, also of each reply. --max-reply-tokens limits "
        "the replies alone.",
        min=0,
    ),
]
OtherLimits: TypeAlias = Annotated[
    list[str] | None,
    option(
        LIMITS,
        "NAME=N",
        "Any limit by its name: iterations, seconds, model_calls, tool_calls, tokens, cost, fan_out, depth, "
        "nested_runs, or a budget of the machine; none for no limit. May be repeated.",
        "--limit",
    ),
]
EarlyStopping: TypeAlias = Annotated[
    Literal["force", "generate"] | None,
    typer.Option(
        help="When a limit is used up: stop, or ask the model once more for an answer from the steps so far. Default: "
        "force.",
        rich_help_panel=LIMITS,
        show_default=False,
    ),
]
MemoryFile: TypeAlias = Annotated[
    Path | None,
    option(
        SAVED,
        "FILE",
        "The file of a conversation: the agent sees its earlier turns, and this one is added. Delete the file to "
        "forget it.",
    ),
]
CacheFile: TypeAlias = Annotated[
    Path | None,
    option(SAVED, "FILE", "A file of cached replies: an identical request to this model is not sent again."),
]

PrintJSON: TypeAlias = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON object per event; the result is the last.", rich_help_panel=OUTPUT),
]
Quiet: TypeAlias = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print only the answer, no trace.", rich_help_panel=OUTPUT)
]
RecordFile: TypeAlias = Annotated[
    Path | None,
    option(
        OUTPUT,
        "FILE",
        "Also write a trace of the run to this file during the run, for graphexec view and draw --run: the "
        "records of --json, gzipped if the name ends in .gz. A full disk does not end the run.",
    ),
]

_FORM = "write 'QUESTION => TOOL {\"ARGUMENT\": VALUE} => RESULT => ANSWER'"


def parse_examples(given: Sequence[str], tools: Sequence[AnyTool]) -> tuple[WorkedExample, ...]:
    """Return the worked examples of `--example`, whose calls are of these tools. Raises `UsageError`."""
    by_name = tools_by_name(tools)
    return tuple(_parse_example(one, by_name) for one in given)


def _parse_example(text: str, tools: Mapping[str, AnyTool]) -> WorkedExample:
    try:
        text = decode_argument(text)
    except typer.BadParameter as error:
        raise UsageError(f"--example: {error.message}") from None
    question, *parts = (part.strip() for part in text.split("=>"))
    if not question or not parts or not all(parts):
        raise UsageError(f"--example {text!r} is not a question with its solution; {_FORM}")
    # Any: JSON.
    calls: list[tuple[str, dict[str, Any], str]] = []
    while parts and (call := _parse_call(parts[0], tools)) is not None:
        tool, arguments = call
        result = parts[1] if len(parts) > 1 else _invent_result(tools[tool], arguments)
        calls.append((tool, arguments, result))
        parts = parts[2:]
    if len(parts) > 1:
        listed = ", ".join(tools) or "no tool"
        raise UsageError(
            f"--example {text!r} has the part {parts[0]!r}, which is not a call of a tool ({listed}); {_FORM}"
        )
    return WorkedExample(question, tuple(calls), parts[0] if parts else calls[-1][2])


def _invent_result(tool: AnyTool, arguments: Mapping[str, Any]) -> str:
    invented = replace(tool, examples=(ToolExample(arguments, "?"),))
    return synthesised_examples([invented])[0].answer


def add_examples(tools: Sequence[AnyTool], examples: Sequence[WorkedExample]) -> tuple[AnyTool, ...]:
    """Return the tools with the calls of the examples, for an agent that shows no worked examples.

    Raises `UsageError` for an example without a call.
    """
    for one in examples:
        if not one.calls:
            raise UsageError(
                f"--example {one.question!r} has no call, and only the structured agent shows such examples; add "
                "--agent structured"
            )
    given = {
        tool.name: tuple(
            ToolExample(arguments, one.question, result)
            for one in examples
            for name, arguments, result in one.calls
            if name == tool.name
        )
        for tool in tools
    }
    return tuple(replace(tool, examples=given[tool.name] or tool.examples) for tool in tools)


def _parse_call(part: str, tools: Mapping[str, AnyTool]) -> tuple[str, dict[str, Any]] | None:
    """Return the tool and its arguments, or `None` for a part that is not a call."""
    name, brace, rest = part.partition("{")
    tool = tools.get(name.strip())
    if tool is None:
        return None
    try:
        # Any: JSON.
        arguments: dict[str, Any] = json.loads(brace + rest) if brace else {}
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--example: the arguments of {tool.name} are not JSON ({error}); {_FORM}") from None
    known = tool.parameters.get("properties", {})
    for argument in arguments:
        if argument not in known:
            near = did_you_mean(argument, known, f"it has {', '.join(known) or 'none'}")
            raise UsageError(f"--example: {tool.name} has no argument {argument}; {near}")
    try:
        check_examples(replace(tool, examples=(ToolExample(arguments),)))
    except ToolDefinitionError as error:
        raise UsageError(f"--example: {str(error).removeprefix('example 1 of ')}") from error
    return tool.name, arguments
