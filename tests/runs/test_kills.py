"""Runs whose processes are killed at random moments, stopped, or run out of disk: nothing that was stored is lost.

`python -m tests.runs.test_kills 400 SEED` kills so many, and prints the figures.
"""

import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import product, repeat
from pathlib import Path
from typing import Any, Self

import pytest

from tests.stopwatch import eventually

# A word of a victim's tool, which says which attempt of a call has returned it.
WORD = re.compile(r"<([^<> ]+)>")
# Seconds of a run that nobody kills, calls and returns in it, bytes of its files, and attempts until it is let alone.
LASTS, POINTS, BYTES, MOST = 0.06, 9_000, 150_000, 10
WAYS = ("run", "arun", "stream", "astream")
# What must not be.
BAD = ("lost", "twice", "repeated", "missing", "observed")


class Forks:
    """A process that imports the package once, and forks a process for each attempt."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "tests.runs.victim", str(folder / f"warm-{id(self)}")]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def attempt(self, job: dict[str, Any]) -> str:
        """Carry out a job as far as it gets; return "killed", "ended", or "failed" if it has raised."""
        # Any: its pipes are none of `None`.
        process: Any = self._process
        print(json.dumps(job), file=process.stdin, flush=True)
        return str(process.stdout.readline()).strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


@dataclass
class Trial:
    """Runs in one store, which processes carry on that end too early; and what these have begun."""

    folder: Path
    way: str = "run"
    timed: bool = False
    runs: tuple[str, ...] = ("a",)
    lease: float = 30.0
    hangs: bool = False
    kills: int = 0
    # Those of the store when a process had ended.
    rows: dict[int, str] = field(default_factory=dict[int, str])

    @property
    def notes(self) -> list[dict[str, Any]]:
        """What the processes have noted."""
        path = self.folder / "notes"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def attempt(self, forks: Forks, **how: Any) -> str:
        """Carry the runs on in a process; return its end."""
        files = {"notes": f"{self.folder / 'notes'}", "store": f"{self.folder / 'runs.db'}"}
        usual = {"point": 0, "stops_at": 0, "after": None, "bytes": 0, "seed": 0.0}
        own = {"runs": self.runs, "way": self.way, "timed": self.timed, "lease": self.lease}
        return forks.attempt(usual | own | files | {"hangs": self.hangs} | how)

    def work(self, forks: Forks, moments: random.Random, most: int) -> None:
        """Let a worker end early at random moments, at most so often; then until it has done its work."""
        for _ in range(most):
            several: list[dict[str, Any]] = [
                {"after": moments.uniform(0, LASTS)},
                {"point": moments.randrange(1, POINTS)},
                {"bytes": moments.randrange(40_000, BYTES)},
            ]
            moment = several[moments.choices(range(3), (5, 5, 1))[0]]
            end = self.attempt(forks, seed=moments.random(), **moment)
            assert end != "failed" or "bytes" in moment, self.notes[-1]
            if end == "ended":
                return
            self.kills += 1
            self._compare_rows()
        assert self.attempt(forks) == "ended", self.notes[-1]

    def _compare_rows(self) -> None:
        # A process may end before it has made the tables.
        try:
            with closing(sqlite3.connect(self.folder / "runs.db", timeout=30)) as database:
                rows = dict(database.execute("SELECT id, data FROM graphexec_log").fetchall())
        except sqlite3.OperationalError:
            rows = {}
        assert self.rows.items() <= rows.items(), "no row is lost"
        self.rows |= rows

    def judge(self) -> Counter[str]:
        """Compare what was begun with the results; return the figures, of which some must be 0."""
        notes = self.notes
        results = {note["run"]: note for note in notes if note["kind"] == "result"}
        assert results.keys() == set(self.runs)
        output = " ".join(note["output"] for note in results.values())
        told, stored = set(WORD.findall(output)), set(WORD.findall(" ".join(self.rows.values())))
        begun: dict[tuple[str, str], list[str]] = defaultdict(list)
        refused, answered = Counter[str](), Counter[str]()
        figures = Counter[str]()
        for note in notes:
            if note["kind"] == "refused":
                refused[note["run"]] += 1
            elif note["kind"] == "reply":
                answered[note["key"].partition("#")[0]] += note["answer"] == "retry"
            elif note["kind"] == "begin":
                name, call = note["name"], note["call"]
                begun[name, call].append(note["word"])
                again = {"tell": 0, "ask": answered[call], "fail": MOST * refused[call.partition("/")[0]]}
                figures["twice"] += len(begun[name, call]) > 1 + again.get(name, len(notes))
        models = len(begun.pop(("model", ""), ()))
        tools = sum(map(len, begun.values()))
        spent = Counter[str]()
        for note in results.values():
            spent.update(note["spent"])
        return figures + Counter(
            trials=1,
            kills=self.kills,
            rows=len(self.rows),
            tools=tools,
            again=tools - len(begun),
            models=models,
            stored=len(stored),
            interrupted=output.count("was interrupted"),
            refused=refused.total(),
            asked=answered.total(),
            # A stored reply that the answers do not have.
            lost=len(stored - told),
            # A call that was begun again after the reply that the answers have.
            repeated=sum(word in told for words in begun.values() for word in words[:-1]),
            missing=max(0, tools - spent["tool_calls"]) + max(0, models - spent["model_calls"]),
            # An error of the store that was taken for one of a tool.
            observed=output.count("runs.db") + output.count("the run "),
        )


def kill_many(folder: Path, kills: int, seed: int) -> Counter[str]:
    """Kill so many processes, of one worker and of two on one file, in sync and async runs; return the figures."""
    moments, figures = random.Random(seed), Counter[str]()
    with Forks(folder) as one, Forks(folder) as two, ThreadPoolExecutor(2) as workers:
        while figures["kills"] < kills:
            place = folder / f"{seed}-{figures['trials']}"
            place.mkdir()
            several, timed = figures["trials"] % 2 == 1, moments.choice((False, True))
            trial = Trial(place, WAYS[figures["trials"] // 2 % 4], timed, ("a", "b") if several else ("a",))
            pair = (one, two) if several else (one,)
            most = -(-min(MOST, kills - figures["kills"]) // len(pair))
            seeds = map(random.Random, moments.sample(range(1 << 30), 2))
            list(workers.map(trial.work, pair, seeds, repeat(most)))
            got = trial.judge()
            assert not any(got[name] for name in BAD), (place, trial, got)
            figures += got
    return figures


@pytest.mark.medium
def test_kills_lose_and_repeat_nothing(tmp_path: Path) -> None:
    """Of 40 processes: stored replies stay, no call begins twice that tells or fails, and all attempts are charged."""
    figures = kill_many(tmp_path, 40, 1)
    # The kills fall where there is something to lose, also on a busy machine.
    assert figures["rows"] > 2 * figures["kills"], figures
    assert figures["stored"] > figures["trials"], figures
    assert figures["interrupted"], figures
    assert figures["again"], figures


def has_stopped(trial: Trial) -> bool:
    """Return whether the process of a trial has stopped itself."""
    return any(note["kind"] == "stopped" for note in trial.notes)


@pytest.mark.medium
def test_a_stopped_owner_is_fenced(tmp_path: Path) -> None:
    """It wakes when another worker has taken the run over, at its lease's end, and has finished it."""
    with Forks(tmp_path) as one, Forks(tmp_path) as two, ThreadPoolExecutor(1) as workers:
        for stops_at, way in product((19, 20), WAYS):
            (place := tmp_path / f"{stops_at}-{way}").mkdir()
            trial = Trial(place, way, lease=0.3)
            stopped = workers.submit(trial.attempt, one, stops_at=stops_at)
            eventually(partial(has_stopped, trial))
            (process,) = [note["process"] for note in trial.notes if note["kind"] == "stopped"]
            try:
                assert trial.attempt(two) == "ended"
            finally:
                os.kill(process, signal.SIGCONT)
            assert stopped.result() == "failed", trial.notes
            assert "RunLostError" in trial.notes[-1]["error"]
            got = trial.judge()
            # A batch that it was about to begin, begins.
            assert not any(got[name] for name in BAD if name != "repeated"), got
            assert got["again"] <= 3, got


@pytest.mark.medium
def test_crashes_do_not_refill_a_deadline(tmp_path: Path) -> None:
    trial = Trial(tmp_path, hangs=True)
    with Forks(tmp_path) as forks:
        ends = [trial.attempt(forks, after=0.15) for _ in range(4)]
    assert (ends[0], ends[-1]) == ("killed", "ended"), trial.notes
    assert trial.notes[-1]["seconds"] >= 0.4


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        print(dict(kill_many(Path(scratch), int(sys.argv[1]), int((*sys.argv[2:], "1")[0]))))
