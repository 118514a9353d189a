"""`graphexec run`: agents, memory, cache, images, stopped runs, and the settings and the model of an agent."""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from graphexec import memory, models
from graphexec.cli.runs.building import build_executor
from graphexec.cli.runs.options import CONVERSATION, make_agent
from graphexec.cli.runs.parameters import AgentOptions
from graphexec.executor.options import AgentKind
from graphexec.models.provider_names import PROVIDERS
from graphexec.tools import AnyTool
from graphexec.tools.everyday import EVERYDAY_TOOLS
from tests.cli import conversations as talk
from tests.cli.conversations import Reply, answer_text, native_tool_call, serving, tool_call_text
from tests.cli.terminals import Ended, command, refused
from tests.cli.test_run import NATIVE, QUESTION, asking, run
from tests.executor.actors import echo
from tests.models.pictures import PNG
from tests.parameters import cases

# The replies of a model to each agent: a call of the calculator, and an answer.
SAYS: dict[str, tuple[Reply, Reply]] = {
    "structured": (tool_call_text("calculator", expression="37 * 48"), answer_text("It is 1776.")),
    "tool_calling": (native_tool_call("calculator", expression="37 * 48"), "It is 1776."),
    "react": ("Action: calculator\nAction Input: 37 * 48", "Final Answer: It is 1776."),
}
REMEMBERING = ["tool_calling", "structured"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "sk-1234")
    (tmp_path / "notes.txt").write_text("milk, eggs\n" * 100, encoding="utf-8")
    (tmp_path / "dot.png").write_bytes(PNG)
    monkeypatch.chdir(tmp_path)


def last_prompt(server: talk.Conversation) -> str:
    return json.dumps(server.asked[-1]["messages"])


@pytest.mark.medium
@cases("agent", *get_args(AgentKind))
def test_every_agent_calls_a_tool_and_answers(agent: str) -> None:
    ended = run(SAYS[agent], "--agent", agent)
    assert (ended.code, ended.out) == (0, "It is 1776.\n"), ended.err
    assert f"{agent} agent" in ended.err
    assert "1 tool call" in ended.err


@pytest.mark.medium
@pytest.mark.parametrize("agent", REMEMBERING)
def test_memory_continues_a_conversation(agent: str) -> None:
    _, answer = SAYS[agent]
    with serving([answer, answer]) as server:
        for question in ("I am Ada.", "Who am I?"):
            assert command(*asking(server, "--agent", agent, "--memory", "talk.db", question=question)).code == 0
    places = [last_prompt(server).index(text) for text in ("I am Ada.", "It is 1776.", "Who am I?")]
    assert places == sorted(places)
    turns = memory.SQLiteHistory("talk.db", conversation=CONVERSATION).turns()
    assert [turn.input for turn in turns] == ["I am Ada.", "Who am I?"]


@pytest.mark.medium
def test_prompt_lacks_other_runs() -> None:
    answer = SAYS["tool_calling"][1]
    with serving([answer, answer]) as server:
        for question in ("I am Ada.", "Who am I?"):
            command(*asking(server, *NATIVE, question=question))
    assert "I am Ada." not in last_prompt(server)


@pytest.mark.medium
@cases(("options", "code"), ([], 0), (["--retries", "1"], 1), (["--retries", "0"], 1))
def test_retries_option_limits_requests(options: list[str], code: int) -> None:
    with serving([talk.REFUSAL, talk.REFUSAL, "It is 1776."]) as server:
        ended = command(*asking(server, *NATIVE, *options))
    assert (ended.code, len(server.asked)) == (code, int(options[-1]) + 1 if options else 3)


LAST_WORD = ("--max-iterations", "1", "--early-stopping", "generate")


def test_stopped_run_may_generate_an_answer() -> None:
    ended = run([SAYS["tool_calling"][0], "About 1,800."], *NATIVE, *LAST_WORD)
    assert (ended.code, ended.out) == (3, "About 1,800.\n")
    assert "the limit of 1 iteration was reached (1 spent); allow more with --limit iterations=2" in ended.err
    assert "2 model calls" in ended.err


