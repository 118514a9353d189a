"""A refusal of a chat model of LangChain is a `RefusalError`, wherever its provider's package puts it."""

from importlib.util import find_spec
from typing import Any

import pytest

from graphexec.errors import RefusalError
from graphexec.integrations.langchain import from_langchain
from tests.models.actors import HELLO
from tests.models.call_modes import Ask, all_modes
from tests.parameters import cases

if find_spec("langchain_core") is None:
    pytest.skip("needs the package langchain-core", allow_module_level=True)

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult


class Refusing(BaseChatModel):
    """A chat model that returns one message."""

    # Any: LangChain's signatures, here and below.
    message: Any

    @property
    def _llm_type(self) -> str:
        return "refusing"

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(**self.message))])

    def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> Any:
        yield ChatGenerationChunk(message=AIMessageChunk(**self.message))


@all_modes
@cases(
    "message",
    {"content": [{"type": "refusal", "refusal": "I will not."}]},
    {"content": "", "additional_kwargs": {"refusal": "I will not."}},
    {"content": "", "response_metadata": {"finish_reason": "content_filter"}},
    {"content": "", "response_metadata": {"stop_reason": "refusal"}},
)
def test_refusal_is_an_error_of_its_own(ask: Ask, message: dict[str, Any]) -> None:
    model: Any = from_langchain(Refusing(message=message))
    words = "I will not." if "response_metadata" not in message else "content_filter|refusal"
    with pytest.raises(RefusalError, match=words):
        ask(model, HELLO)
