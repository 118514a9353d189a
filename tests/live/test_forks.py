"""Forks from a live page: the new run has a page and a file, and only the page itself can ask for one."""

import json
import stat
import threading
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from graphexec import AgentExecutor, InputError, create_tool_calling_agent, draw, live, messages, models, tool
from graphexec.live.forks import LiveRuns
from graphexec.live.requests import ForkRequest, ForkRequestError
from tests.draw.debugged import answering, calling
from tests.draw.test_forks import look_up, looking, make
from tests.live.readers import PATIENCE, TOKEN, client_of, credentials, reading
from tests.parameters import cases
from tests.traces import read_trace


def recorder_of_run() -> draw.Recorder:
    executor = make(looking("a", "b"), answering("both"))
    recorder = draw.Recorder(executor.verify(), inputs="Which?")
    list(map(recorder, executor.stream("Which?")))
    return recorder


def write_trace(folder: Path) -> Path:
    file = folder / "trace.jsonl"
    file.write_text(recorder_of_run().recording.to_json_lines(), encoding="utf-8")
    return file


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write_trace(tmp_path)


def page_data(text: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(text.partition('id="data"')[2].partition(">")[2].partition("</script>")[0])
    return data


def records_of(client: TestClient, page: str) -> list[Any]:
    """Return all records of a run, until its end."""
    lines = client.get(f"{page}events").text.splitlines()
    assert "event: end" in lines
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]


OBSERVATION = {"step": 3, "call": 1, "observation": "b is none"}


@pytest.mark.medium
def test_fork_has_a_page_and_a_file_beside_its_parent(trace: Path) -> None:
    before = trace.read_bytes()
    with client_of(trace, make(answering("only a"))) as client:
        data = page_data(client.get("/").text)
        answer = client.post(f"/{data['fork']}", json=OBSERVATION)
        assert (answer.status_code, answer.headers["location"]) == (201, "/forks/1/")
        assert answer.json() == {"page": "/forks/1/", "trace": "trace.fork-1.jsonl", "changed_request": None}
        records = records_of(client, "/forks/1/")
        page = page_data(client.get("/forks/1/").text)
    assert records[0]["parent"] == {"trace": "trace.jsonl", "run": read_trace(before.decode())[1]["run"], "step": 3}
    assert [step["observation"] for step in records[-1]["steps"]] == ["a is a word", "b is none"]
    assert records[-1]["output"] == "only a"
    assert (page["live"].partition("=")[0], page["fork"].partition("=")[0]) == ("events?run", "fork?run")
    assert trace.read_bytes() == before
    file = trace.with_name("trace.fork-1.jsonl")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert draw.Recording.from_json_lines(file.read_text(encoding="utf-8")).records == tuple(records)


def test_fork_of_a_fork_never_overwrites_a_file(trace: Path) -> None:
    (trace.parent / "trace.fork-1.jsonl").write_text("mine", encoding="utf-8")
    with client_of(trace, make(answering("c"), answering("d"))) as client:
        assert client.post("/fork", json=OBSERVATION).json()["trace"] == "trace.fork-2.jsonl"
        records_of(client, "/forks/1/")
        again = client.post("/forks/1/fork", json={"step": 1, "reply": "d, I think."})
        assert again.json() == {"page": "/forks/2/", "trace": "trace.fork-3.jsonl", "changed_request": None}
        records = records_of(client, "/forks/2/")
    assert (records[0]["parent"]["trace"], records[-1]["output"]) == ("trace.fork-2.jsonl", "d, I think.")
    assert (trace.parent / "trace.fork-1.jsonl").read_text(encoding="utf-8") == "mine"


def test_step_may_get_any_reply() -> None:
    """A recorder is forked without a file."""
    calls = [{"name": "look_up", "arguments": {"word": "c"}}]
    bodies: list[dict[str, Any]] = [
        {"step": 3},
        {"step": 1, "call": None, "reply": {"content": "Let me see.", "tool_calls": calls}},
    ]
    with client_of(recorder_of_run(), make(answering("as before"), answering("c"))) as client:
        results: list[Any] = []
        for number, body in enumerate(bodies, 1):
            answer = client.post("/fork", json=body)
            assert (answer.status_code, answer.json()["trace"]) == (201, None)
            results.append(records_of(client, f"/forks/{number}/")[-1])
    assert [result["output"] for result in results] == ["as before", "c"]
    assert [step["observation"] for step in results[1]["steps"]] == ["c is a word"]


