"""The pages of a store of runs: the list, the page of a run while other processes go on with it, and the forms."""

import re
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any, Literal, final

import httpx
import pytest
from pydantic import BaseModel, Field, TypeAdapter
from starlette.testclient import TestClient

from graphexec import AgentExecutor, Effect, create_agent, edges, graph, node, on
from graphexec.kernel import END, Asks, Exhausted, ask
from graphexec.live import serving
from graphexec.live.forms import REPLY, ReplyForm
from graphexec.live.stored import StoredRuns, make_store_application
from graphexec.models import ScriptedModel
from graphexec.nodes import ask_user
from graphexec.runs import SQLiteRuns, recording_of_stored
from tests.cli.traced import QUESTION, make_executor
from tests.draw.browser import Browser, open_page
from tests.live.readers import PATIENCE, TOKEN, credentials, reading
from tests.parameters import cases


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteRuns]:
    with SQLiteRuns(tmp_path / "runs.db") as store:
        yield store


@contextmanager
def client_of(store: SQLiteRuns, **headers: str) -> Generator[TestClient]:
    application = make_store_application(StoredRuns(store), TOKEN)
    given = headers or {"Authorization": f"Bearer {TOKEN}"}
    with TestClient(application, base_url="http://127.0.0.1", headers=given, follow_redirects=False) as client:
        yield client


def asking(*replies: str) -> AgentExecutor[Any]:
    return create_agent(ScriptedModel([*replies]), [], kind="react", nodes=[ask_user()], max_iterations=5)


ASK = "Action: ask_user\nAction Input: Which <b>city</b>\N{RIGHT-TO-LEFT OVERRIDE}?"


class Place(BaseModel):
    city: str
    near: bool = False


class Decision(BaseModel):
    decision: Literal["approve", "reject"]
    amount: float | None = Field(None, description="In euros.")
    place: Place
    notes: list[str] = []


@dataclass(frozen=True)
class Approve(Effect[Decision]):
    card: str


@final
@dataclass(frozen=True)
class Order:
    card: str


@final
@dataclass(frozen=True)
class Approved:
    amount: float | None


@final
@dataclass(frozen=True)
class Late:
    order: Order
    limit: Exhausted


@node(when_spent=Late)
def approve(order: Order) -> Asks[Approve, Approved]:
    decision = yield from ask(Approve(order.card))
    return Approved(decision.amount)


ORDERS = graph(edges(approve, on(Approved, END) | on(Late, END)), start=approve)


def fields_of(page: str) -> dict[str, str]:
    """Return the hidden fields of the only form of a page."""
    assert page.count("<form") == 1
    hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page)
    return {name: unescape(value) for name, value in hidden}


def test_list_of_runs_has_questions_first(store: SQLiteRuns) -> None:
    make_executor().run(QUESTION, runs=store, run_id="a/b & c")
    asking(ASK).run("Weather?", runs=store, run_id="trip")
    with client_of(store) as client:
        page = client.get("/").text
        assert page.index("Which &lt;b&gt;city&lt;/b&gt;\N{REPLACEMENT CHARACTER}?") < page.index("a/b &amp; c")
        assert 'href="run?id=a%2Fb%20%26%20c"' in page
        assert page.count('class="badge waiting"') == page.count('class="badge done"') == 1
        only = client.get("/", params={"status": "done"}).text
        assert ('class="badge waiting"' in only, 'class="badge done"' in only) == (False, True)
        states = {re.search(r'data-state="(\w+)"', client.get("/").text) for _ in range(2)}
        assert len({one and one[1] for one in states}) == 1
        for path in ("/?status=x", "/?run=x", "/run?id=x", "/events?id=x", "/run"):
            answer = client.get(path)
            assert (answer.status_code, answer.text.count("\n")) == (404, 1)


