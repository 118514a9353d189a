"""The pages of a store of runs: its runs, the page of each, and the forms that answer their open questions."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping
from functools import cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, final, get_args
from urllib.parse import parse_qsl, quote, urlencode

from graphexec.draw.model.style import DARK, LIGHT
from graphexec.draw.model.text import format_quantity
from graphexec.draw.page import record_json
from graphexec.draw.page.assembly import colours, policy
from graphexec.errors import InputError
from graphexec.live.application import PRIVATE, make_guarded, page_of, require_extra, send_events
from graphexec.live.feeds import Feed
from graphexec.live.forms import ReplyForm, safe
from graphexec.runs.pages import StoredRecords
from graphexec.runs.questions import Question
from graphexec.runs.store import Runs, RunStatus, StoredRun

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

# Questions and runs on one page.
_QUESTIONS, _RUNS = 50, 200
# Bytes of an answer.
_LONGEST: Final = 2**20
_STATUSES: tuple[str, ...] = get_args(RunStatus)


@final
class StoredRuns:
    """A store whose pages are served; `closed` disconnects their readers."""

    def __init__(self, store: Runs) -> None:
        self.store, self.closed = store, False

    def close(self) -> None:
        """Disconnect the readers."""
        self.closed = True


@final
class StoredFeed(Feed):
    """The records of a stored run, which several processes may continue one after the other.

    Its `run` names the attempt, for connections that are made again: the next one takes the last one's ending back.
    """

    pause = 0.5
    blocks = True

    def __init__(self, runs: StoredRuns, run_id: str) -> None:
        super().__init__()
        self._runs, self._run = runs, runs.store.get(run_id)
        self._records = StoredRecords(runs.store, self._run)
        self.refresh()

    @property
    def closed(self) -> bool:
        """Whether the server closes."""
        return self._runs.closed

    def refresh(self) -> None:
        """Read new rows of the run's log."""
        records, before = self._records, (self._records.rows, self._run)
        try:
            self._run = run = self._runs.store.get(self._run.run_id)
        except InputError as error:
            self.error, self.over = str(error), True
            return
        records.add(self._runs.store.rows(run.run_id, records.rows))
        if self.lines and before == (records.rows, run):
            return
        lines = [record_json(one) for one in (*records.records, *records.make_ending(run))]
        if not self.lines:
            self.run = f"{records.attempts}{run.status if run.status in ('ready', 'cancelled') else ''}"
        elif lines[: len(self.lines)] != self.lines:
            self.run = secrets.token_hex(4)
        self.lines = lines
        self.over = run.status in ("done", "cancelled")


def make_store_application(runs: StoredRuns, token: str) -> Starlette:
    """Return the application that serves a store to those who have the token. Raises `InputError` without starlette."""
    require_extra()
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse
    from starlette.routing import Route

    store = runs.store
    # A form of another page does not have it.
    check = hmac.new(token.encode(), b"form", hashlib.sha256).hexdigest()

    def show(code: int, text: str) -> Response:
        return HTMLResponse(text, code, headers={**PRIVATE, "Content-Security-Policy": _policy()})

    async def index(request: Request) -> Response:
        return show(200, await run_in_threadpool(_index, store, check, request.query_params))

    def load(run_id: str) -> str:
        feed = StoredFeed(runs, run_id)
        return page_of(feed.lines[0], f"events?{urlencode({'id': run_id, 'run': feed.run})}", _nav(store, run_id))

    async def run(request: Request) -> Response:
        text = await run_in_threadpool(load, request.query_params.get("id", ""))
        return HTMLResponse(text, headers=PRIVATE)

    async def events(request: Request) -> Response:
        feed = await run_in_threadpool(StoredFeed, runs, request.query_params.get("id", ""))
        return send_events(feed, request)

    async def reply(request: Request) -> Response:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > _LONGEST:
                return PlainTextResponse("an answer has at most 1 MiB\n", 413)
        given = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
        own = request.headers.get("sec-fetch-site", "same-origin") == "same-origin"
        if not (own and hmac.compare_digest(given.get("check", "").encode(), check.encode())):
            return PlainTextResponse("403: answer with the form of this server's page.\n", 403)
        problem = await run_in_threadpool(_answer, store, check, given)
        if problem is not None:
            return show(*problem)
        only = {"run": given["within"]} if given.get("within") else {}
        return RedirectResponse(f"./?{urlencode({**only, 'answered': '1'})}", 303, headers=PRIVATE)

    pages = [Route("/", index), Route("/run", run), Route("/events", events)]
    return make_guarded([*pages, Route("/reply", reply, methods=["POST"])], token)


