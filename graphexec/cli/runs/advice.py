"""Advice for the command line: what to write there where an error of the library says what to do in Python.

The errors of the library have the form `<subject>: <fact>; <remedy>`. A remedy that names an argument, a function or a
class of Python is replaced by that of the command line, by the class of the error.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

from graphexec.actions import StoppedResponse
from graphexec.errors import (
    BadRequestError,
    ContextOverflowError,
    GraphexecError,
    InputError,
    MissingAPIKeyError,
    ModelConnectionError,
    ModelNotFoundError,
    ModelTimeoutError,
    RateLimitError,
    ReplyLimitError,
    ThreadLimitError,
    WeightsError,
)
from graphexec.kernel.meters import Exhausted

E = TypeVar("E", bound=BaseException)

# What an error says in Python or for both, and what to write on the command line, by the class of the error.
ADVICE: Mapping[type[GraphexecError], Sequence[tuple[str, str]]] = {
    ModelTimeoutError: [
        (
            "allow a longer timeout, or ask for a shorter reply",
            "allow a longer one with --timeout 300, or ask for a shorter reply with --max-reply-tokens 500",
        ),
    ],
    MissingAPIKeyError: [
        (
            "or to any word if the server needs none",
            "or to any word if the server needs none; a model on this machine, as with --model local, needs no key",
        ),
    ],
    ContextOverflowError: [
        (
            "shorten it, or use a model with a longer context",
            "shorten it, show fewer steps with --trim 3, or name a model with a longer context with --model",
        ),
    ],
    RateLimitError: [("or ask less often", "allow more attempts with --retries 5, or ask less often")],
    BadRequestError: [
        (
            "use a model that can, such as OpenAICompatible with the address of llama-server --mmproj, or leave the "
            "images out",
            "name a model that can with --model, or leave out --image",
        ),
        ("use a model that accepts such images, or leave them out", "name another with --model, or leave out --image"),
        ("or leave out the images if the model cannot see", "or leave out --image if the model cannot see"),
        ("use the structured agent, or give a chat template that supports tools", "add --agent structured"),
    ],
    ReplyLimitError: [
        ("or pass reply_limits=ReplyLimits(...) with a higher limit", "or name another model with --model"),
    ],
    ThreadLimitError: [
        ("run fewer calls at once (tool_concurrency=8, for example)", "allow fewer with --max-tool-calls 8"),
    ],
    WeightsError: [
        ("or pass the path of a GGUF file instead", "or name a GGUF file of your own with --gguf"),
        ("or the path of a GGUF file", "or a GGUF file of your own, with run --gguf"),
        ("convert it, or pass another file", "convert it, or name another file"),
        ("check the file, and the context and the chat template if you set them", "check the file"),
    ],
    InputError: [
        ("FileHistory's path ", "--memory "),
        (
            "SQLiteCache needs a file, but path is ':memory:'; use MemoryCache() for memory",
            "--cache needs a file; name one",
        ),
    ],
}

# How to start the servers on this machine, and how they get a model, by provider.
STARTS: Mapping[str, str] = {
    "ollama": "ollama serve",
    "lmstudio": "lms server start",
    "vllm": "vllm serve MODEL",
    "llamacpp": "llama-server -m FILE.gguf",
}
# The ports that only these servers use.
_PORTS: Mapping[str, str] = {"ollama": "127.0.0.1:11434", "lmstudio": "127.0.0.1:1234"}
_FETCHES: Mapping[str, str] = {"ollama": "fetch it with ollama pull {}, or see yours with ollama list"}


def advise(error: E, full_name: str | None = None, *, own: bool = False) -> E:
    """Return a copy of the error that says what to write on the command line, or the error itself.

    `full_name` is the model as `--model` names it, such as `ollama:qwen3`. The settings of the user's `own` executor
    are Python, and so is the advice on them. Only errors of the library change.
    """
    if not isinstance(error, GraphexecError):
        return error
    text = before = str(error)
    for kind, phrases in () if own else ADVICE.items():
        if isinstance(error, kind):
            for remedy, advised in phrases:
                text = text.replace(remedy, advised)
    text = _advise_on_server(error, text, full_name or "")
    if text == before:
        return error
    advised_error = copy.copy(error)
    advised_error.args = (text,)
    advised_error.__cause__, advised_error.__context__ = error.__cause__, error.__context__
    advised_error.__traceback__ = error.__traceback__
    return advised_error


# The limits with an option of their own, and what to allow instead of nothing.
LIMIT_OPTIONS: Mapping[str, int] = {
    "iterations": 15,
    "seconds": 60,
    "model_calls": 15,
    "tool_calls": 15,
    "tokens": 10_000,
}


def suggest_amount(reached: Exhausted) -> str:
    """Return what to allow a run instead of the limit that stopped it: twice as much."""
    # Tokens are counted after a call, so more than the limit may be spent. Seconds are not whole.
    more = 2 * (reached.value if reached.limit == "seconds" else max(reached.value, reached.reached))
    return f"{more or LIMIT_OPTIONS.get(reached.limit, 1):.12g}"


def advise_on_limit(reached: Exhausted) -> str:
    """Return the option that allows a run more than the limit that stopped it."""
    more = suggest_amount(reached)
    if reached.limit not in LIMIT_OPTIONS:
        return f"allow more with --limit {reached.limit}={more}"
    return f"allow more with --max-{reached.limit.replace('_', '-')} {more}"


def advise_on_cut_replies(stopped: StoppedResponse) -> str | None:
    """Return the option for longer replies, if each was cut at the token limit: more iterations would not help."""
    # The agents say so in the observations of such replies.
    if stopped.steps and all(
        step.status == "parse_error" and "cut at the token limit" in str(step.observation) for step in stopped.steps
    ):
        return "allow longer replies with --max-reply-tokens, or with max_tokens for a model of your own"
    return None


# The code that sets a limit, in the remedies of findings and reports, and the options of an executor for it.
_OPTION_OF_EXECUTORS = re.compile(r"\bset max_\w+, or (?=(?:agent_)?Limits|agent_limits)", re.IGNORECASE)
_LIMIT_IN_PYTHON = re.compile(
    r"\b(?:agent_limits|Limits)\((?:budgets=)?\{?\"?(?P<name>\w+)\"?(?:=|: )(?P<value>\d+|\.\.\.)\}?\)"
)
_MISSING_BOUND = re.compile(r"\bset max_(iterations|model_calls|tool_calls)(?: or max_fan_out)?$", re.MULTILINE)


def replace_limit_code(report: str) -> str:
    """Return a report on a graph with the options of the command line in place of code that sets limits."""

    def option_of(found: re.Match[str]) -> str:
        value = found["value"]
        return f"--limit {found['name'].lower()}={'N' if value == '...' else value}"

    report = _OPTION_OF_EXECUTORS.sub("set ", report)
    report = _MISSING_BOUND.sub(lambda found: f"set --limit {found[1]}=N", report)
    return _LIMIT_IN_PYTHON.sub(option_of, report)


def _advise_on_server(error: GraphexecError, text: str, full_name: str) -> str:
    """Return the message with how to start a server on this machine, or to fetch its model."""
    provider, _, model = full_name.partition(":")
    provider = next((one for one, port in _PORTS.items() if f"{port}/v1 (" in text), provider)
    if isinstance(error, ModelConnectionError) and provider in STARTS:
        return text.replace("Start it,", f"Start it with {STARTS[provider].replace('MODEL', model)},")
    if isinstance(error, ModelNotFoundError) and provider in _FETCHES:
        return text.replace("; check", f"; {_FETCHES[provider].format(model)}, or check", 1)
    return text
