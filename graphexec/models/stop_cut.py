"""Where a text is cut when the server knows no stop texts: before the first one, also while the text comes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Cut:
    """A text as far as it came and may be shown. `take` each piece, then the `rest`.

    Of several stop texts the one that is whole first counts, as at a server that looks after every letter; so the same
    text is cut at the same place however it comes in pieces. `done` once it was cut.
    """

    stops: tuple[str, ...]
    done: bool = False
    # The end of the text that a stop text may begin with.
    _held: str = ""

    def take(self, piece: str) -> str:
        """Take in a piece, and return what may be shown by now."""
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
        """Return what was held back, at the end of the text."""
        rest, self._held = self._held, ""
        return rest

    def _may_begin(self, end: str) -> bool:
        return any(stop.startswith(end) for stop in self.stops)
