"""Runs, and what they write, show no key: results, traces, pages, snapshots, caches, memories, and how calls end."""

from __future__ import annotations

import asyncio
import copy
import gc
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from graphexec import AgentExecutor, create_tool_calling_agent, models, snapshot_of, tool
from graphexec.draw import Recorder
from graphexec.errors import ModelError, SecretError
from graphexec.memory import BufferMemory, FileHistory
from graphexec.models.http.remote import RemoteModel
from graphexec.runtime.progress import Listener, listen_with
from tests.models.actors import HELLO, FakeTime, LoopbackServer, chunks, send
from tests.models.leaks import Search, record_log
from tests.models.recorded import CALLS, CHAT, STREAM
from tests.models.test_secrets import CLASSES, ECHO, KEY, MODES, answer, make
from tests.parameters import cases


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def executor_of(model: Any, folder: Path) -> AgentExecutor:
    memory = BufferMemory(history=FileHistory(folder / "history.jsonl"), as_messages=True)
    agent = create_tool_calling_agent(model, [add])
    return AgentExecutor(agent=agent, tools=[add], memory=memory, max_iterations=3)


def wrap(model: RemoteModel, folder: Path) -> Any:
    """Return the model in all wrappers."""
    inner = models.with_fallbacks(models.retrying(models.rate_limited(model, at_once=2), clock=FakeTime().clock), model)
    return models.cached(inner, models.SQLiteCache(folder / "cache.sqlite"), name="x")


def run_all(executor: AgentExecutor, folder: Path, search: Search) -> None:
    """Run in each way, record everything, and search it."""
    recorder = Recorder(executor.verify(), inputs="?")

    async def arun() -> object:
        return await executor.ainvoke({"input": "?"})

    def stream() -> None:
        try:
            for event in executor.stream({"input": "?"}):
                recorder(event)
        except ModelError as error:
            recorder.failed(error)
            raise

    ways: tuple[Callable[[], object], ...] = (
        lambda: executor.invoke({"input": "?"}),
        lambda: asyncio.run(arun()),
        stream,
        lambda: executor.batch([{"input": "?"}, {"input": "!"}]),
    )
    for number, way in enumerate(ways):
        try:
            search.in_object(way(), f"result {number}")
        except ModelError as error:
            search.in_error(error, f"run {number}")
            snapshot = snapshot_of(error)
            if snapshot is not None:
                (folder / f"snapshot-{number}.json").write_text(json.dumps(snapshot.to_json()))
    (folder / "trace.jsonl").write_text(recorder.recording.to_json_lines())
    executor.draw(folder / "page.html", runs=recorder)
    search.in_object(executor, "executor")


@cases("kind", CLASSES)
def test_failed_runs_show_no_key(kind: type[RemoteModel], tmp_path: Path) -> None:
    search = Search(KEY)
    reports: list[object] = []
    with record_log() as log, listen_with(Listener(reports.append)):
        for act in (answer(401, ECHO), answer(500, ECHO), answer(200, f"no JSON: {KEY}")):
            model = make(kind, act, FakeTime())
            run_all(executor_of(wrap(model, tmp_path), tmp_path), tmp_path, search)
    for report in reports:
        search.in_text(str(report), "report")
    search.in_text(log.getvalue(), "log")
    search.in_files(tmp_path)
    assert search.hits == []


def test_run_with_calls_writes_no_key(tmp_path: Path) -> None:
    def act(request: httpx.Request) -> httpx.Response:
        first = b'"tool_call_id"' not in request.content
        return httpx.Response(200, headers={"content-type": "application/json"}, content=CALLS if first else CHAT)

    search = Search(KEY)
    model = make(models.OpenAICompatible, act, FakeTime())
    run_all(executor_of(wrap(model, tmp_path), tmp_path), tmp_path, search)
    search.in_files(tmp_path)
    assert search.hits == []
    assert {"history.jsonl", "cache.sqlite", "page.html", "trace.jsonl"} <= {path.name for path in tmp_path.iterdir()}


def stalled(server: LoopbackServer, kind: type[RemoteModel]) -> RemoteModel:
    server.add_acts(*[server.stall()] * 3)
    return kind("tiny", base_url=server.url, api_key=KEY)