@cases(
    ("options", "expected"),
    (["--agent", "react", "--memory", "talk.db"], "--memory is not for the react agent, whose prompt has no"),
    (["--memory", "nowhere/talk.db"], "nowhere/talk.db is in no directory that exists; create "),
    (["--memory", "."], "is not a regular file; name a file on a disk"),
    (["--memory", "x" * 300], "cannot be used: File name too long; name another file"),
    (["--memory", "notes.txt"], "notes.txt is not an SQLite database: file is not a database; repair it"),
    (["--retries", "-1"], "Invalid value for '--retries': "),
    (["--early-stopping", "hope"], "'--early-stopping': 'hope' is not one of 'force', 'generate'"),
)
def test_wrong_usage_asks_and_downloads_nothing(pulled: list[str], options: list[str], expected: str) -> None:
    with serving([]) as server:
        assert expected in refused(*asking(server, *NATIVE, *options))
    refused("run", QUESTION, *options)
    assert (server.asked, pulled) == ([], [])


@cases("local", ["--model", "local:small.gguf"], [])
def test_local_model_refuses_retries(local: list[str]) -> None:
    error = refused("run", QUESTION, *local, "--retries", "1")
    assert "--retries applies to a server, and this model is local; leave it out" in error


def test_model_is_downloaded_after_the_files_are_opened(pulled: list[str]) -> None:
    ended = command("run", QUESTION, "--memory", "talk.db")
    assert ended == Ended(1, "", "graphexec: there is no net\n")
    assert pulled == ["smollm2-135m-instruct"]


def fail_to_add(_: memory.SQLiteHistory, __: memory.Turn) -> None:
    raise OSError(28, "No space left on device")


FULL = "OSError: [Errno 28] No space left on device"
PLACE = f"({Path(__file__).name}, line {fail_to_add.__code__.co_firstlineno + 1})"
UNSAVED = f"graphexec: the memory was not saved: {FULL} {PLACE}\n"


def run_unsaved(*options: str) -> Ended:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory.SQLiteHistory, "add", fail_to_add)
        ended = run([SAYS["tool_calling"][0], "It is 1776."], *NATIVE, "--memory", "talk.db", *options)
    assert ended.code == 1
    return ended


@cases(("limited", "reason"), ((), "finished"), (LAST_WORD, "iterations"))
def test_result_is_recorded_if_saving_memory_fails(limited: tuple[str, ...], reason: str) -> None:
    result = json.loads(run_unsaved("--json", *limited).out.splitlines()[-1])
    assert (result["status"], result["output"], result["reason"]) == ("error", "It is 1776.", reason)
    assert (result["error"]["type"], result["error"]["message"]) == ("OSError", FULL)
    assert "in fail_to_add" in result["error"]["traceback"]
    assert (len(result["steps"]), result["spent"]["model_calls"]) == (1, 2)


@pytest.mark.medium
@cases("options", [], ["--quiet"])
@cases("limited", (), LAST_WORD)
def test_answer_is_printed_if_saving_memory_fails(options: list[str], limited: tuple[str, ...]) -> None:
    ended = run_unsaved(*options, *limited)
    assert ended.out == "It is 1776.\n"
    assert UNSAVED in ended.err
    if options:
        assert ended.err == UNSAVED or limited
    else:
        assert "\n\n\n" not in ended.err
        assert ended.err.endswith(f"{UNSAVED}{ended.err.splitlines()[-1]}\n")
        assert "2 model calls · 1 tool call" in ended.err


def test_ctrl_c_during_save_keeps_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def add(_: memory.SQLiteHistory, __: memory.Turn) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(memory.SQLiteHistory, "add", add)
    ended = run(SAYS["tool_calling"][1:], *NATIVE, "--memory", "talk.db")
    assert (ended.code, ended.out) == (130, "It is 1776.\n")
    assert "Interrupted at save_memory, after 0 steps" in ended.err


@pytest.mark.medium
@cases("agent", *SAYS)
def test_every_agent_answers_instead_of_a_repeat(agent: str) -> None:
    called, answer = SAYS[agent]
    ended = run([called, called, answer], "--agent", agent)
    assert (ended.code, ended.out) == (0, "It is 1776.\n")
    assert "3 model calls · 1 tool call" in ended.err


@cases("tools", [echo], [*EVERYDAY_TOOLS, echo])
def test_tools_of_the_user_have_examples(tools: list[AnyTool]) -> None:
    agent = make_agent("structured", models.ScriptedModel([]), tools)
    assert "The lantern is green" in agent.dummies
    # Those of everyday have their own.
    agent = make_agent("structured", models.ScriptedModel([]), EVERYDAY_TOOLS[:1])
    assert agent.dummies == ("317 * 46", "17 * 43", "638 * 47")
    assert agent.rules == ("no_dummies", "no_repeats")


# ---- images


ASK = ("run", "What is it?", "--model", "small", "--agent", "tool_calling")