def test_page_without_an_executor_forks_nothing(trace: Path) -> None:
    with client_of(trace, None) as client:
        assert page_data(client.get("/").text)["fork"] is None
        assert client.post("/fork", json=OBSERVATION).status_code == 404
        assert client.get("/forks/1/").status_code == 404
    # A wrong one is refused by its name.
    with pytest.raises(InputError, match=r"^executor is 5; pass the executor of the run"):
        live.live_page(trace, token=TOKEN, executor=5)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] # wrong on purpose


def test_executor_may_depend_on_the_records(trace: Path) -> None:
    def make_for(recording: draw.Recording) -> AgentExecutor:
        if recording.records[0]["input"] != "Which?":
            raise InputError("the model of another question is unknown; pass --model")
        return make(answering("a"))

    with client_of(trace, make_for) as client:
        assert client.post("/fork", json={"step": 3}).status_code == 201
        assert records_of(client, "/forks/1/")[-1]["output"] == "a"
    trace.write_text(trace.read_text(encoding="utf-8").replace("Which?", "Who?"), encoding="utf-8")
    with client_of(trace, make_for) as client:
        assert page_data(client.get("/").text)["fork"] is None
        refused = client.post("/fork", json={"step": 3})
        assert (refused.status_code, refused.json()["error"][:33]) == (400, "the model of another question is ")


SITE, COOKIE = "Sec-Fetch-Site", {"Origin": "http://127.0.0.1"}


@pytest.mark.medium
@cases(
    "headers, status",
    *(({"Origin": origin}, 403) for origin in ("http://evil.example", "http://127.0.0.1:8000", "null", "http://[")),
    ({"Origin": "http://localhost"}, 403),
    *((COOKIE | {SITE: site}, 403) for site in ("cross-site", "same-site", "none")),
    ({SITE: "same-origin"}, 403),
    ({}, 403),
    (COOKIE | {SITE: "same-origin"}, 201),
)
def test_only_the_page_itself_can_fork(headers: dict[str, str], status: int, tmp_path: Path) -> None:
    source = write_trace(tmp_path)
    with client_of(source, make(answering("a")), Accept="*/*") as client:
        client.get("/", params={"token": TOKEN})
        answer = client.post("/fork", json=OBSERVATION, headers=headers)
        assert answer.status_code == status
    if status == 403:
        assert list(answer.json()) == ["error"]
        assert list(tmp_path.iterdir()) == [source]


FORKS = ["/fork", "/forks/0/fork", "/forks/1/fork", "/forks/1/", "/forks/1/events"]


@pytest.mark.medium
@cases("path, method", *product(FORKS, ["GET", "POST"]))
def test_no_request_without_the_token_forks(trace: Path, path: str, method: str) -> None:
    with client_of(trace, make(), Authorization="Bearer wrong") as client:
        answer = client.request(method, path, json=OBSERVATION, headers=COOKIE)
        assert (answer.status_code, "its token" in answer.text) == (403, True)
        assert client.get("/fork").status_code == 403
    assert list(trace.parent.iterdir()) == [trace]


@pytest.mark.medium
@cases(
    "body, kind, status, message",
    (b'{"step": 3}', "text/plain", 415, "the content type is 'text/plain'; send application/json"),
    (b'{"step": 3}', "application/x-www-form-urlencoded", 415, "the content type is"),
    (b'{"step": "%s"}' % (b"x" * (1 << 20)), "application/json", 413, "more than 1,048,576 bytes"),
    (b'{"step": 99}', "application/json; charset=utf-8", 400, "there is no step 99: the run has steps 1 to 6"),
    *(
        (body, "application/json", 400, message)
        for body, message in (
            (b"{", "the request is not JSON: "),
            (b"[" * 100_000, "the request is not JSON: "),
            (b"\xff", "the request is not JSON: "),
            (b"[3]", "the request is [3]; send an object with a step"),
            (b"{}", "the step is None; send a whole number, from 1"),
            (b'{"step": true}', "the step is True; send"),
            (b'{"step": 3, "call": "0"}', "the call is '0'; send its index"),
            (b'{"step": 3, "file": "x"}', "the request has 'file'; send step, call, and"),
            (b'{"step": 1, "reply": "", "observation": ""}', "both a reply and an observation"),
            (b'{"step": 3, "observation": "x"}', "step 3 (dispatch_tools) makes 2 calls: 0 (look"),
            (b'{"step": 1, "reply": {"text": "x"}}', "step 1 (plan): the reply is {'text': 'x'};"),
            (b'{"step": 1, "reply": null}', "None is not a reply to CallModel"),
        )
    ),
)
def test_invalid_requests_are_refused(trace: Path, body: bytes, kind: str, status: int, message: str) -> None:
    with client_of(trace, make()) as client:
        answer = client.post("/fork", content=body, headers={"Content-Type": kind})
        assert answer.status_code == status
        assert message in answer.json()["error"]
        assert client.get("/fork").status_code == 405
    assert list(trace.parent.iterdir()) == [trace]


