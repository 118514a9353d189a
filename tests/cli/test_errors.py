"""The errors of the command line: their exit codes, one line each, and options that exist."""

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import graphexec as gx
from graphexec.cli.chat.display import TurnDisplay
from graphexec.cli.commands import COMMANDS, app, load_command
from graphexec.cli.runs.loop import RunProgress
from graphexec.cli.runs.trace import AnswerPrinter
from graphexec.models import ScriptedModel
from tests.cli.conversations import Reply, Response, Silence, native_tool_call, serving
from tests.cli.machines_of_mine import MACHINES, lay_out
from tests.cli.terminals import command
from tests.parameters import cases


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
    asking = ("run", "q", "--model", "m", "--base-url", "{url}", "--agent", "tool_calling", "--retries", "0")
    return Case((*asking, *options), Response(status, body), code=1)


def error(message: str, **members: Any) -> dict[str, Any]:
    return {"error": {"message": message, **members}}


NOWHERE = "http://127.0.0.1:9/v1"
TALK = ("run", "q", "--model", "m", "--base-url", NOWHERE, "--agent", "tool_calling")

MODELS = [
    *(
        "gtp-5",
        "opnai:gpt-5",
        "openai:",
        "groq",
        "mistral:7b",
        "llama3.2",
        "local:smolm",
        "azure:gpt-5",
        "bedrock:nova",
    ),
    *("vertexai:gemini-2.5-pro", "us.anthropic.claude-sonnet-4-20250514-v1:0", "http://127.0.0.1/v1", ""),
    "openai/gpt-5-mini",
]
# Options of a question to a server, with values that are refused.
OPTIONS = {
    "--limit": ["tokens=-1", "iterations=1.5", "seconds=inf", "iterations=none", "token=5", "tokens", "cost=0"],
    "--memory": [".", "no/talk.db", "x" * 300, "notes.txt"],
    "--image": ["no.png", "notes.txt"],
    "--tools": ["nowhere:tool", "mine:"],
    "--record": ["no/trace.jsonl"],
}
OF_OTHERS = [*("-m", "--provider", "--api-key", "--system-prompt", "--prompt", "--tool", "--images", "--max-steps")]
LIMITS = [
    *("--max-iterations=1", "--max-iterations=0", "--limit=model_calls=1", "--limit=tool_calls=0", "--limit=tokens=5"),
    *("--limit=seconds=0", "--limit=fan_out=0"),
]
IMAGE = ("--image", "https://example.org/a.png")

