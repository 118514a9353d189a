"""The options that select an executor and its limits, for every command that runs one."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_type_hints

import typer

from graphexec.cli.exit_codes import option
from graphexec.executor.options import AgentKind

MODEL, LIMITS, SAVED, OUTPUT = "Model and tools", "Limits", "Saved between runs", "Output"


def decode_argument(text: str) -> str:
    """Return an argument as UTF-8, in any locale. Raises `typer.BadParameter` for bytes that are not UTF-8."""
    try:
        # Python keeps the bytes that the locale cannot decode as lone surrogates.
        return os.fsencode(text).decode() if any("\udc80" <= one <= "\udcff" for one in text) else text
    except UnicodeError:
        raise typer.BadParameter("it is not UTF-8; write it in UTF-8, or write ASCII") from None


def decode_optional(text: str | None) -> str | None:
    """Return an argument that may be left out as `decode_argument` does."""
    return None if text is None else decode_argument(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """The options of the command line that select an executor and its limits; one that was left out is `None`.

    `target` is an executor of the user. The other fields have the names of their options.
    """

    target: str | None = None
    model: Annotated[
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
    ] = None
    base_url: Annotated[
        str | None,
        option(
            MODEL,
            "URL",
            "The address of an OpenAI-compatible server, such as http://127.0.0.1:8080/v1. Default: OPENAI_BASE_URL, "
            "else OpenAI's server. The key is read from OPENAI_API_KEY, or from the variable of the named provider, "
            "such as ANTHROPIC_API_KEY.",
        ),
    ] = None
    retries: Annotated[
        int | None, option(MODEL, "N", "Retries of a failed request to a server. Default: 2.", min=0)
    ] = None
    agent: Annotated[
        AgentKind | None,
        option(
            MODEL,
            "NAME",
            "The kind of agent: structured, tool_calling or react. Default: tool_calling for a model that is known to "
            "call tools, else structured.",
        ),
    ] = None
    system: Annotated[
        str | None,
        option(
            MODEL,
            "TEXT",
            "Instructions for the model, such as 'Answer in one sentence.' They replace those of the tool_calling "
            "agent, and stand before those of the structured and the react agent.",
            callback=decode_optional,
        ),
    ] = None
    temperature: Annotated[
        float | None,
        option(
            MODEL,
            "NUMBER",
            "Randomness of the replies: 0 for the likeliest, up to 1 or 2. Default: the server's.",
        ),
    ] = None
    timeout: Annotated[
        float | None,
        option(
            MODEL,
            "SECONDS",
            "Seconds for one call of the model. Default: 600, and 300 for a local model. --limit seconds=N limits "
            "the run.",
        ),
    ] = None
    max_reply_tokens: Annotated[
        int | None, option(MODEL, "N", "Tokens of one reply. Default: the server's, and 256 for a local model.", min=1)
    ] = None
    tools: Annotated[
        list[str] | None,
        option(
            MODEL,
            "MODULE:OBJECT",
            "A tool or a list of tools, as module:object or file.py:object, instead of the built-in ones (calculator "
            "and today). An object may be a function with annotations and a docstring; a module or a file "
            "alone means all its tools. The file is imported, and so run. May be repeated.",
        ),
    ] = None
    mcp: Annotated[
        list[str] | None,
        option(
            MODEL,
            "SERVER",
            "An MCP server, whose tools are used beside those of --tools or of your own executor, and instead of the "
            "built-in ones: a command in quotes, such as 'npx -y @modelcontextprotocol/server-everything', an https:// "
            "address, or the mcp.json of Claude, Cursor or VS Code. The command is run. May be repeated.",
        ),
    ] = None
    yes: Annotated[
        bool | None,
        option(
            MODEL,
            None,
            "Call tools of MCP servers that may destroy something without asking. Without it they are asked about on "
            "a terminal, and elsewhere not called.",
            "--yes",
        ),
    ] = None
    max_iterations: Annotated[
        int | None,
        option(LIMITS, "N", "Iterations: decisions of the agent. Default: 15, or the executor's own.", min=0),
    ] = None
    limit: Annotated[
        list[str] | None,
        option(
            LIMITS,
            "NAME=N",
            "A limit of the run by its name: seconds, model_calls, tool_calls, tokens, cost, fan_out, depth, "
            "nested_runs, or a meter of the machine; none for no limit. May be repeated.",
        ),
    ] = None
    early_stopping: Annotated[
        Literal["force", "generate"] | None,
        option(
            LIMITS,
            None,
            "When a limit is used up: stop, or ask the model once more for an answer from the steps so far. Default: "
            "force.",
        ),
    ] = None
    memory: Annotated[
        Path | None,
        option(
            SAVED,
            "FILE",
            "The file of a conversation, an SQLite database: the agent sees its earlier turns, and this one is added. "
            "Delete the file to forget it.",
        ),
    ] = None


# Any: the signature is that of the command line.
def with_agent_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the options of `AgentOptions`, which it receives as `options`, without a target."""
    hints = get_type_hints(AgentOptions, include_extras=True)
    shared = [
        inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=hints[one.name])
        for one in fields(AgentOptions)
        if one.name != "target"
    ]
    own = [one for one in inspect.signature(command, eval_str=True).parameters.values() if one.name != "options"]

    @functools.wraps(command)
    def wrapper(**arguments: Any) -> None:
        options = AgentOptions(**{one.name: arguments.pop(one.name) for one in shared})
        command(options=options, **arguments)

    first = [one for one in own if one.kind is not inspect.Parameter.KEYWORD_ONLY]
    last = [one for one in own if one.kind is inspect.Parameter.KEYWORD_ONLY]
    wrapper.__dict__["__signature__"] = inspect.Signature([*first, *shared, *last])
    return wrapper


OwnExecutor: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        metavar="TARGET",
        help="An executor of your own, as my_agent.py:executor or package.module:executor, or a function without "
        "parameters that makes one. The file is imported, and so run. Default: the built-in agent.",
        show_default=False,
    ),
]
NamedInputs: TypeAlias = Annotated[
    list[str] | None,
    option(MODEL, "NAME=TEXT", "An input of your own executor that is not the question. May be repeated.", "--input"),
]
Otel: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--otel",
        help="Send spans and metrics to the OpenTelemetry collector at OTEL_EXPORTER_OTLP_ENDPOINT. Default: "
        "http://localhost:4318. Needs the extra otlp.",
        rich_help_panel=OUTPUT,
    ),
]