def test_images_are_sent_with_the_question() -> None:
    with serving(["A dot."]) as server:
        images = ("--image", "dot.png", "--image", "https://pictures.example/a.png")
        ended = command(*ASK, "--base-url", server.url, *images)
    assert (ended.code, ended.out) == (0, "A dot.\n")
    sent = json.dumps(server.asked[0]["messages"][-1])
    assert "data:image/png;base64," in sent
    assert "https://pictures.example/a.png" in sent
    assert "What is it?" in sent


@cases(
    ("image", "fact"),
    ("dog.png", "No such file or directory; --image takes a file or an https:// address"),
    (".", "Is a directory; --image takes a file"),
    ("notes.txt", "it is not an image; --image takes a file of PNG, JPEG, GIF or WebP"),
    ("ftp://pictures.example/a.png", "it is not an image; --image takes a file"),
    *((name, "it is not a regular file; --image takes a file") for name in ("pipe", "/dev/zero")),
    ("large.png", "it has more than 100,000,000 bytes; --image takes a file"),
)
def test_wrong_image_is_wrong_usage(image: str, fact: str) -> None:
    Path("pipe").unlink(missing_ok=True)
    os.mkfifo("pipe")
    Path("large.png").write_bytes(PNG)
    os.truncate("large.png", 1 << 30)
    with serving([]) as server:
        error = refused(*ASK, "--base-url", server.url, "--image", image)
    assert (f"{image} cannot be used: {fact}" in error, server.asked) == (True, [])


def test_help_names_every_provider() -> None:
    words = re.split(r"[\s,.]+", get_type_hints(AgentOptions, include_extras=True)["model"].__metadata__[0].help)
    assert set(PROVIDERS) <= set(words)


# ---- the settings and the model of the built-in agent


def ask(replies: Sequence[Reply], *options: str, agent: str = "tool_calling") -> tuple[Ended, dict[str, Any]]:
    """Ask a model with these replies; return the end and the last request."""
    with serving(replies) as server:
        ended = command("run", "q", "--model", "m", "--base-url", server.url, "--agent", agent, *options)
    # A request that times out at once may not have come.
    return ended, (server.asked or [{}])[-1]


def test_settings_of_the_model_are_sent() -> None:
    ended, body = ask(["yes"], "--temperature", "0.25", "--max-reply-tokens", "77", "--system", "Be {brief}.")
    assert (ended.code, ended.out) == (0, "yes\n"), ended.err
    assert (body["temperature"], 77 in (body.get("max_tokens"), body.get("max_completion_tokens"))) == (0.25, True)
    assert body["messages"][0] == {"role": "system", "content": "Be {brief}."}
    ended, _ = ask([talk.Silence()], "--timeout", "0.2", "--retries", "0")
    assert (ended.code, ended.out) == (1, "")
    assert "did not answer within 0.2 s" in ended.err
    assert "allow a longer timeout" in ended.err


@cases("agent", *SAYS)
def test_every_agent_follows_the_system_text(agent: str) -> None:
    ended, body = ask(SAYS[agent][1:], "--system", 'Speak {"like"} a pirate.', agent=agent)
    assert (ended.code, ended.out) == (0, "It is 1776.\n"), ended.err
    assert 'Speak {"like"} a pirate.' in " ".join(message["content"] for message in body["messages"])


# A name of a model, and a part of the error.
WRONG_NAMES = [
    ("opnai:gpt-5", "model is 'opnai:gpt-5', without a known provider; put a provider first, as in 'openai:gpt-5"),
    ("mine", "the providers are openai, openai-responses, "),
    ("mistral:7b", "model is 'mistral:7b', and 7b looks like the tag of a local model; write 'ollama:mistral:7b'"),
    ("http://127.0.0.1:8080/v1", "model is an address; give the name of the model"),
    ("openai:", "model is 'openai:', without a model; write 'openai:<model>'"),
    ("azure:gpt-5", "model is 'azure:gpt-5', and azure needs an address of its own; write "),
    ("local:other", "model is 'local:other', which is neither known weights nor a GGUF file"),
]


