"""Runs, and what they write, show no key: results, traces, pages, snapshots, caches, memories, and how calls end."""

import asyncio
import gc
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from graphexec import AgentExecutor, create_tool_calling_agent, models, snapshot_of, tool
from graphexec.draw import Recorder
from graphexec.errors import ModelError
from graphexec.memory import BufferMemory, SQLiteHistory
from graphexec.models.http.remote import RemoteModel
from tests import garbage
from tests.models.actors import HELLO, FakeTime, LoopbackServer
from tests.models.leaks import Search
from tests.models.recorded import CALLS, CHAT
from tests.models.test_secrets import CLASSES, ECHO, KEY, Act, answer, make, nothing_leaks
from tests.parameters import cases
from tests.traces import unpack_page


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def executor_of(model: Any, folder: Path) -> AgentExecutor:
    memory = BufferMemory(history=SQLiteHistory(folder / "history.sqlite", conversation="me"), as_messages=True)
    agent = create_tool_calling_agent(model, [add])
    return AgentExecutor(agent=agent, tools=[add], memory=memory, max_iterations=3)


def wrap(model: RemoteModel, folder: Path) -> Any:
    """Return the model in all wrappers."""
    inner = models.with_fallbacks(
        models.retrying(models.rate_limited(model, per_second=1000), clock=FakeTime().clock), model
    )
    return models.cached(inner, models.SQLiteCache(folder / "cache.sqlite"), name="x")


def run_all(executor: AgentExecutor, folder: Path, search: Search) -> None:
    """Run in each way, record everything, and search it."""
    recorder = Recorder(executor.verify(), inputs="?")

    def stream() -> object:
        return list(map(recorder, executor.stream({"input": "?"})))

    ways: tuple[Callable[[], object], ...] = (
        lambda: executor.invoke({"input": "?"}),
        lambda: asyncio.run(executor.ainvoke({"input": "?"})),
        stream,
        lambda: executor.batch([{"input": "?"}, {"input": "!"}]),
    )
    for number, way in enumerate(ways):
        try:
            search.in_object(way(), f"result {number}")
        except ModelError as error:
            search.in_error(error, f"run {number}")
            if way is stream:
                recorder.failed(error)
            snapshot = snapshot_of(error)
            if snapshot is not None:
                (folder / f"snapshot-{number}.json").write_text(json.dumps(snapshot.to_json()))
    (folder / "trace.jsonl").write_text(recorder.recording.to_json_lines())
    page = executor.draw(folder / "page.html", runs=recorder)
    (folder / "page.txt").write_text(unpack_page(page.read_text(encoding="utf-8")), encoding="utf-8")
    search.in_object(executor, "executor")
    search.in_files(folder)


@pytest.mark.medium
@cases("act", answer(401, ECHO), answer(500, ECHO), answer(200, f"no JSON: {KEY}"))
@cases("kind", *CLASSES)
def test_failed_runs_show_no_key(kind: type[RemoteModel], act: Act, tmp_path: Path) -> None:
    # The records of the runs have their reports.
    with nothing_leaks() as search:
        run_all(executor_of(wrap(make(kind, act), tmp_path), tmp_path), tmp_path, search)


@pytest.mark.medium
def test_run_with_calls_writes_no_key(tmp_path: Path) -> None:
    def act(request: httpx.Request) -> httpx.Response:
        first = b'"tool_call_id"' not in request.content
        return httpx.Response(200, headers={"content-type": "application/json"}, content=CALLS if first else CHAT)

    with nothing_leaks() as search:
        run_all(executor_of(wrap(make(models.OpenAICompatible, act), tmp_path), tmp_path), tmp_path, search)
    assert {"history.sqlite", "cache.sqlite", "page.html", "page.txt", "trace.jsonl"} <= {
        path.name for path in tmp_path.iterdir()
    }


def test_run_stopped_by_its_deadline_shows_no_key() -> None:
    with nothing_leaks() as search, LoopbackServer() as server:
        server.add_acts(*[server.stall()] * 3)
        model = models.OpenAICompatible("tiny", base_url=server.url, api_key=KEY)
        agent = create_tool_calling_agent(model, [])
        result = AgentExecutor(agent=agent, tools=[], max_execution_time=0.05, max_iterations=2).invoke({"input": "?"})
        model.close()
        search.in_object(result, "result")


def test_no_failure_leaves_a_request_in_memory() -> None:
    with httpx.Client(transport=httpx.MockTransport(lambda _: answer(401, ECHO))) as client:
        model = models.OpenAICompatible("tiny", base_url="https://only-here.example", api_key=KEY, client=client)
        with pytest.raises(ModelError) as caught:
            model.complete(HELLO)
        garbage.collect()
        requests = [one for one in gc.get_objects() if type(one) is httpx.Request]
        assert [one for one in requests if one.url.host == "only-here.example"] == []
    del caught
