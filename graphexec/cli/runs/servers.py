"""The MCP servers of the option --mcp, and the person at the terminal whom they ask."""

from __future__ import annotations

import os
import re
import select
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar, final

from graphexec.cli.exit_codes import UsageError
from graphexec.cli.terminal import clean
from graphexec.draw.model.text import format_call
from graphexec.effects import AskHuman
from graphexec.executor.executor import AgentExecutor
from graphexec.kernel.effects import CallContext, CallId, members_of
from graphexec.nodes import Piece, Review, ReviewCall, ReviewDecision, approve_tools
from graphexec.runtime.handlers import HandlerLike
from graphexec.runtime.threads import check_cancelled
from graphexec.tools import AnyTool

if TYPE_CHECKING:
    from graphexec.integrations.mcp import MCPServer

# Seconds between two looks at a call that may have been cancelled.
_PAUSE = 0.1
# Characters of the arguments of a call that a person approves.
_ARGUMENTS = 2_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Servers:
    """MCP servers by name, the piece that asks what they ask, and the reviewer of calls that may destroy something.

    Without a terminal nobody is asked; without a reviewer all calls are made.
    """

    by_name: Mapping[str, MCPServer]
    elicit: Piece | None = None
    reviewer: HandlerLike | None = None

    def tools(self, others: Sequence[AnyTool] = ()) -> list[AnyTool]:
        """Return the tools of all servers; those of a server that would share a name get its name as their prefix."""
        every = [tool.name for tools in (others, *(one.tools() for one in self.by_name.values())) for tool in tools]
        for name, server in self.by_name.items():
            if any(every.count(tool.name) > 1 for tool in server.tools()):
                server.set_prefix(name)
        return [tool for one in self.by_name.values() for tool in one.tools()]

    def add_to(self, executor: AgentExecutor) -> AgentExecutor:
        """Return the executor with the tools of the servers, and the pieces that ask."""
        of_pieces = {tool.name for piece in executor.pieces for tool in piece.tools}
        own = [tool for name, tool in executor.tools.items() if name not in of_pieces]
        return executor.with_tools([*own, *self.tools([*executor.tools.values()])]).plug(*self.pieces(executor))

    def pieces(self, executor: AgentExecutor) -> list[Piece]:
        """Return the pieces that ask a person what the servers ask, and about calls that may destroy something."""
        pieces, known = list[Piece](), executor.run_context.handlers
        # An executor of the user may ask people in a way of its own; one that answers servers answers no others.
        own = {kind: one for kind, one in self.elicit.handlers.items() if kind not in known} if self.elicit else {}
        if self.elicit is not None and own.keys() - {AskHuman}:
            pieces.append(replace(self.elicit, handlers=own))
        gates = [name for one in self.by_name.values() for name in one.destructive_tools()]
        if gates and self.reviewer is not None:
            decisions: dict[str, Sequence[ReviewDecision]] = dict.fromkeys(gates, ("approve", "reject"))
            pieces.append(approve_tools(decisions, reviewer=self.reviewer, name="approve_calls"))
        return pieces


NO_SERVERS = Servers({})


@contextmanager
def open_servers(references: Sequence[str], *, approved: bool = False) -> Generator[Servers]:
    """Yield the servers of commands, addresses and files, which are closed at the end. Raises `UsageError`."""
    if not references:
        yield NO_SERVERS
        return
    try:
        from graphexec.integrations.mcp import MCPServer, elicit, load_servers
    except ImportError:
        raise UsageError("--mcp needs the package mcp; pip install 'graphexec-agents[mcp]'") from None
    by_name: dict[str, MCPServer] = {}
    with ExitStack() as closing:
        for reference in references:
            is_file = reference.endswith(".json") and (" " not in reference or Path(reference).is_file())
            found = load_servers(reference) if is_file else {_name(reference): MCPServer(reference)}
            for name, server in found.items():
                closing.callback(server.close)
                server.session.name = name if name not in by_name else f"{name}_{len(by_name)}"
                by_name[server.session.name] = server
        # Before the first connection, which declares it.
        is_terminal = all(getattr(one, "isatty", bool)() for one in (sys.stdin, sys.stderr))
        if not is_terminal or not by_name:
            yield Servers(by_name, reviewer=None if approved else _refuse)
            return
        person = Person()
        piece = elicit(*by_name.values(), answer=person.answer, name="ask_for_servers")
        yield Servers(by_name, piece, None if approved else person.review)


def _name(reference: str) -> str:
    """Return the name of a server of a command, such as that of its package, or of an address: its host."""
    address = re.match(r"https?://(?:[^/@]*@)?([^/:]+)", reference)
    words = [address[1]] if address else reference.split()
    word = next((one for one in words[1:] if not one.startswith("-")), words[0] if words else "server")
    return re.sub(r"\W+", "_", re.sub(r"\.(py|js|exe)$", "", Path(word).name))


@final
class Person:
    """The person at the terminal, who is asked one question at a time: those of a batch in their order."""

    def __init__(self) -> None:
        self._lock = RLock()
        # Any: an answer to each effect of a batch.
        self._answers: dict[CallId, Any] = {}

    def answer(self, _: AskHuman, call: CallContext[Any]) -> str:
        """Ask a question."""
        refused = set[str]()

        def ask(effect: AskHuman) -> str:
            # Of a form that is refused, nothing else is asked.
            form, _, how = effect.question.partition("\n")
            refusal = how.rpartition("answer ")[2].removesuffix(".)")
            answer = refusal if form in refused else _read_line(f"{effect.question}\n> ", refusal)
            if answer.casefold() == refusal:
                refused.add(form)
            return answer

        return self._ask_all(call, ask)

    def review(self, _: ReviewCall, call: CallContext[Any]) -> Review:
        """Ask about a call of a tool that may destroy something."""
        return self._ask_all(call, _review)

    def _ask_all(self, call: CallContext[Any], ask: Callable[[Any], T]) -> T:
        with self._lock:
            check_cancelled()
            if call.id not in self._answers:
                self._answers |= _ask_members(call, ask)
            answer: T = self._answers.pop(call.id)
            return answer


def _ask_members(call: CallContext[Any], ask: Callable[[Any], T]) -> dict[CallId, T]:
    assert call.request is not None, "a handler has it"
    members = enumerate(members_of(call.request))
    return {call.id._replace(member=member): ask(effect) for member, effect in members}


def _review(call: ReviewCall) -> Review:
    again = f"{call.problem}\n" if call.problem else ""
    shown = format_call(call.tool, call.arguments, _ARGUMENTS)
    answer = _read_line(f"{again}{shown}\nCall it? y, n, or what to do instead\n> ", "n")
    if answer.casefold() in ("y", "yes"):
        return Review("approve")
    return Review("reject", "" if answer.casefold() in ("", "n", "no") else answer)


def _refuse(call: ReviewCall) -> Review:
    return Review("reject", f"Nobody is there to approve {call.tool}, which may destroy something; --yes approves all.")


def _read_line(question: str, refusal: str) -> str:
    """Return a line that a person writes, or the refusal at Ctrl-D, without waiting any longer than the call."""
    print(f"\n{clean(question)}", end="", file=sys.stderr, flush=True)
    if sys.platform == "win32":
        return input().strip()
    while not select.select([sys.stdin], [], [], _PAUSE)[0]:
        check_cancelled()
    # The terminal gives a line at a time; what `sys.stdin` would keep of it is lost for the prompt of the chat.
    line = os.read(sys.stdin.fileno(), 65_536)
    return line.decode(errors="replace").strip() if line else refusal