def _answer(store: Runs, check: str, given: Mapping[str, str]) -> tuple[int, str] | None:
    """Store an answer; return `None`, or the status and the page that says why it is not one."""
    run_id, key = given.get("run", ""), given.get("key", "")
    where = {"run": given["within"]} if given.get("within") else {}
    question = store.find_question(run_id, key)
    if question is None:
        return 404, _index(store, check, where, news=f"There is no question {key} any more.", bad=True)
    form = ReplyForm(question.schema, given)
    value = form.read()
    if not form.problems:
        try:
            if store.reply(run_id, key, value):
                return None
        except InputError as error:
            form.problems[""] = str(error)
        else:
            news = f"{key} was answered before, or has expired; the first answer counts."
            return 409, _index(store, check, where, news=news, bad=True)
    return 422, _index(store, check, where, refused=(question, form))


def _find(store: Runs, query: Mapping[str, str]) -> tuple[list[StoredRun], list[Question]]:
    """Return the runs and the open questions that a page of runs shows."""
    run_id = query.get("run")
    if run_id is not None:
        run = store.get(run_id)
        questions = [one for one in store.questions(run.parent or run_id) if one.key.startswith(f"{run_id}/")]
        return [run, *store.nested(run_id)], questions
    status: Any = query.get("status")
    return store.list(status, limit=_RUNS), store.questions(limit=_QUESTIONS + 1)


def _index(
    store: Runs,
    check: str,
    query: Mapping[str, str],
    *,
    news: str = "",
    bad: bool = False,
    refused: tuple[Question, ReplyForm] | None = None,
) -> str:
    """Return the page of a store's runs, or of one run and those nested in it: questions first."""
    runs, questions = _find(store, query)
    within = query.get("run")
    # What the script compares.
    seen = [[(one.run_id, _status(one), one.updated) for one in runs], [one.key for one in questions]]
    state = hashlib.sha256(repr(seen).encode()).hexdigest()
    if query.get("answered"):
        news = "Answered. The run goes on when its program or graphexec runs resume continues it."
    forms = "".join(
        _form(one, check, within or "", refused[1] if refused and refused[0].key == one.key else ReplyForm(one.schema))
        for one in questions[:_QUESTIONS]
    )
    more = len(questions) > _QUESTIONS
    count = f"More than {_QUESTIONS} open questions" if more else format_quantity(len(questions), "open question")
    links = (
        ['<a href="./">all runs</a>', f'<a href="{_address(within)}">its page</a>']
        if within
        else [_filter_link(one, query.get("status", "")) for one in ("", *_STATUSES)]
    )
    title = f"Run {within}" if within else "Stored runs"
    parts = [
        f"<h1>{safe(title)}</h1><nav>{''.join(links)}</nav>",
        f'<p class="news{" bad" if bad else ""}" role="status">{safe(news)}</p>' if news else "",
        '<p class="news" id="changed" hidden>The runs have changed: <a href="">show them</a>.</p>',
        f"<h2>{count}</h2>{forms}" if questions else "",
        f"<h2>{'The run and those nested in it' if within else 'Runs'}</h2>" if questions or within else "",
        _table(runs) if runs else '<p class="faint">There are none.</p>',
        f'<p class="faint">The {_RUNS} runs that changed last.</p>' if len(runs) == _RUNS else "",
    ]
    # A page that answers a form would be sent again by a reload.
    script = "" if refused or bad else f'<script type="module">{_read("index.js")}</script>'
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{safe(title)}</title><style>{_css()}</style></head>"
        f'<body data-state="{state}"><main>{"".join(parts)}</main>{script}</body></html>'
    )


