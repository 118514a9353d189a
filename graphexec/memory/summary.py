"""A memory that replaces older turns with a model's summary."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

from graphexec._arguments import MODEL, TIMEOUT, optional, validate, whole
from graphexec._mistakes import explain_class
from graphexec._mistakes.remedies import MEMORY_OPTIONS
from graphexec.agents.prompt import Template, parse_template
from graphexec.effects import CallModel
from graphexec.errors import InputError, InvalidReplyError, described
from graphexec.memory.conversation import TurnMemory
from graphexec.memory.history import HISTORY, History, MemoryHistory, Turn
from graphexec.messages import ChatRequest, Message, Model, ModelReply, SystemMessage, UserMessage, check_reply
from graphexec.runtime.calls import ask_within, current_call, report
from graphexec.runtime.io import IO, call_method

SUMMARY_PROMPT = """\
Keep the notes on a conversation between {human} and {ai}.

The notes so far:
{summary}

The conversation since then:
{turns}

Rewrite the notes so that they contain both. Keep names, numbers, decisions, wishes and open questions; leave out
courtesies. Write in the language of the conversation, and return only the notes."""

_NOTHING_YET = "(none)"


@final
@dataclass(frozen=True, slots=True)
class SummaryRequested:
    """A report that the model is asked for a summary with `request`, which is charged to the run."""

    request: ChatRequest

    def __str__(self) -> str:
        return "the model is asked for a summary"


@final
@dataclass(frozen=True, slots=True)
class SummaryFailed:
    """A report that a summary failed, or was not stored, because of `error`; the original turns are used instead."""

    error: Exception

    def __str__(self) -> str:
        return f"the summary failed with {described(self.error)}; the original turns are used instead"


@final
@explain_class("SummaryMemory(model)", options=MEMORY_OPTIONS)
@dataclass(frozen=True, slots=True, eq=False)
class SummaryMemory(TurnMemory):
    """A model's summary of the conversation, followed by the last `keep_turns` turns; see `TurnMemory`.

    A save first stores the turn. Then it asks the model at most once for a new summary, of the last summary and all
    later turns but the last `keep_turns`. Turns that are not summarized yet are loaded unchanged. A summary that fails,
    is empty or was cut short raises nothing: it is reported as `SummaryFailed`, and the next save tries again. So
    `save` raises only if the turn is not stored.

    The model gets at most `timeout` seconds, and no more than the run has left. The request is reported as
    `SummaryRequested` and charged to the run that is saved; if a limit does not allow it, the summary fails. Summaries
    are stored as turns of the history `summaries`; pass a history in a file to keep them after the process ends. The
    summary is loaded as a line `Summary: ...` before the turns, or as a system message. `prompt` is a template with
    `{summary}` and `{turns}`, and optionally `{human}` and `{ai}`. Raises `InputError` for an invalid option, and if
    `summaries` is the history itself.
    """

    model: Model
    keep_turns: int = field(default=0, kw_only=True)
    prompt: str = field(default=SUMMARY_PROMPT, kw_only=True, repr=False)
    summaries: History = field(default_factory=MemoryHistory, kw_only=True)
    timeout: float | None = field(default=None, kw_only=True)
    _template: Template = field(init=False, repr=False)
    # The save that asks the model, by process: no other one waits for it.
    _asking: dict[int, object] = field(default_factory=dict[int, object], init=False, repr=False)

    def __post_init__(self) -> None:
        TurnMemory.__post_init__(self)
        validate(
            "SummaryMemory",
            ("model", self.model, MODEL),
            ("keep_turns", self.keep_turns, whole(0)),
            ("summaries", self.summaries, HISTORY),
            ("timeout", self.timeout, optional(TIMEOUT)),
        )
        if self.summaries == self.history:
            raise InputError("SummaryMemory's summaries are its history; pass a separate history")
        read = parse_template(self.prompt, required=("summary", "turns"))
        unknown = [name for name in read.variables if name not in ("summary", "turns", "human", "ai")]
        if unknown:
            text = f"SummaryMemory's prompt has the unknown variable {{{unknown[0]}}}; write {{{{ for a brace"
            raise InputError(text)
        object.__setattr__(self, "_template", read)

    def _histories(self) -> tuple[History, ...]:
        return (self.history, self.summaries)

    def _history_value(self) -> str | tuple[Message, ...]:
        turns = self.history.turns()
        summary, covered = self._summary_of(turns)
        since = turns[covered:]
        if not covered:
            return self._messages(since) if self.as_messages else self._text(since)
        line = f"Summary: {summary}"
        if self.as_messages:
            return (SystemMessage(line), *self._messages(since))
        return "\n".join([line, self._text(since)]) if since else line

    async def _save(self, turn: Turn, io: IO) -> None:
        await self._call(lambda: self.history.add(turn), io)
        process, save = os.getpid(), object()
        try:
            # Otherwise another save is asking the model; the next one will summarize this turn as well.
            if self._asking.setdefault(process, save) is save:
                await self._summarise(io)
        # The turn is already stored. If this raised, a resumed run would store it a second time.
        except Exception as error:  # noqa: BLE001
            report(SummaryFailed(error))
        finally:
            if self._asking.get(process) is save:
                del self._asking[process]

    async def _summarise(self, io: IO) -> None:
        turns = await self._call(self.history.turns, io)
        older = turns[: max(0, len(turns) - self.keep_turns)]
        request = await self._call(lambda: self._request(turns, older), io)
        if request is None:
            return
        reply = await self._ask(request, io)
        summary = Turn(_fingerprints(older)[-1], _read(reply))
        await self._call(lambda: self.summaries.add(summary), io)

    async def _ask(self, request: ChatRequest, io: IO) -> ModelReply:
        call = current_call()
        left = None if call is None else call.seconds_left
        timeout = min((one for one in (left, self.timeout) if one is not None), default=None)

        async def ask() -> ModelReply:
            report(SummaryRequested(request))
            reply = await call_method(io, self.model, "complete", request, timeout=timeout)
            return check_reply(reply, type(self.model).__name__)

        return await ask_within(call, CallModel(request), ask)

    def _request(self, turns: Sequence[Turn], older: Sequence[Turn]) -> ChatRequest | None:
        summary, covered = self._summary_of(turns)
        if covered >= len(older):
            return None
        values = {"summary": summary or _NOTHING_YET, "turns": self._text(older[covered:])}
        return ChatRequest((UserMessage(self._template.render(values | {"human": self.human, "ai": self.ai})),))

    def _summary_of(self, turns: Sequence[Turn]) -> tuple[str, int]:
        summaries = {summary.input: summary.output for summary in self.summaries.turns()}
        if summaries:
            prints = _fingerprints(turns)
            for covered in range(len(turns), 0, -1):
                if prints[covered - 1] in summaries:
                    return summaries[prints[covered - 1]], covered
        return "", 0


def _read(reply: ModelReply) -> str:
    summary = reply.content.strip()
    kept = "the turns are kept unchanged"
    if reply.finish_reason == "length":
        raise InvalidReplyError(f"the model's summary was cut short; {kept}; allow it more tokens")
    if not summary:
        raise InvalidReplyError(f"the model's summary is empty; {kept}; try another prompt or model")
    return summary


def _fingerprints(turns: Sequence[Turn]) -> list[str]:
    """Return a unique hash of each prefix of these turns: of the first turn, of the first two, and so on."""
    import hashlib

    whole = hashlib.sha256()
    prints: list[str] = []
    for turn in turns:
        for text in (turn.input, turn.output, *(image.url for image in turn.images)):
            written = text.encode("utf-8", "surrogatepass")
            whole.update(b"%d:" % len(written))
            whole.update(written)
        prints.append(whole.hexdigest())
    return prints
