"""Every reader gets one decision from a reply in all ways in which models write it, and refuses unclear replies."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphexec import ParseError
from graphexec.messages import ModelReply
from tests.agents.mutations.common import meaning_of
from tests.agents.mutations.kinds import KINDS, WRAPPERS

# In the thorough profile, which CI uses: a thousand replies for each reader.
MANY = settings(max_examples=settings().max_examples * 10)


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
@MANY
def test_other_writing_keeps_the_decision(name: str, data: st.DataObject) -> None:
    kind = KINDS[name]
    meaning, text = kind.replies(data.draw)
    for changes, most in ((kind.keepers, 3), (kind.wrappers, 2)):
        chosen = data.draw(st.sets(st.integers(0, len(changes) - 1), max_size=most))
        for position in sorted(chosen):
            text = changes[position](data.draw, text)
    assert meaning_of(kind.read(ModelReply(text))) == meaning, text


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
@MANY
def test_unclear_reply_is_refused(name: str, data: st.DataObject) -> None:
    kind = KINDS[name]
    _, text = kind.replies(data.draw)
    text = data.draw(st.sampled_from(kind.breakers))(data.draw, text)
    if data.draw(st.booleans()):
        text = data.draw(st.sampled_from(WRAPPERS))(data.draw, text)
    with pytest.raises(ParseError):
        kind.read(ModelReply(text, finish_reason=data.draw(st.sampled_from(["stop", "length"]))))