@cases(
    ("options", "expected"),
    (["--temperature", "-1"], "temperature=-1.0; give a number, 0 or more"),
    (["--temperature", "nan"], "temperature=nan; give a number, 0 or more"),
    (["--timeout", "0"], "timeout=0.0; give seconds above 0"),
    (["--timeout", "inf"], "timeout=inf; give seconds above 0"),
    (["--max-reply-tokens", "0"], "Invalid value for '--max-reply-tokens': "),
    (["--limit", "tokens"], "--limit tokens has no value; write --limit NAME=N, such as tool_calls=20"),
    (["--limit", "tokens=many"], "the limit tokens is 'many'; pass a number, or none for no limit"),
    (["--limit", "tokens=-1"], "tokens is -1"),
    (["--limit", "iterations=1.5"], "iterations is 1.5"),
    (["--limit", "tokns=5"], "tokns is not a limit of this machine; did you mean tokens?"),
    (["--limit", "cost=0"], "the limit cost is 0"),
    (["--limit", "iterations=none"], "with --limit iterations=none, a run may not end; set a limit, such as --max"),
    *((["--model", name], says) for name, says in WRONG_NAMES),
    (["--model", " "], "model is '', without a known provider; put a provider first"),
)
def test_invalid_settings_name_the_option(options: list[str], expected: str) -> None:
    own_model = options[0] == "--model"
    model = () if own_model else ("--model", "m", "--base-url", "http://127.0.0.1:9/v1")
    kind = () if own_model else ("--agent", "tool_calling")
    assert expected in refused("run", "q", *model, *kind, *options)


@cases("provider", *[one for one in PROVIDERS if one != "local"])
def test_every_provider_takes_the_settings(provider: str) -> None:
    options = AgentOptions(model=f"{provider}:some", temperature=0.5, timeout=9.0, max_reply_tokens=50, system="Hi")
    assert build_executor(options).model == f"{provider}:some"


def test_local_models_take_the_settings(tmp_path: Path) -> None:
    file = tmp_path / "my.gguf"
    file.touch()
    for options in (
        AgentOptions(model=f"local:{file}", temperature=0.5, timeout=9.0),
        AgentOptions(max_reply_tokens=50),
    ):
        assert build_executor(options).executor.agent.model is not None


# ---- the name of the model


# The options of a server at a variable's address, and the agent that is taken.
NAMED = [
    ("openai:gpt-5-mini", "OPENAI_BASE_URL", "tool_calling"),
    ("openai:somebody-elses", "OPENAI_BASE_URL", "structured"),
    ("groq:llama-3.3-70b-versatile", "GROQ_BASE_URL", "tool_calling"),
    ("ollama:qwen3:8b", "OLLAMA_BASE_URL", "tool_calling"),
    ("ollama:qwen3:0.6b", "OLLAMA_BASE_URL", "structured"),
    # Names without a provider are the server's.
    ("small", "OPENAI_BASE_URL", "structured"),
    ("llama3.2:3b", "OPENAI_BASE_URL", "structured"),
    ("mistral:7b", "OPENAI_BASE_URL", "structured"),
]


@cases(("name", "variable", "agent"), *NAMED)
def test_name_chooses_server_and_agent(monkeypatch: pytest.MonkeyPatch, name: str, variable: str, agent: str) -> None:
    with serving(SAYS[agent]) as server:
        monkeypatch.setenv(variable, server.url)
        ended = command("run", QUESTION, "--model", name)
    assert (ended.code, ended.out) == (0, "It is 1776.\n")
    begin = re.escape(name) + r"(?: at 127\.0\.0\.1:\d+)?"
    assert re.match(f"{begin} · {agent} agent · calculator, today\n", ended.err)
    named = variable != "OPENAI_BASE_URL" or name.startswith("openai:")
    assert server.asked[0]["model"] == (name.partition(":")[2] if named else name)


def test_provider_has_an_address_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mistral:7b", "qwen3:0.6b", "claude-like"):
        with serving(SAYS["structured"]) as server:
            ended = command("run", QUESTION, "--model", name, "--base-url", server.url)
            assert (ended.code, server.asked[0]["model"]) == (0, name)
    with serving(SAYS["structured"]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("GROQ_BASE_URL", "http://127.0.0.1:9/v1")
        ended = command("run", QUESTION, "--model", "groq:llama", "--retries", "0")
    assert (ended.code, server.asked) == (1, [])
    assert "llama at http://127.0.0.1:9/v1" in ended.err


@cases("name", "local", "local:smollm2-135m-instruct", "smollm2-135m-instruct")
def test_local_names_need_the_weights(pulled: list[str], name: str) -> None:
    assert command("run", QUESTION, "--model", name).code == 1
    assert pulled.pop() == "smollm2-135m-instruct"
    ended = command("run", QUESTION, "--model", name, "--retries", "1")
    error = "graphexec: --retries applies to a server, and this model is local"
    assert (ended.code, ended.err.partition(";")[0]) == (2, error)
    assert pulled == []