CASES: list[Case] = [
    # The model's name, its address and its weights.
    *(fails("run", "q", "--model", name) for name in MODELS),
    fails("run", "q", "--model", "m", "--base-url", "127.0.0.1:9"),
    fails("run", "q", "--base-url", NOWHERE),
    fails("run", "q", "--model", "local:notes.txt", code=1),
    fails("run", "q", "--model", "local", "--retries", "1"),
    # Keys.
    fails("run", "q", "--model", "openai:gpt-5-mini", code=1),
    fails("run", "q", "--model", "anthropic:claude-sonnet-4-5", code=1),
    fails("run", "q", "--model", "groq:llama-3.3-70b", code=1),
    fails_with("OPENAI_API_KEY", "a b", "--model", "gpt-5-mini"),
    fails_with("OPENAI_BASE_URL", "here", "--model", "m"),
    # Servers.
    refused(401, error("Incorrect API key provided")),
    refused(403, error("no")),
    refused(404, error("no such model", code="model_not_found")),
    refused(400, error("temperature is too high")),
    refused(400, error("bad"), *IMAGE),
    refused(400, error("images are not supported"), *IMAGE),
    refused(429, error("slow down")),
    refused(429, error("no quota", code="insufficient_quota")),
    refused(500, error("oops")),
    refused(400, error("maximum context length is 10 tokens", code="context_length_exceeded")),
    refused(302, ""),
    refused(200, "<html>"),
    refused(200, {"choices": []}),
    refused(200, error("broken")),
    Case((*TALK, "--retries", "0"), code=1),
    fails_with("OLLAMA_BASE_URL", NOWHERE, "--model", "ollama:qwen3", "--retries", "0"),
    replace(refused(0, "", "--timeout", "0.2"), reply=Silence()),
    # Limits, and settings of the agent.
    *(replace(refused(200, "", option), reply=native_tool_call("today"), code=3) for option in LIMITS),
    *(fails(*TALK, option, value) for option, values in OPTIONS.items() for value in values),
    Case((*TALK, "--limit", "cost=1")),
    fails(*TALK, "--limit", "tokens=5", "--limit", "tokens=6"),
    fails("run", "q", "--agent", "react", "--memory", "talk.db"),
    # Questions, targets, and options of other programs.
    *(fails("run", *words) for words in ([], [""], ["two", "words"], ["nowhere.py:executor", "q"])),
    fails("run", "mine.py:executor", "q", "--model", "m"),
    *(fails("run", f"mine.py:{name}", "q") for name in ("executr", "number", "machine")),
    fails("run", "q", "--input", "a=b"),
    *(fails("run", "q", name, "x") for name in OF_OTHERS),
    *(fails("run", "q", name) for name in ("--stream", "--verbose")),
    # The other commands.
    *(fails("check", target) for target in ("nowhere", ".")),
    fails("check", "mine:machine", "--ignore", "GX027"),
    fails("check", "mine:executor", "--max-iterations", "3"),
    *(fails("check", "mine:machine", "--limit", limit) for limit in ("tokens", "tokens=-1")),
    fails("check", "mine:machine", "mine:executor", "--certificate", "proof.json"),
    *(fails("draw", *words) for words in (["mine:nothing"], ["mine:machine", "-o", "machine"], ["--run", "no.jsonl"])),
    *(fails("view", *words) for words in (["no.jsonl"], ["notes.txt"], ["-", "--live"])),
    fails("view", "notes.txt", "--port", "80"),
    fails("export", "mine:nothing", "--format", "tla"),
    fails("models", "pull", "smollm3", code=1),
    fails("models", "download"),
    fails("ask", "q"),
]

MINE = f"{MACHINES}executor = Company.executor\n"

OPTION = re.compile(r"(?<![\w-])--?[a-z][a-z-]*")
OF_COMMAND = re.compile(r"graphexec (\w+) ([^;]*)")
# Commands of other programs, with their options.
OTHERS = re.compile(r"\((?:pip|uv) [^)]*\)|\b(?:llama-server|ollama|pip|vllm|lms) [^,;]*")


def options_of(arguments: tuple[str, ...]) -> set[str]:
    first, *rest = arguments or ("",)
    found: Any = load_command(first) if first in COMMANDS else get_command(app)
    for word in rest:
        found = getattr(found, "commands", {}).get(word, found)
    return {"-h", "--help"}.union(*((*one.opts, *one.secondary_opts) for one in found.params))


@pytest.mark.medium
@cases("case", *CASES)
def test_errors_name_options_of_their_command(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out(tmp_path, monkeypatch, {"mine": MINE})
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


@cases(
    ("limit", "typed"),
    (gx.Exhausted("iterations", 15, 15), "iterations=30"),
    (gx.Exhausted("tokens", 50, 110), "tokens=220"),
    (gx.Exhausted("seconds", 0.3, 0.3012), "seconds=0.6"),
    (gx.Exhausted("tool_calls", 0, 0), "tool_calls=1"),
    (gx.Exhausted("cost", 0.5, 0.75), "cost=1.5"),
    (gx.Exhausted("revisions", 2, 2), "revisions=4"),
)
def test_stopped_run_names_a_larger_limit(limit: gx.Exhausted, typed: str) -> None:
    executor = gx.AgentExecutor(agent=gx.create_react_agent(ScriptedModel([]), []), tools=[])
    for display, advice in (
        (AnswerPrinter(out := io.StringIO(), err := io.StringIO()), f"--limit {typed}"),
        (TurnDisplay(executor, out, err), f"/limits {typed}"),
    ):
        display.on_end(RunProgress(ending=gx.StoppedResponse("", limit)))
        assert err.getvalue().endswith(f"; allow more with {advice}\n")
    assert out.getvalue() == ""