def _form(question: Question, check: str, within: str, form: ReplyForm) -> str:
    run_id = question.key.rpartition("/")[0]
    facts = [
        f'<a href="{_address(run_id)}">{safe(run_id)}</a>',
        safe(question.node),
        f"asked {_ago(question.asked_at)}",
    ]
    if question.expires_at is not None:
        what = "it goes on" if question.default is None else f"the answer will be {safe(repr(question.default))}"
        facts.append(f"in {_span(question.expires_at - time.time())} {what}")
    hidden = {"run": question.run_id, "key": question.key, "check": check, "within": within}
    fields = "".join(f'<input type="hidden" name="{name}" value="{escape(one)}">' for name, one in hidden.items())
    problem = form.problems.get("")
    told = f'<strong class="problem" role="alert">{safe(problem)}</strong>' if problem else ""
    return (
        f'<form method="post" action="reply" autocomplete="off"><p class="faint">{" · ".join(facts)}</p>'
        f'<p class="words">{safe(question.text)}</p>{fields}{form.html()}{told}<button>answer</button></form>'
    )


def _status(run: StoredRun) -> str:
    return "interrupted" if run.status == "running" and run.is_ready else run.status


def _table(runs: list[StoredRun]) -> str:
    rows = "".join(
        f'<tr><td><span class="badge {_status(run)}">{_status(run)}</span></td>'
        f'<td><a href="{_address(run.run_id)}">{safe(run.run_id)}</a></td>'
        f"<td><time>{_ago(run.updated)}</time></td><td>{safe(run.note)}</td></tr>"
        for run in runs
    )
    heads = "".join(f"<th>{name}</th>" for name in ("status", "run", "changed", "answer, error or question"))
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"


def _nav(store: Runs, run_id: str) -> str:
    """Return the links of a run's page: to all runs, its questions, the run around it, and those nested in it."""
    (run, *nested), questions = _find(store, {"run": run_id})
    links = ['<a href="./">all runs</a>']
    if run.parent:
        outer = run.run_id.rpartition("/")[0]
        links.append(f'<a href="{_address(outer)}">in {safe(outer)}</a>')
    if questions:
        links.append(
            f'<a href="{_address(run.run_id, "./?run")}">{format_quantity(len(questions), "open question")}</a>'
        )
    if nested:
        links.append(f'<a href="{_address(run.run_id, "./?run")}">{format_quantity(len(nested), "nested run")}</a>')
    return "".join(links)


def _filter_link(status: str, now: str) -> str:
    name = status or "all"
    return f"<b>{name}</b>" if status == now else f'<a href="./{f"?status={status}" if status else ""}">{name}</a>'


def _address(run_id: str, page: str = "run?id") -> str:
    return escape(f"{page}={quote(run_id, safe='')}")


def _ago(moment: float) -> str:
    return f"{_span(time.time() - moment)} ago"


def _span(seconds: float) -> str:
    """Return a time in its largest unit."""
    for name, unit in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= unit:
            return format_quantity(int(seconds / unit), name)
    return "less than a minute"


@cache
def _read(name: str) -> str:
    return files("graphexec.live").joinpath(name).read_text("utf-8")


@cache
def _css() -> str:
    return (
        f"{colours(LIGHT, ':root')}@media (prefers-color-scheme:dark){{{colours(DARK, ':root')}}}{_read('index.css')}"
    )


@cache
def _policy() -> str:
    return policy(_read("index.js"), _css(), live=True, forms=True)