def test_form_answers_and_the_first_answer_wins(store: SQLiteRuns) -> None:
    ORDERS.run(Order("visa"), runs=store, run_id="order")
    [question] = store.questions()
    with client_of(store) as client:
        hidden = fields_of(client.get("/", params={"run": "order"}).text)
        given = {"reply.decision": '"approve"', "reply.amount": "2.5", "reply.place.city": "Rome\r\n2"}
        refused = client.post("/reply", data={**hidden, **given, "reply.amount": "much", "reply.notes": "{"})
        assert refused.status_code == 422
        assert re.findall(r'class="problem"[^>]*>([^<]*)', refused.text) == ["this is not a number", "this is not JSON"]
        # What was given is there again.
        assert fields_of(refused.text) == hidden
        assert "\nRome\r\n2</textarea>" in refused.text
        assert 'value="&quot;approve&quot;" checked' in refused.text
        assert store.questions() == [question]
        answered = client.post("/reply", data=hidden | given)
        assert (answered.status_code, answered.headers["location"]) == (303, "./?run=order&answered=1")
        assert "Answered." in client.get("/", params={"answered": "1"}).text
        again = client.post("/reply", data=hidden | given | {"reply.decision": '"reject"'})
        assert (again.status_code, "the first answer counts" in again.text) == (409, True)
        assert client.post("/reply", data=hidden | {"key": "order/9.0"}).status_code == 404
    done: Any = ORDERS.run(None, runs=store, run_id="order")
    assert done.outcome == Approved(2.5)
    [reply] = [one["replies"][0] for one in recording_of_stored(store, "order").records if "replies" in one]
    assert reply["value"]["place"] == {"city": "Rome\n2", "near": False}


@dataclass(frozen=True)
class Wrong:
    """What is told beside a field."""

    field: str = ""


# A type, the texts of its fields, and the reply, or the field with a problem.
READ: list[tuple[Any, dict[str, str], Any]] = [
    (str, {"": "x"}, "x"),
    (str, {"": ""}, Wrong()),
    (str, {"": "null"}, "null"),
    (bool, {"": "false"}, False),
    (bool, {}, Wrong()),
    (int, {"": "7"}, 7),
    (int, {"": "7.5"}, Wrong()),
    (int, {"": "9" * 5000}, Wrong()),
    (float, {"": "NaN"}, Wrong()),
    (Literal["a", 2], {"": "2"}, 2),
    (Literal["a", 2], {"": '"b"'}, Wrong()),
    (int | None, {"": "7"}, 7),
    (int | str, {"": '"7"'}, "7"),
    (list[int], {"": "[1, 2]"}, [1, 2]),
    (list[int], {"": '["1"]'}, Wrong()),
    (list[int], {"": "[" * 100_000}, Wrong()),
    (dict[str, int], {"": '{"a": 1}'}, {"a": 1}),
    (Place, {".city": "", ".near": "true"}, {"city": "", "near": True}),
    (Place, {".near": "perhaps"}, Wrong(".near")),
    (Decision, {".place.near": "true"}, Wrong(".decision")),
]


@cases("kind, given, expected", *READ)
def test_fields_are_read_by_the_schema(kind: Any, given: Mapping[str, str], expected: Any) -> None:
    schema = TypeAdapter(kind).json_schema()
    form = ReplyForm(schema, {f"{REPLY}{name}": text for name, text in given.items()})
    read = form.read()
    if isinstance(expected, Wrong):
        assert list(form.problems) == [f"{REPLY}{expected.field}"]
        assert form.html().count('class="problem"') == 1
    else:
        assert (read, form.problems) == (expected, {})


def test_controls_follow_the_schema() -> None:
    html = ReplyForm(TypeAdapter(Decision).json_schema()).html()
    names = ["decision", "decision", "amount", "place.city", "place.near", "place.near", "notes"]
    assert re.findall(r'name="reply\.([^"]*)"', html) == names
    assert html.count('type="radio"') == 4
    assert "optional; In euros." in html
    many = ReplyForm({"enum": list(range(9))}).html()
    assert (many.count("<option"), many.count("radio")) == (10, 0)

    class Tree(BaseModel):
        left: "Tree | None" = None

    assert ReplyForm(TypeAdapter(Tree).json_schema()).html().count("<textarea") == 1


