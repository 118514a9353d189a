"""Every reader gets one decision from a reply in all ways in which models write it, and refuses unclear replies."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import ParseError, messages
from tests.agents.mutations.common import Change, meaning_of
from tests.agents.mutations.kinds import KINDS
from tests.parameters import cases

# Replies for each example of Hypothesis: a thousand for each reader in the thorough profile, which CI uses.
REPLIES = 10
SEEDS = st.integers(0, 2**32)


def apply(changes: Sequence[Change], most: int, chance: Random, text: str) -> str:
    """Apply some of the changes, in their order."""
    for position in sorted(chance.sample(range(len(changes)), chance.randint(0, most))):
        text = changes[position](chance, text)
    return text


@pytest.mark.medium
@cases("name", *KINDS)
@given(seed=SEEDS)
def test_other_writing_keeps_the_decision(name: str, seed: int) -> None:
    kind, chance = KINDS[name], Random(seed)
    for _ in range(REPLIES):
        meaning, text = kind.replies(chance)
        text = apply(kind.wrappers, 2, chance, apply(kind.keepers, min(3, len(kind.keepers)), chance, text))
        assert meaning_of(kind.read(messages.ModelReply(text))) == meaning, text


@cases("name", *KINDS)
@given(seed=SEEDS)
def test_unclear_reply_is_refused(name: str, seed: int) -> None:
    kind, chance = KINDS[name], Random(seed)
    for _ in range(REPLIES):
        _, text = kind.replies(chance)
        text = apply(kind.keepers, 2, chance, chance.choice(kind.breakers)(chance, text))
        text = apply(kind.wrappers, 1, chance, text)
        reply = messages.ModelReply(text, finish_reason=chance.choice(["stop", "length"]))
        with pytest.raises(ParseError):
            pytest.fail(f"{kind.read(reply)} from {text!r}")
