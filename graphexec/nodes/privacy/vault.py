"""The values of a run by their tokens."""

from __future__ import annotations

import itertools
import operator
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, final

from graphexec.actions import Run
from graphexec.nodes.privacy.search import TOKEN, Matcher
from graphexec.nodes.privacy.values import map_json


@final
class Vault:
    """The values of a run by their tokens."""

    __slots__ = ("_counts", "_matcher", "_tokens", "_values")

    def __init__(self, values: Mapping[str, Any], matcher: Matcher) -> None:
        self._matcher = matcher
        self._values = dict(values)
        self._tokens = {_key_of(value): token for token, value in values.items()}
        self._counts = Counter(token[1:].rpartition("_")[0] for token in values)

    @classmethod
    def of(cls, run: Run, name: str, matcher: Matcher) -> Vault:
        """Return the vault of a run, which is the state of the piece."""
        values: Mapping[str, Any] = run.aside.state.get(name, {})
        return cls(values, matcher)

    def store(self, run: Run, name: str) -> Run:
        """Return the run with this vault as the state of the piece."""
        if len(run.aside.state.get(name, ())) == len(self._values):
            return run
        return run.with_aside(state={**run.aside.state, name: dict(self._values)})

    def hide(self, value: Any) -> Any:
        """Return a string with each match replaced by its token, and its token for a number that is a match."""
        if isinstance(value, str):
            return self._replace(value, self._add, tokens=True)
        matched = self._match_whole(value)
        return value if matched is None else self._add(matched, value)

    def mask(self, value: Any) -> Any:
        """Return a string with each match replaced by its token, or by the kind alone if it has none."""
        if isinstance(value, str):
            return self._mask_text(value)
        matched = self._match_whole(value)
        return value if matched is None else self._name_token(matched, value)

    def show(self, value: Any) -> Any:
        """Return a string with the tokens replaced by their values; a token that stands alone, as its value."""
        if not isinstance(value, str) or "[" not in value:
            return value
        if value in self._values:
            return self._values[value]
        return TOKEN().sub(lambda match: str(self._values.get(match[0], match[0])), value)

    def mask_json(self, text: str) -> str:
        """Return JSON with the matches in its values replaced, like `mask`."""
        if text in self._matcher.clean_json:
            return text
        masked = map_json(text, self.mask)
        if masked is text:
            self._matcher.clean_json.add(text)
        return masked

    def _mask_text(self, text: str) -> str:
        """Return a string with the matches between its tokens replaced; the same object if there are none."""
        if text in self._matcher.clean:
            return text
        tokens = [match.span() for match in TOKEN().finditer(text)] if "[" in text else []
        starts, ends = [0, *(end for _, end in tokens)], [*(start for start, _ in tokens), len(text)]
        between = [text[start:end] for start, end in zip(starts, ends, strict=True)]
        masked = [self._replace(one, self._name_token, tokens=False) for one in between]
        if all(map(operator.is_, masked, between)):
            self._matcher.clean.add(text)
            return text
        kept = [text[start:end] for start, end in tokens]
        return "".join(itertools.chain(*zip(masked, [*kept, ""], strict=True)))

    def _match_whole(self, value: object) -> str | None:
        """Return the kind of a number that is a match."""
        if not isinstance(value, int) or isinstance(value, bool):
            return None
        text = str(value)
        found = self._matcher.find(text, tokens=False)
        return found[0][2] if found and found[0][:2] == (0, len(text)) else None

    def _replace(self, text: str, name: Callable[[str, Any], str], *, tokens: bool) -> str:
        spans = self._matcher.find(text, tokens=tokens)
        if not spans:
            return text
        parts: list[str] = []
        done = 0
        for start, end, kind in spans:
            parts += (text[done:start], name(kind, text[start:end]))
            done = end
        return "".join([*parts, text[done:]])

    def _add(self, kind: str, value: Any) -> str:
        key = _key_of(value)
        token = self._tokens.get(key)
        if token is None:
            self._counts[kind] += 1
            token = f"[{kind}_{self._counts[kind]}]"
            self._tokens[key] = token
            self._values[token] = value
        return token

    def _name_token(self, kind: str, value: Any) -> str:
        return self._tokens.get(_key_of(value), f"[{kind}]")


def _key_of(value: object) -> tuple[type, object]:
    """Return a key that differs for different values: the number 1 is not the string "1"."""
    return type(value), value
