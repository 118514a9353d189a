"""Cut a text before the first stop string: some servers refuse stop strings, and others ignore them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class StopCutter:
    """Cuts a streamed text before the first stop string. `take` each piece, then call `rest`.

    Of several stop strings, the one that ends first counts, as on a server that checks after every character, so the
    position does not depend on the pieces. `done` is true after the cut.
    """

    stops: tuple[str, ...]
    done: bool = False
    # The end of the text, if a stop string may begin there.
    _held: str = ""

    def take(self, piece: str) -> str:
        """Add a piece, and return the text that can be shown now."""
        if self.done:
            return ""
        text = self._held + piece
        found = [(text.index(stop) + len(stop), -len(stop)) for stop in self.stops if stop and stop in text]
        if found:
            end, length = min(found)
            self.done, self._held = True, ""
            return text[: end + length]
        longest = max(map(len, self.stops), default=0)
        held = next((n for n in range(min(longest, len(text)), 0, -1) if self._may_begin(text[-n:])), 0)
        shown, self._held = text[: len(text) - held], text[len(text) - held :]
        return shown

    def rest(self) -> str:
        """Return the text that was held back, after the last piece."""
        rest, self._held = self._held, ""
        return rest

    def _may_begin(self, end: str) -> bool:
        return any(stop.startswith(end) for stop in self.stops)
