"""The live page over HTTP: its events, refused requests, and its end."""

import json
import re
import socket
import sys
import threading
from itertools import product
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from graphexec import InputError, draw, live
from tests.cli.traced import QUESTION, make_executor, record_run, recorder_of
from tests.live.readers import PATIENCE, client_of, fetch, reading
from tests.parameters import cases
from tests.traces import read_trace


def numbered(recorder: draw.Recorder, begin: int = 0) -> list[tuple[str, object]]:
    return [(str(number), record) for number, record in enumerate(recorder.records[begin:], begin)]


def run_of(url: str) -> str:
    """Return the id of the run of the page at `url`."""
    page = fetch(url).text
    found = re.search(r"events\?run=(\w+)", page)
    assert found is not None
    return found[1]


@pytest.mark.medium
def test_late_reader_receives_all_records() -> None:
    executor = make_executor()
    recorder = draw.Recorder(executor.verify(), inputs=QUESTION)
    events = executor.stream(QUESTION)
    with live.serving(recorder) as url, reading(url) as first:
        assert first.take(1) == numbered(recorder)
        for _ in range(2):
            recorder(next(events))
        assert first.take(2) == numbered(recorder, 1)
        run = run_of(url)
        with reading(url, run=run) as second:
            assert second.take(3) == numbered(recorder)
            for event in events:
                recorder(event)
            for reader in (first, second):
                records, last = reader.rest()
                assert records == numbered(recorder, 3)
                assert last.event == "end"


def test_closing_server_sends_remaining_records() -> None:
    recorder, received, there = recorder_of(to=5), list[object](), threading.Event()

    def read(url: str) -> None:
        with reading(url) as reader:
            received.extend(reader.take(5))
            there.set()
            received.append(json.loads(next(reader.events).data))
            received.append(next(reader.events).event)

    with live.serving(recorder) as url:
        waiting = threading.Thread(target=read, args=(url,))
        waiting.start()
        assert there.wait(PATIENCE)
        recorder.failed(ValueError("no"))
    waiting.join(PATIENCE)
    assert received == [*numbered(recorder)[:5], recorder.records[-1], "end"]


HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}


METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")


@pytest.mark.medium
@cases(
    "host, invalid",
    *((host, True) for host in ("evil.example", "127.0.0.1.evil.example", "0.0.0.0", "localhost.", "")),
    *((host, False) for host in ("127.0.0.1", "127.0.0.1:80", "localhost:8000", "LOCALHOST", "[::1]:1")),
)
def test_local_requests_are_answered_and_all_have_security_headers(host: str, invalid: bool) -> None:
    with client_of(recorder_of()) as client:
        for path, method in product(["/", "/events", "/nowhere"], METHODS):
            answer = client.request(method, path, headers={"Host": host})
            status = 400 if invalid else 404 if path == "/nowhere" else 200 if method == "GET" else 405
            assert (answer.status_code, answer.headers.items() >= HEADERS.items()) == (status, True), (method, path)
            assert "access-control-allow-origin" not in answer.headers
            assert not invalid or answer.text == "Invalid host header"
            if (status, path) == (200, "/"):
                assert answer.headers["content-type"] == "text/html; charset=utf-8"
                assert "plan --Replied--&gt; parse" in answer.text
                assert "connect-src 'self'" in answer.text


@cases("last, begin", ("9", 10), ("999999", 99), *((no, 0) for no in ("-1", "x", "²", "1" * 5000)))
def test_records_behind_a_known_event_id_are_sent(last: str, begin: int) -> None:
    recorder = recorder_of()
    with client_of(recorder) as client:
        answer = client.get("/events", headers=[(b"Last-Event-ID", last.encode())])
    assert answer.status_code == 200
    assert re.findall(r"^id: (\d+)", answer.text, re.MULTILINE) == [number for number, _ in numbered(recorder, begin)]
    assert answer.text.rstrip().splitlines()[-2:] == ["event: end", "data:"]


def test_server_is_local_and_stops() -> None:
    before = {*threading.enumerate()}
    with live.serving(recorder_of()) as url:
        assert url.startswith("http://127.0.0.1:")
        port = urlsplit(url).port
        assert port is not None
        with pytest.raises(InputError, match=f"port {port} cannot be opened: "):
            live.serving(recorder_of(), port=port).__enter__()
    assert {*threading.enumerate()} <= before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


@pytest.mark.medium
def test_missing_file_is_awaited(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    with live.serving(file) as url, reading(url) as reader:
        waiting = fetch(url)
        assert (waiting.text, waiting.headers["refresh"]) == ("The run has not begun.\n", "1")
        file.write_text(record_run(), encoding="utf-8")
        records, last = reader.rest()
        assert "plan --Replied--&gt; parse" in fetch(url).text
    assert [record for _, record in records] == [*read_trace(file.read_text(encoding="utf-8"))]
    assert last.event == "end"


@pytest.mark.medium
def test_reader_of_a_replaced_run_begins_again(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    lines = record_run("no JSON at all").splitlines(keepends=True)
    file.write_text("".join(lines[:4]), encoding="utf-8")
    with live.serving(file) as url:
        run = run_of(url)
        with reading(url, run=run) as reader:
            reader.take(4)
            file.write_text(record_run(), encoding="utf-8")
            records, last = reader.rest()
        assert (records, last.event) == ([], "again")
        with reading(url, run=run, last="3") as reader:
            assert reader.rest()[1].event == "again"
        with reading(url, run=run_of(url)) as reader:
            records, last = reader.rest()
    assert [record for _, record in records] == [*read_trace(file.read_text(encoding="utf-8"))]
    assert last.event == "end"


def test_invalid_trace_ends_with_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text("nothing\n", encoding="utf-8")
    message = f"line 1 of {file} is not a record; pass the file that graphexec run --record wrote"
    with client_of(file) as client:
        page = client.get("/")
        assert client.get("/events").text.rstrip() == f"event: end\r\ndata: {message}"
    assert (page.status_code, page.text) == (500, f"{message}\n")
    # An error of the layout is one line, too.
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    recorder = recorder_of()
    # A machine without a cached layout.
    recorder.records[0]["machine"]["boxes"][0]["lines"] = ["unlike any other"]
    with client_of(recorder) as client:
        page = client.get("/")
    assert (page.status_code, page.text.count("\n")) == (500, 1)
    assert "graphexec-agents[draw]" in page.text


@cases("package", "starlette.applications", "sse_starlette", "uvicorn")
def test_missing_extra_is_one_line(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=r"the live page needs .*; pip install 'graphexec-agents\[live\]'"):
        live.serving(recorder_of()).__enter__()
