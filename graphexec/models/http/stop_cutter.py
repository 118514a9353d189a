"""Cut a text before the first stop string: some servers refuse stop strings, and others ignore them."""

from __future__ import annotations

from dataclasses import dataclass, field

from graphexec._parsing.reasoning import ReasoningSplitter


@dataclass(slots=True)
class StopCutter:
    """Cuts a streamed reply before the first stop string in its content. `take` each piece, then call `rest`.

    Reasoning that the content begins with, such as `<think>...</think>`, is not cut. Of several stop strings, the one
    that ends first counts, as on a server that checks after every character, so the position does not depend on the
    pieces. `done` is true after the cut; a later closing tag, which shows that the cut was in reasoning, revokes it.
    """

    stops: tuple[str, ...]
    done: bool = False
    _splitter: ReasoningSplitter = field(default_factory=ReasoningSplitter, init=False)
    # The number of characters that were returned, and the text behind them: its end may begin a stop string.
    _shown: int = field(default=0, init=False)
    _held: list[str] = field(default_factory=list[str], init=False)

    def take(self, piece: str) -> str:
        """Add a piece, and return the text that can be shown now."""
        if not any(self.stops):
            return piece
        self._held.append(piece)
        self._splitter.take(piece)
        return self._advance()

    def rest(self) -> str:
        """Return the text that was held back, after the last piece."""
        if not any(self.stops):
            return ""
        self._splitter.rest()
        text = self._advance()
        return text if self.done else text + self._show("".join(self._held), "")

    def _advance(self) -> str:
        start = self._splitter.content_start - self._shown
        if self.done and start <= 0:
            return ""
        self.done = False
        text = "".join(self._held)
        start = max(0, start)
        if not self._splitter.in_content:
            return self._show(text[:start], text[start:])
        content = text[start:]
        found = [(content.index(stop) + len(stop), -len(stop)) for stop in self.stops if stop and stop in content]
        if found:
            self.done = True
            end = sum(min(found))
        else:
            longest = max(map(len, self.stops))
            held = next((n for n in range(min(longest, len(content)), 0, -1) if self._may_begin(content[-n:])), 0)
            end = len(content) - held
        return self._show(text[: start + end], content[end:])

    def _show(self, text: str, held: str) -> str:
        self._shown += len(text)
        self._held = [held]
        return text

    def _may_begin(self, end: str) -> bool:
        return any(stop.startswith(end) for stop in self.stops)