@cases("kind", [models.OpenAICompatible, models.OpenAIResponses, models.Anthropic])
def test_cancelled_call_shows_no_key(kind: type[RemoteModel]) -> None:
    search = Search(KEY)

    async def call(model: RemoteModel, asked: threading.Event) -> None:
        task = asyncio.ensure_future(model.acomplete(HELLO))
        await asyncio.to_thread(asked.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        search.in_error(caught.value, "cancelled")
        search.in_object(task, "task")
        asked.clear()

        async def expire() -> None:
            await asyncio.to_thread(asked.wait, 10)
            limit.reschedule(0)

        async def call_in_time() -> None:
            async with limit:
                await model.acomplete(HELLO)

        limit = asyncio.timeout(None)
        expiry = asyncio.ensure_future(expire())
        with pytest.raises(TimeoutError) as late:
            await call_in_time()
        await expiry
        search.in_error(late.value, "deadline")
        await model.aclose()

    with LoopbackServer() as server:
        asyncio.run(call(stalled(server, kind), server.asked))
    assert search.hits == []


def test_run_stopped_by_its_deadline_shows_no_key(tmp_path: Path) -> None:
    search = Search(KEY)
    with LoopbackServer() as server:
        model = stalled(server, models.OpenAICompatible)
        agent = create_tool_calling_agent(model, [])
        result = AgentExecutor(agent=agent, tools=[], max_execution_time=0.05, max_iterations=2).invoke({"input": "?"})
        model.close()
    search.in_object(result, "result")
    assert search.hits == []


@cases("mode", ["sync", "async"])
def test_exception_of_a_reader_shows_no_key(mode: str) -> None:
    # The user's code between two pieces of a stream.
    pieces = b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n' * 3
    model = make(models.OpenAICompatible, answer(200, pieces, "text/event-stream"), FakeTime())
    search = Search(KEY)

    def read() -> None:
        stream = model.stream(HELLO)
        next(stream)
        search.in_object(stream, "stream")
        search.in_object(model, "model")
        stream.throw(ValueError("of the reader"))

    async def aread() -> None:
        stream = model.astream(HELLO)
        await anext(stream)
        await stream.athrow(ValueError("of the reader"))

    with pytest.raises(ValueError, match="of the reader") as caught:
        read() if mode == "sync" else asyncio.run(aread())
    search.in_error(caught.value)
    assert search.hits == []


def test_closed_client_shows_no_key() -> None:
    search = Search(KEY)
    client = httpx.Client()
    client.close()
    model = models.OpenAICompatible("tiny", api_key=KEY, client=client)
    for mode in MODES[::2]:
        with pytest.raises(RuntimeError, match="closed") as caught:
            mode(model)
        search.in_error(caught.value)
    assert search.hits == []


def test_no_failure_leaves_a_request_in_memory() -> None:
    transport = httpx.MockTransport(answer(401, ECHO))
    with httpx.Client(transport=transport) as client:
        model = models.OpenAICompatible("tiny", base_url="https://only-here.example", api_key=KEY, client=client)
        with pytest.raises(ModelError) as caught:
            model.complete(HELLO)
        gc.collect()
        requests = [one for one in gc.get_objects() if type(one) is httpx.Request]
        assert [one for one in requests if one.url.host == "only-here.example"] == []
    del caught


def test_executor_with_a_key_cannot_be_copied(tmp_path: Path) -> None:
    executor = executor_of(models.OpenAICompatible("tiny", api_key=KEY), tmp_path)
    with pytest.raises(SecretError, match="make the OpenAICompatible where it is used"):
        copy.deepcopy(executor)


def test_call_under_way_shows_no_key() -> None:
    # Another thread or task may fail meanwhile, in a frame that has the model.
    search = Search(KEY)
    events = chunks(*(event + b"\n\n" for event in STREAM.split(b"\n\n")[:-1]))
    with LoopbackServer(send(events), send(events)) as server:
        model = models.OpenAICompatible("tiny", base_url=server.url, api_key=KEY)
        stream = model.stream(HELLO)
        next(stream)
        search.in_object(model, "model")
        search.in_object(stream, "stream")
        stream.close()

        async def talk() -> None:
            astream = model.astream(HELLO)
            await anext(astream)
            search.in_object(model, "model")
            search.in_object(astream, "astream")
            await astream.aclose()
            await model.aclose()

        asyncio.run(talk())
    assert search.hits == []
