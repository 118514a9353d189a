"""The advice in errors of the command line: options that exist, and nothing that only Python has."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import graphexec as gx
from graphexec.actions import Run, Steps
from graphexec.cli.commands import COMMANDS, app, load_command
from graphexec.cli.runs.advice import ADVICE, STARTS, advise, advise_on_cut_replies, advise_on_limit, replace_limit_code
from graphexec.errors import ModelConnectionError, ModelNotFoundError, WeightsError
from graphexec.executor.creation import ExecutorOptions
from graphexec.kernel.meters import Exhausted, Limits
from graphexec.messages import ModelReply, ToolCall
from graphexec.models import OpenAICompatible, ScriptedModel
from graphexec.models.local import weights
from graphexec.models.provider_names import is_own_server
from tests.cli.conversations import Reply, Response, Silence, native_tool_call, serving
from tests.cli.terminals import command
from tests.executor.actors import echo
from tests.parameters import cases

PACKAGE = Path(gx.__file__).parent


@dataclass(frozen=True)
class Case:
    """A command that fails: its arguments, what its server answers, and its environment."""

    arguments: tuple[str, ...]
    reply: Reply = ""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    code: int | None = None


def fails(*arguments: str, code: int = 2) -> Case:
    return Case(arguments, code=code)


def fails_with(variable: str, value: str, *arguments: str) -> Case:
    """A command that fails with a variable of the environment."""
    return Case(("run", "q", *arguments), environment={variable: value}, code=1)


def refused(status: int, body: Any = "", *options: str) -> Case:
    """A question that a server refuses."""
    asking = ("run", "q", "--model", "m", "--base-url", "{url}", "--agent", "tool_calling", "--retries", "0")
    return Case((*asking, *options), Response(status, body), code=1)


def error(message: str, **members: Any) -> dict[str, Any]:
    return {"error": {"message": message, **members}}


def stopped(*options: str) -> Case:
    """A run that calls a tool until a limit stops it."""
    return replace(refused(200, "", *options), reply=native_tool_call("today"), code=3)


NOWHERE = "http://127.0.0.1:9/v1"
TALK = ("run", "q", "--model", "m", "--base-url", NOWHERE, "--agent", "tool_calling")

CASES: dict[str, Case] = {
    # The model's name and address.
    "unknown model": fails("run", "q", "--model", "gtp-5"),
    "unknown provider": fails("run", "q", "--model", "opnai:gpt-5"),
    "model without name": fails("run", "q", "--model", "openai:"),
    "only a provider": fails("run", "q", "--model", "groq"),
    "local tag": fails("run", "q", "--model", "mistral:7b"),
    "bare llama": fails("run", "q", "--model", "llama3.2"),
    "unknown weights": fails("run", "q", "--model", "local:smolm"),
    "azure": fails("run", "q", "--model", "azure:gpt-5"),
    "bedrock": fails("run", "q", "--model", "bedrock:nova"),
    "vertex": fails("run", "q", "--model", "vertexai:gemini-2.5-pro"),
    "bedrock name": fails("run", "q", "--model", "us.anthropic.claude-sonnet-4-20250514-v1:0"),
    "address as model": fails("run", "q", "--model", "http://127.0.0.1/v1"),
    "empty model": fails("run", "q", "--model", ""),
    "slash": fails("run", "q", "--model", "openai/gpt-5-mini"),
    "address without scheme": fails("run", "q", "--model", "m", "--base-url", "127.0.0.1:9"),
    "address without model": fails("run", "q", "--base-url", "http://127.0.0.1:9/v1"),
    "no such weights file": fails("run", "q", "--gguf", "no.gguf"),
    "invalid weights file": fails("run", "q", "--gguf", "notes.txt", code=1),
    "two models": fails("run", "q", "--gguf", "notes.txt", "--model", "m"),
    "local retries": fails("run", "q", "--model", "local", "--retries", "1"),
    # Keys.
    "missing key": fails("run", "q", "--model", "openai:gpt-5-mini", code=1),
    "missing key of Anthropic": fails("run", "q", "--model", "anthropic:claude-sonnet-4-5", code=1),
    "missing key of Groq": fails("run", "q", "--model", "groq:llama-3.3-70b", code=1),
    "blank in key": fails_with("OPENAI_API_KEY", "a b", "--model", "gpt-5-mini"),
    "invalid address": fails_with("OPENAI_BASE_URL", "here", "--model", "m"),
    # Servers.
    "refused key": refused(401, error("Incorrect API key provided")),
    "forbidden": refused(403, error("no")),
    "unknown model at the server": refused(404, error("no such model", code="model_not_found")),
    "bad request": refused(400, error("temperature is too high")),
    "bad request with image": refused(400, error("bad"), "--image", "https://example.org/a.png"),
    "image refused": refused(400, error("images are not supported"), "--image", "https://example.org/a.png"),
    "too many requests": refused(429, error("slow down")),
    "no quota": refused(429, error("no quota", code="insufficient_quota")),
    "server failed": refused(500, error("oops")),
    "overflow": refused(400, error("maximum context length is 10 tokens", code="context_length_exceeded")),
    "redirect": refused(302, ""),
    "not JSON": refused(200, "<html>"),
    "no choices": refused(200, {"choices": []}),
    "error in reply": refused(200, error("broken")),
    "no connection": Case((*TALK, "--retries", "0"), code=1),
    "no connection to Ollama": fails_with("OLLAMA_BASE_URL", NOWHERE, "--model", "ollama:qwen3", "--retries", "0"),
    "timeout": replace(refused(0, "", "--timeout", "0.2"), reply=Silence()),
    # Limits.
    "iterations": stopped("--max-iterations", "1"),
    "no iterations": stopped("--max-iterations", "0"),
    "model calls": stopped("--max-model-calls", "1"),
    "tool calls": stopped("--max-tool-calls", "0"),
    "tokens": stopped("--max-tokens", "5"),
    "seconds": stopped("--max-seconds", "0"),
    "fan-out": stopped("--limit", "fan_out=0"),
    "negative limit": fails(*TALK, "--limit", "tokens=-1"),
    "fraction": fails(*TALK, "--limit", "iterations=1.5"),
    "infinite": fails(*TALK, "--limit", "seconds=inf"),
    "no limit": fails(*TALK, "--limit", "iterations=none"),
    "unknown limit": fails(*TALK, "--limit", "token=5"),
    "limit without value": fails(*TALK, "--limit", "tokens"),
    "cost of nothing": fails(*TALK, "--limit", "cost=0"),
    "cost without price": Case((*TALK, "--limit", "cost=1")),
    "set twice": fails(*TALK, "--limit", "tokens=5", "--max-tokens", "5"),
    # Settings of the agent.
    "examples": fails(*TALK, "--example", "q => a"),
    "example": fails("run", "q", "--agent", "structured", "--example", "q"),
    "memory of react": fails("run", "q", "--agent", "react", "--memory", "talk.jsonl"),
    "memory is a folder": fails(*TALK, "--memory", "."),
    "memory in no folder": fails(*TALK, "--memory", "no/talk.jsonl"),
    "memory has another name": fails(*TALK, "--memory", "x" * 300),
    "memory is not a conversation": fails(*TALK, "--memory", "notes.txt"),
    "cache in no folder": fails(*TALK, "--cache", "no/replies.db"),
    "cache in memory": fails(*TALK, "--cache", ":memory:"),
    "cache is not a database": fails(*TALK, "--cache", "notes.txt"),
    "image is not there": fails(*TALK, "--image", "no.png"),
    "image is text": fails(*TALK, "--image", "notes.txt"),
    "tools are not there": fails(*TALK, "--tools", "nowhere:tool"),
    "tools without object": fails(*TALK, "--tools", "mine:"),
    "tools with a comma": fails(*TALK, "--tools", "mine:a,mine:b"),
    "record in no folder": fails(*TALK, "--record", "no/trace.jsonl"),
    "certificate in no folder": fails(*TALK, "--certificate", "no/proof.json"),
    # Words.
    "no question": fails("run"),
    "empty question": fails("run", ""),
    "two words": fails("run", "two", "words"),
    "no such file": fails("run", "nowhere.py:executor", "q"),
    "no such executor": fails("run", "mine.py:executr", "q"),
    "not an executor": fails("run", "mine.py:number", "q"),
    "a graph": fails("run", "mine.py:machine", "q"),
    "option of the agent": fails("run", "mine.py:executor", "q", "--model", "m"),
    "input": fails("run", "q", "--input", "a=b"),
    # Options of other programs.
    **{f"option {name}": fails("run", "q", name, "x") for name in ("-m", "--provider", "--api-key", "--system-prompt")},
    **{f"option {name}": fails("run", "q", name, "x") for name in ("--prompt", "--tool", "--images", "--max-steps")},
    **{f"option {name}": fails("run", "q", name) for name in ("--stream", "--verbose")},
    # The other commands.
    "check nothing": fails("check", "nowhere"),
    "check a folder": fails("check", "."),
    "check with ignore": fails("check", "mine:machine", "--ignore", "GX027"),
    "check with own limits": fails("check", "mine:executor", "--max-iterations", "3"),
    "check with a wrong limit": fails("check", "mine:machine", "--limit", "tokens"),
    "check with a negative limit": fails("check", "mine:machine", "--limit", "tokens=-1"),
    "check two with a certificate": fails("check", "mine:machine", "mine:executor", "--certificate", "proof.json"),
    "draw nothing": fails("draw", "mine:nothing"),
    "draw to no suffix": fails("draw", "mine:machine", "-o", "machine"),
    "draw no run": fails("draw", "--run", "no.jsonl"),
    "view nothing": fails("view", "no.jsonl"),
    "view no trace": fails("view", "notes.txt"),
    "view twice": fails("view", "notes.txt", "--timeline", "--sequence"),
    "view a port": fails("view", "notes.txt", "--port", "80"),
    "view live stdin": fails("view", "-", "--live"),
    "audit nothing": fails("audit", "no.jsonl", "no.json"),
    "audit no trace": fails("audit", "notes.txt", "notes.txt"),
    "export nothing": fails("export", "mine:nothing", "--format", "tla"),
    "diff nothing": fails("diff", "mine:machine", "mine:nothing"),
    "pull nothing": fails("models", "pull", "smollm3", code=1),
    "unknown command": fails("ask", "q"),
    "unknown command of models": fails("models", "download"),
}

MINE = """
from graphexec import AgentExecutor, AgentFinish
from graphexec.executor import AGENT_EXECUTOR
executor = AgentExecutor(agent=lambda steps, inputs: AgentFinish({"output": "yes"}), tools=[])
machine = AGENT_EXECUTOR
number = 5
"""

OPTION = re.compile(r"(?<![\w-])--?[a-z][a-z-]*")
OF_COMMAND = re.compile(r"graphexec (\w+) ([^;]*)")
# Commands of other programs, with their options.
OTHERS = re.compile(r"\((?:pip|uv) [^)]*\)|\b(?:llama-server|ollama|pip|vllm|lms) [^,;]*")
PARAMETERS = {
    *inspect.signature(OpenAICompatible).parameters,
    *ExecutorOptions.__annotations__,
    *inspect.signature(Limits).parameters,
    "system_prompt",
    "allow_nonterminating",
}
# The names of limits are those of `--limit`, too.
NAMES = {name for name in PARAMETERS if "_" in name} - {"fan_out", "nested_runs", "tool_calling"}
PYTHON = re.compile(
    rf"\b({'|'.join(sorted(NAMES))})\b|\b[A-Za-z_]+\([^)]*=|\b\w+=(\.\.\.|\w+\()|\b(create_\w+|OpenAICompatible|Anthropic\("
    r"|LocalModel|AgentExecutor\(|Limits\(|FileHistory|SQLiteCache|MemoryCache|NoneType|graphexec\.\w+\()"
)


def options_of(arguments: tuple[str, ...]) -> set[str]:
    """Return the options of the command of these arguments."""
    first, *rest = arguments or ("",)
    found: Any = load_command(first) if first in COMMANDS else get_command(app)
    for word in rest:
        found = getattr(found, "commands", {}).get(word, found)
    return {name for parameter in found.params for name in (*parameter.opts, *parameter.secondary_opts)} | {
        "-h",
        "--help",
    }


def write_mine(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Go into a folder with a user's module."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    Path("mine.py").write_text(MINE, encoding="utf-8")


@cases("name", CASES)
def test_errors_name_options_of_their_command(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    write_mine(monkeypatch, tmp_path)
    Path("notes.txt").write_text("milk, eggs\n" * 9, encoding="utf-8")
    for variable in ("ANTHROPIC_API_KEY", "GROQ_API_KEY", "OLLAMA_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in case.environment.items():
        monkeypatch.setenv(variable, value)
    with serving([case.reply] * 9) as server:
        ended = command(*(one.replace("{url}", server.url) for one in case.arguments))
    printed = f"{ended.out}\n{ended.err}"
    assert ended.code == case.code or (case.code is None and ended.code), printed
    assert "graphexec: " in printed or "limit of" in printed
    assert "Traceback" not in printed
    advice = OTHERS.sub("", printed)
    typed = {*case.arguments, "-"}
    # Options of another command stand after its name.
    for of_command, rest in OF_COMMAND.findall(advice):
        assert set(OPTION.findall(rest)) - typed <= options_of((of_command,)), printed
    assert set(OPTION.findall(OF_COMMAND.sub("", advice))) - typed <= options_of(case.arguments), printed
    assert PYTHON.search(advice) is None, f"{PYTHON.search(advice)}: {printed}"


def test_replaced_remedies_are_those_of_the_library() -> None:
    """The remedy of an error that the library changes would be shown in Python."""
    sources = [re.sub(r'"\s*\n\s*f?"', "", path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")]
    sources = [text for text in sources if "ADVICE: Mapping" not in text]
    pieces = [piece for phrases in ADVICE.values() for piece, _ in phrases if "path " not in piece]
    assert [piece for piece in pieces if not any(piece in text for text in sources)] == []
    assert len(CASES) >= 100, "the table of errors is long"


@cases("provider", STARTS)
def test_servers_on_this_machine_are_started(provider: str) -> None:
    assert is_own_server(provider)
    text = "no connection to m (refused); is the server running at x? Start it, or change the base URL"
    advised = advise(ModelConnectionError(text), f"{provider}:qwen3")
    assert f"Start it with {STARTS[provider].replace('MODEL', 'qwen3')}, or" in str(advised)
    assert type(advised) is ModelConnectionError


@cases("own", [True, False])
def test_ollama_is_started_by_its_address(own: bool) -> None:
    text = "no connection to m at http://127.0.0.1:11434/v1 (refused); is the server running? Start it, or change it"
    assert "Start it with ollama serve, or" in str(advise(ModelConnectionError(text), "openai:m" if own else None))


def test_known_errors_get_advice_and_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    advised = advise(ModelNotFoundError("m was not found (404); check the model's name", status=404), "ollama:qwen3:4b")
    assert "; fetch it with ollama pull qwen3:4b, or see yours with ollama list, or check" in str(advised)
    assert advised.status == 404
    for untouched in (ValueError("pass the path of a GGUF file instead"), WeightsError("no net")):
        assert advise(untouched) is untouched
    own = WeightsError("no net; or pass the path of a GGUF file instead")
    assert advise(own, own=True) is own

    def pull(name: str) -> Path:
        raise WeightsError("no net; check it, or pass the path of a GGUF file instead")

    monkeypatch.setattr(weights, "pull", pull)
    ended = command("run", "q")
    assert (ended.code, ended.err) == (1, "graphexec: no net; check it, or name a GGUF file of your own with --gguf\n")


@cases(
    ("limit", "expected"),
    [
        (Exhausted("iterations", 15, 15), "allow more with --max-iterations 30"),
        (Exhausted("tokens", 50, 110), "allow more with --max-tokens 220"),
        (Exhausted("seconds", 0.3, 0.3012), "allow more with --max-seconds 0.6"),
        (Exhausted("tool_calls", 0, 0), "allow more with --max-tool-calls 15"),
        (Exhausted("cost", 0.5, 0.75), "allow more with --limit cost=1.5"),
        (Exhausted("revisions", 2, 2), "allow more with --limit revisions=4"),
    ],
)
def test_stopped_run_names_a_larger_limit(limit: Exhausted, expected: str) -> None:
    assert advise_on_limit(limit) == expected


@cases(
    ("make", "reply"),
    [
        (gx.create_structured_agent, ModelReply('{"action": "final_', finish_reason="length")),
        (gx.create_react_agent, ModelReply("Action: echo\nAction Input: a", finish_reason="length")),
        (gx.create_tool_calling_agent, ModelReply("", (ToolCall("1", "echo", '{"te'),), finish_reason="length")),
    ],
)
def test_cut_replies_need_longer_replies(make: Callable[..., gx.Agent], reply: ModelReply) -> None:
    agent = make(ScriptedModel([reply], repeat_last=True), [echo])
    ended = gx.AgentExecutor(agent=agent, tools=[echo], handle_parsing_errors=True, max_iterations=2).run("q").ending
    assert isinstance(ended, gx.StoppedResponse)
    assert (advise_on_cut_replies(ended) or "").startswith("allow longer replies with --max-reply-tokens")


def test_readable_replies_need_more_iterations() -> None:
    step = gx.AgentStep(gx.AgentAction("echo", "a"), "it was cut at the token limit")
    ended = gx.StoppedResponse("", Exhausted("iterations", 1, 1), Run({}, Steps([step])))
    assert advise_on_cut_replies(ended) is None


@cases(
    ("remedy", "expected"),
    [
        ("set max_execution_time, or Limits(seconds=30)", "set --limit seconds=30"),
        ("Set max_iterations, or Limits(iterations=...).", "set --limit iterations=N."),
        ("set Limits(iterations=...)", "set --limit iterations=N"),
        ("set max_tokens, or agent_limits(tokens=...)", "set --limit tokens=N"),
        ("set a limit on payments: Limits({PAYMENTS: 5})", "set a limit on payments: --limit payments=5"),
        ('Budget("n", 3), or Limits(budgets={"n": 3})', 'Budget("n", 3), or --limit n=3'),
        ("set Limits({PAYMENTS: 5}) or Limits(fan_out=5)", "set --limit payments=5 or --limit fan_out=5"),
        ("no bound; set max_iterations\n", "no bound; set --limit iterations=N\n"),
        ("no bound; set max_tool_calls or max_fan_out\n", "no bound; set --limit tool_calls=N\n"),
    ],
)
def test_remedies_for_graphs_are_options(remedy: str, expected: str) -> None:
    assert replace_limit_code(remedy) == expected


def test_check_names_options_for_graphs_and_python_for_executors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_mine(monkeypatch, tmp_path)
    ended = command("check", "mine:executor", "mine:machine")
    assert ended.code == 0
    of_executor, of_machine = ended.out.split("mine:machine  ")
    assert "set max_execution_time, or Limits(seconds=30)" in of_executor
    assert "no bound; set --limit seconds=30" in of_machine
    assert PYTHON.search(of_machine.replace("as_tool", "").partition("assuming")[0]) is None
    assert command("check", "mine:machine", "--limit", "seconds=30").code == 0