def test_unknown_replaced_and_deleted_runs_are_refused(trace: Path) -> None:
    with client_of(trace, make()) as client:
        unknown = client.post("/forks/7/fork", json={"step": 1}), client.get("/forks/7/"), client.get("/forks/7/events")
        assert [answer.status_code for answer in unknown] == [404] * 3
        answer = client.post("/fork?run=another", json={"step": 1})
        assert answer.status_code == 409
        assert "another run has replaced the one of this page" in answer.json()["error"]
    source = trace.parent / "gone" / "trace.jsonl"
    source.parent.mkdir()
    trace.rename(source)
    with client_of(source, make()) as client:
        client.get("/")
        source.unlink()
        source.parent.rmdir()
        assert client.post("/fork", json={"step": 1}).status_code == 400


def test_one_fork_runs_at_a_time_and_is_followed(trace: Path) -> None:
    asked, released = threading.Event(), threading.Event()

    def reply(_: messages.ModelRequest) -> messages.ModelReply:
        asked.set()
        assert released.wait(PATIENCE)
        return answering("late")

    executor = AgentExecutor(agent=create_tool_calling_agent(models.FunctionModel(reply), [look_up]), tools=[look_up])
    with live.serving(trace, executor=executor) as url, httpx.Client(trust_env=False, timeout=PATIENCE) as client:
        address, headers = credentials(url)
        started = client.post(f"{address}fork", json={"step": 3}, headers=headers).json()
        assert asked.wait(PATIENCE)
        token = headers["Authorization"].removeprefix("Bearer ")
        fork_url = f"{address.rstrip('/')}{started['page']}?token={token}"
        with reading(fork_url) as reader:
            seen = [record["event"] for _, record in reader.take(17)]
            assert seen[-1] == "asked"
            busy = client.post(f"{address}fork", json={"step": 3}, headers=headers)
            assert (busy.status_code, busy.json()) == (409, {"error": "a fork is running; wait for its end"})
            released.set()
            rest, last = reader.rest()
        assert (rest[-1][1]["output"], last.event) == ("late", "end")


def test_closing_server_interrupts_the_fork(trace: Path) -> None:
    executor = make(calling(("wait", {})), answering("never"))
    going, closing = threading.Event(), threading.Event()

    @tool
    def wait() -> str:
        """Wait."""
        going.set()
        assert closing.wait(PATIENCE)
        return "waited"

    executor = executor.with_tools([look_up, wait])
    runs = LiveRuns(trace, executor)
    runs.fork(0, ForkRequest(3, None, {}))
    assert going.wait(PATIENCE)
    # The server does not wait forever.
    runs.close(0)
    closing.set()
    runs.close(PATIENCE)
    with pytest.raises(ForkRequestError):
        runs.fork(0, ForkRequest(3, None, {}))
    file = trace.with_name("trace.fork-1.jsonl")
    result = draw.Recording.from_json_lines(file.read_text(encoding="utf-8")).result
    assert result is not None
    assert (result["status"], result["exit_code"], result["spent"]["model_calls"]) == ("interrupted", 130, 2)


def test_failed_fork_has_its_error(trace: Path) -> None:
    with client_of(trace, make()) as client:
        assert client.post("/fork", json={"step": 3}).status_code == 201
        *_, failed, result = records_of(client, "/forks/1/")
        assert (failed["event"], failed["node"], result["status"]) == ("failed", "plan", "error")
        # The next one may begin.
        assert client.post("/fork", json={"step": 1, "reply": "a"}).status_code == 201
