"""The records of stored runs, made from the store alone: no code of the machine is imported."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

from graphexec.actions import Run
from graphexec.draw.model.picture import Arrow, Picture
from graphexec.draw.model.text import format_duration, format_quantity
from graphexec.draw.runs.data import Record, effect_data, reply_data, spent_data
from graphexec.draw.runs.record_schema import VERSION
from graphexec.draw.runs.recorder import iso_date
from graphexec.draw.runs.records import Recording
from graphexec.effects import AskHuman, CallAgent, CallModel, CallTool
from graphexec.errors import SnapshotError
from graphexec.kernel.counters import add_amounts
from graphexec.kernel.effects import Effect
from graphexec.kernel.events import Cut
from graphexec.kernel.meters import Exhausted, Spent
from graphexec.kernel.node import END
from graphexec.messages import CompletionRequest
from graphexec.runs.entries import decode_reply
from graphexec.runs.history import add_charges, place_of
from graphexec.runs.questions import Question

if TYPE_CHECKING:
    from graphexec.runs.store import Runs, StoredRun

# What the records of a run that is not done end with: the status of the result, and its exit code.
_ENDINGS: Mapping[str, tuple[str, int]] = {
    "waiting": ("waiting", 4),
    "ready": ("ready", 4),
    "running": ("interrupted", 130),
    "failed": ("error", 1),
    "cancelled": ("cancelled", 1),
}
# An effect and a node that the machine does not have: it may have become another one since.
_OTHER: Record = {"charges": {}, "model": False, "costs": (), "asks": ()}
# The notes of runs that an exception from outside has ended.
_INTERRUPTIONS = ("KeyboardInterrupt", "CancelledError", "GeneratorExit")
_ABSENT: Mapping[str, Any] = {"output": None, "reason": None, "cause": None, "error": None}


def recording_of_stored(store: Runs, run_id: str) -> Recording:
    """Return the records of a stored run so far, whole over its restarts, for pages and pictures.

    They have no prompts, which the store does not keep. Raises `InputError` if there is no such run.
    """
    run = store.get(run_id)
    reader = StoredRecords(store, run)
    reader.add(store.rows(run_id))
    return Recording((*reader.records, *reader.make_ending(run)))


def charges_of(store: Runs, run_id: str, before: Mapping[str, float]) -> dict[str, float]:
    """Return what a nested run and those nested in it have charged, by meter, beyond what it had charged before."""
    reader = StoredRecords(store, store.get(run_id))
    reader.add(store.rows(run_id))
    total = reader.charged
    for one in reader.open_ids() & {one.run_id for one in store.nested(reader.root)}:
        total = add_amounts(total, charges_of(store, one, reader.charged_before.get(one, {})))
    return {name: more for name, amount in total.items() if (more := amount - before.get(name, 0)) > 0}


@final
class StoredRecords:
    """The `records` of a run, to which those of new rows of its log are added."""

    def __init__(self, store: Runs, run: StoredRun) -> None:
        self._store, self._run_id, self.root = store, run.run_id, run.parent or run.run_id
        machine = store.machine_of(run.run_id)
        picture = Picture.from_data(machine["picture"])
        self._arrows = {(arrow.source, arrow.outcome): arrow for arrow in picture.arrows}
        self._nodes: Mapping[str, Record] = machine["nodes"]
        self._effects: Mapping[str, Record] = machine["effects"]
        self._budgets: Mapping[str, float | None] = machine["budgets"]
        found = store.find(run.run_id)
        assert found is not None, "the run is there"
        start = json.loads(found[-2])
        self._limits: Record = {}
        self._spent: dict[str, float] = {}
        self._seconds, self._restarts, self._written = 0.0, 0, 0.0
        # What its effects, and the runs nested in their calls, have charged; and those runs before a restart, by id.
        self.charged: dict[str, float] = {}
        self.charged_before: dict[str, Mapping[str, float]] = {}
        # The effects of the calls without a reply, and those that are charged again when they begin again.
        self._open: dict[tuple[int, int], Record] = {}
        self._unpaid: set[tuple[int, int]] = set()
        self._end: Record | None = None
        self._steps: list[Record] = []
        self.rows = self.attempts = 0
        self.records: list[Record] = [
            {
                "event": "start",
                "version": VERSION,
                "began": iso_date(run.created),
                "input": _input_of(start["value"]),
                "machine": machine["picture"],
            }
        ]
        self._node: str = start["node"]
        self._entered = False

    def open_ids(self) -> set[str]:
        """Return the ids of the calls without a reply, which runs nested in them have."""
        return {f"{self._run_id}/{sequence}.{member}" for sequence, member in self._open}

    def add(self, rows: Iterable[str]) -> None:
        """Add the records of the next rows of the log."""
        for row in rows:
            written, *entries = json.loads(row)
            self.rows += 1
            for kind, *entry in entries:
                match kind:
                    case "begin":
                        self._begin(entry, written)
                    case "ask":
                        self._ask(*entry)
                    case "reply":
                        self._reply(*entry)
                    case "move":
                        for edge in entry[0]:
                            self._move(*edge.split(">", 1))
                    case "end":
                        self._end = entry[0] if entry else {}
                    case "stop":
                        self._seconds = max(self._seconds, entry[0])
                    case _:
                        # A call that waits, or has raised: the end of the records says it.
                        pass
            self._written = written

    def make_ending(self, run: StoredRun) -> list[Record]:
        """Return the records after those of the log: the open questions, and the result; none of a run that goes on."""
        if run.status == "running" and not run.is_ready:
            return []
        spent = self._spent_data()
        last: Record = {"event": "result", **_ABSENT, "steps": self._steps, "spent": spent, "seconds": self._seconds}
        if self._end is not None:
            status, code = ("stopped", 3) if self._end.get("cause") else ("answered", 0)
            return [last | {"status": status, "exit_code": code} | self._end]
        records: list[Record] = []
        if run.status == "waiting":
            records += [
                self._asked(one.node, *place_of(one.key), _data_of_question(one))
                for one in self._store.questions(self.root)
                if one.key.rpartition("/")[0] == self._run_id and place_of(one.key) not in self._open
            ]
        status, code = _ENDINGS[run.status]
        if run.status == "failed":
            error = {"type": run.note.partition(":")[0], "message": run.note}
            if error["type"] in _INTERRUPTIONS:
                status, code = _ENDINGS["running"]
            else:
                call = {"call": self._call(*next(iter(self._open)))} if len(self._open) == 1 else {}
                times = {"began": self._seconds, "seconds": 0.0}
                records.append({"event": "failed", "node": self._node, **call, **times, "error": error})
                last["error"] = error
        return [*records, last | {"status": status, "exit_code": code}]

    def _spent_data(self) -> Record:
        meters = {name: count for name, count in self._spent.items() if name != "iterations"}
        iterations = int(self._spent.get("iterations", 0))
        spent = Spent(iterations=iterations, seconds=self._seconds, restarts=self._restarts, meters=meters)
        return spent_data(spent, self._budgets)

    def _charge(self, amounts: Mapping[str, float]) -> None:
        self.charged = add_amounts(self.charged, amounts)
        self._cost(amounts)

    def _cost(self, amounts: Mapping[str, float]) -> None:
        self._spent = add_amounts(self._spent, amounts)

    def _enter(self) -> None:
        """Record that a node is entered, unless it has been."""
        if self._entered:
            return
        self._entered = True
        run = {"run": self._run_id} if len(self.records) == 1 else {}
        self.records.append({"event": "entered", "node": self._node, **run, "spent": self._spent_data()})
        self._cost(dict.fromkeys(self._nodes.get(self._node, _OTHER)["costs"], 1))

    def _begin(self, entry: Sequence[Any], written: float) -> None:
        self.attempts, at, unpaid, counts, limits, *nested = entry
        if limits != self._limits:
            self._limits = limits
            budgets = dict(self._budgets) | limits["budgets"]
            self.records[0] |= {"limits": limits} | ({"budgets": budgets} if budgets else {})
        if not self._written:
            self._enter()
            return
        self._seconds, self._restarts = max(self._seconds, at), self._restarts + bool(counts)
        self._charge(add_charges(self.charged_before, nested[0] if nested else {}))
        self._unpaid = {key for key in self._open if key[1] in (unpaid or ())}
        again = len(self._unpaid)
        later = format_duration(max(0.0, written - self._written))
        text = f"The run {'was interrupted, and ' if counts else ''}went on {later} later"
        text += f", and made {format_quantity(again, 'call')} again." if again else "."
        self._enter()
        self.records.append({"event": "reported", "node": self._node, "effects": [], "news": "Restarted", "text": text})

    def _call(self, sequence: int, member: int) -> Record:
        return {"run": self._run_id, "sequence": sequence, "member": member}

    def _asked(self, node: str, sequence: int, member: int, data: Record) -> Record:
        return {"event": "asked", "node": node, "call": self._call(sequence, member), "effects": [data]}

    # The details of an effect are JSON of any kind.
    def _ask(self, sequence: int, member: int, node: str, name: str, details: Any) -> None:
        if (sequence, member) in self._open:
            # A process that ended has begun it before.
            if (sequence, member) in self._unpaid:
                self._unpaid.remove((sequence, member))
                self._charge(self._effects.get(name, _OTHER)["charges"])
            return
        effect = self._restore(name, details)
        data: Record = {"value": details} if effect is None and details is not None else {}
        if effect is not None:
            data = effect_data(effect)
        data["effect"] = name
        self._begin_call(sequence, member, node, data)

    def _begin_call(self, sequence: int, member: int, node: str, data: Record) -> None:
        self._enter()
        self.records.append(self._asked(node, sequence, member, data))
        self._open[sequence, member] = data
        self._charge(self._effects.get(data["effect"], _OTHER)["charges"])

    def _restore(self, name: str, details: Any) -> Effect[Any] | None:
        """Return an effect of this library as far as the log has it; `None` for one of a user."""
        match name, details:
            case "CallTool", [str(tool), tool_input]:
                return CallTool(tool, tool_input)
            case "CallAgent", _:
                return CallAgent(Run({}))
            case "AskHuman", str(question):
                return AskHuman(question)
            case _:
                return CallModel(CompletionRequest("")) if self._effects.get(name, _OTHER)["model"] else None

    def _reply(
        self,
        sequence: int,
        member: int,
        at: float,
        seconds: float,
        stored: Any,
        charged: Mapping[str, float] | None = None,
    ) -> None:
        if (sequence, member) not in self._open:
            # What the store itself answered has no entry for its begin.
            question = self._store.find_question(self.root, f"{self._run_id}/{sequence}.{member}")
            # A fork has the answers of the run that it is a copy of, and not the questions.
            data = {"effect": " | ".join(self._nodes.get(self._node, _OTHER)["asks"])}
            data = data if question is None else _data_of_question(question)
            self._begin_call(sequence, member, self._node, data)
        data = self._open.pop((sequence, member))
        name = data["effect"]
        effect = self._restore(name, [data.get("tool", ""), data.get("tool_input", "")] if name == "CallTool" else "")
        self._seconds = max(self._seconds, at)
        reply: Record = {"effect": name, "value": _value_of(stored)}
        if effect is not None:
            try:
                decoded = decode_reply(effect, stored, None, {})
            except SnapshotError:
                # It has an object of a class that this process does not know.
                decoded = None
            if isinstance(decoded, Cut):
                exhausted = Exhausted(limit="seconds", value=self._limits.get("seconds") or at, reached=at)
                decoded = effect.cut(exhausted) or exhausted
            if decoded is not None:
                reply = reply_data(effect, decoded) | {"effect": name}
                self._charge(_measure(effect, decoded))
        self._charge(charged or {})
        if "tool" in data and "." not in self._node:
            step = {name: reply.get(name) for name in ("observation", "status", "error")}
            self._steps.append({"tool": data["tool"], "tool_input": data["tool_input"], **step})
        reply["began"], reply["seconds"] = round(max(0.0, self._seconds - seconds), 6), round(seconds, 6)
        call, within = self._call(sequence, member), {"within": dict(charged)} if charged else {}
        record = {"event": "answered", "node": self._node, "call": call, "spent": self._spent_data()}
        self.records.append({**record, "replies": [reply], **within})

    def _move(self, node: str, outcome: str) -> None:
        arrow = self._arrows.get((node, outcome), Arrow(node, outcome, END.name))
        self._enter()
        if arrow.exhausts and self.records[-1]["event"] == "entered":
            # The limit refused the visit itself.
            self._cost(dict.fromkeys(self._nodes.get(node, _OTHER)["costs"], -1))
        self.records.append({"event": "moved", "node": node, "outcome": outcome, "target": arrow.target})
        self._spent |= dict.fromkeys(arrow.resets, 0)
        self._node, self._entered = arrow.target, False
        if arrow.target != END.name:
            self._enter()


def _measure(effect: Effect[Any], reply: object) -> Record:
    """Return what a reply reports beyond what its call has been charged, by meter."""
    reported = {
        meter.name: amount for meter, amount in zip(effect.measures, effect.measure(reply), strict=True) if amount
    }
    prepaid = {meter.name: amount for meter, amount in effect.charges.items()}
    return {name: max(0, amount - prepaid.get(name, 0)) for name, amount in reported.items()}


def _data_of_question(question: Question) -> Record:
    if question.effect == "AskHuman":
        return {"effect": question.effect, "question": question.text}
    return {"effect": question.effect, "value": question.details}


# Any: JSON of a reply of any class.
def _value_of(stored: Any) -> Any:
    """Return the data of a reply without what says how to read it."""
    match stored:
        case {"graphexec.reply": {"data": data} | data}:
            return data
        case _:
            return stored


# Any: the value that a run began with, as a snapshot has it.
def _input_of(value: Any) -> Any:
    """Return what a run was given: the inputs of an agent, or the value of a machine."""
    match value:
        case {"data": {"run": {"inputs": inputs}}}:
            return inputs
        case {"data": data}:
            return data
        case _:
            return value