@pytest.mark.medium
def test_only_the_form_of_this_page_answers(store: SQLiteRuns) -> None:
    asking(ASK).run("Weather?", runs=store, run_id="trip")
    with client_of(store) as client:
        page = client.get("/")
        assert "form-action 'self'" in page.headers["content-security-policy"]
        assert page.headers["cache-control"] == "no-store"
        given = fields_of(page.text) | {REPLY: "Rome"}
        assert client.get("/reply").status_code == 405
        for site in ("cross-site", "same-site", "none"):
            assert client.post("/reply", data=given, headers={"Sec-Fetch-Site": site}).status_code == 403
        for check in ("", TOKEN, given["check"][:-1]):
            assert client.post("/reply", data=given | {"check": check}).status_code == 403
        assert client.post("/reply", data=given | {REPLY: "x" * 2**21}).status_code == 413
        assert client.post("/reply", content=b"\xff\xfe=%00&x").status_code == 403
        del client.headers["Authorization"]
        for path in ("/", "/run?id=trip", "/events?id=trip"):
            assert client.get(path).status_code == 403
        assert client.post("/reply", data=given).status_code == 403
        assert len(store.questions()) == 1
        # As a browser does it.
        assert client.get("/", params={"token": TOKEN}).status_code == 303
        assert client.post("/reply", data=given, headers={"Sec-Fetch-Site": "same-origin"}).status_code == 303
    assert store.questions() == []


@pytest.mark.medium
def test_page_of_a_run_follows_it_over_processes(store: SQLiteRuns) -> None:
    asking(ASK).run("Weather?", runs=store, run_id="trip")
    stored = recording_of_stored(store, "trip")
    with serving(store) as url:
        address, headers = credentials(url)
        page = httpx.get(f"{address}run?id=trip", headers=headers, trust_env=False, timeout=PATIENCE).text
        assert ("1 open question" in page, "plan --Replied--&gt; " in page) == (True, True)
        found = re.search(r"events\?id=trip.{1,8}run=(\w+)", page)
        assert found is not None
        with reading(url, path="events?id=trip", run=found[1]) as reader:
            taken = reader.take(len(stored.records))
            assert [record["event"] for _, record in taken] == [record["event"] for record in stored.records]
            assert taken[-1][1]["status"] == "waiting"
            [question] = store.questions()
            store.reply("trip", question.key, "Rome")
            # The result is no longer the last record: the page has to begin again.
            assert reader.rest()[1].event == "again"
        asking("Final Answer: Sunny.").run("Weather?", runs=store, run_id="trip")
        with reading(url, path="events?id=trip") as reader:
            records, last = reader.rest()
    assert (records[-1][1]["output"], last.event) == ("Sunny.", "end")
    assert len(records) == len(recording_of_stored(store, "trip").records)


def test_nested_runs_are_linked(store: SQLiteRuns) -> None:
    helper = asking(ASK).as_tool("helper", "Ask a helper.")
    create_agent(ScriptedModel(["Action: helper\nAction Input: Where?"]), [helper], kind="react").run(
        "Weather?", runs=store, run_id="outer"
    )
    with client_of(store) as client:
        page = client.get("/", params={"run": "outer"}).text
        assert 'href="run?id=outer%2F2.0"' in page
        assert "1 nested run<" in client.get("/run", params={"id": "outer"}).text
        inner = client.get("/run", params={"id": "outer/2.0"}).text
        assert ("in outer<" in inner, "1 open question<" in inner) == (True, True)
        hidden = fields_of(client.get("/", params={"run": "outer/2.0"}).text)
        assert client.post("/reply", data=hidden | {REPLY: "Rome"}).status_code == 303
    assert store.get("outer").status == "ready"


@pytest.mark.browser
def test_question_is_answered_in_the_browser(browser: Browser, store: SQLiteRuns) -> None:
    asking(ASK).run("Weather?", runs=store, run_id="trip")
    with serving(store) as url, open_page(browser, url, size=(390, 844)) as one:
        page = one.page
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        page.get_by_role("link", name="trip").first.click()
        page.locator("#status", has_text="waiting").wait_for()
        page.get_by_role("link", name="1 open question").click()
        page.get_by_role("textbox", name="answer").fill("Rome")
        page.get_by_role("button", name="answer").click()
        page.get_by_text("Answered.").wait_for()
        assert store.get("trip").status == "ready"
        asking("Final Answer: Sunny.").run("Weather?", runs=store, run_id="trip")
        # The page sees that another process has ended the run.
        page.locator(".badge.done").wait_for()
        page.get_by_role("link", name="trip").last.click()
        page.locator("#detail", has_text="Sunny.").wait_for()
        assert one.faults == []
