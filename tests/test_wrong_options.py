"""Invalid options, of whatever takes options, raise an error of one line with the option, the value and the remedy."""

import asyncio
import math
import re
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import AgentExecutor, Limits, Meter, create_tool_calling_agent, messages, testing
from graphexec import _arguments as arguments
from graphexec.errors import InputError, LimitsError
from graphexec.memory import (
    BufferMemory,
    MemoryHistory,
    SQLiteHistory,
    TokenWindowMemory,
    WindowMemory,
)
from graphexec.models import (
    Anthropic,
    LocalModel,
    OpenAICompatible,
    OpenAIResponses,
    Price,
    ScriptedModel,
    SQLiteCache,
    cached,
    priced,
    rate_limited,
    retrying,
    with_fallbacks,
)
from graphexec.models.providers.openai_compatible import CHAT_COMPLETIONS
from tests.models.actors import HELLO
from tests.parameters import cases

# Any: invalid on purpose, here and below.
CLIENTS: list[Any] = [OpenAICompatible, OpenAIResponses, Anthropic]
MODEL = ScriptedModel([])
A_MODEL = f"give {arguments.MODEL.words}"
A_STORE = "give a dict, or SQLiteCache(path) for a file, or None for a new one"
PRICE = "give Price(prompt, completion)"
A_COUNT = "give a whole number, 1 or more"
MONEY = "give money per million tokens, 0 or more"
A_HISTORY = "give MemoryHistory() or SQLiteHistory(path, conversation=name)"
VERIFY = partial(testing.verify_termination, AgentExecutor(agent=create_tool_calling_agent(MODEL, []), tools=[]))

WRONG: list[tuple[Any, tuple[Any, ...], dict[str, Any], str]] = [
    (cached, (ScriptedModel, {}), {}, f"cached has model=ScriptedModel, a class; {A_MODEL}"),
    (cached, ("gpt-4o",), {}, f"cached has model='gpt-4o'; {A_MODEL}"),
    (cached, (None,), {}, f"cached has model=None; {A_MODEL}"),
    (cached, (MODEL, "file.db"), {"name": "a"}, f"cached has store='file.db'; {A_STORE}"),
    (cached, (MODEL, SQLiteCache), {"name": "a"}, f"cached has store=SQLiteCache, a class; {A_STORE}"),
    (cached, (MODEL, MemoryHistory()), {"name": "a"}, f"cached has store=<MemoryHistory: 0 turns>; {A_STORE}"),
    (
        cached,
        ({}, MODEL),
        {},
        f"cached has model={{}}; {A_MODEL}; cached has store=<ScriptedModel: 0 of 0 replies left>; {A_STORE}",
    ),
    (cached, (MODEL, {}), {"name": 3}, "cached has name=3; give a string"),
    *((SQLiteCache, (one,), {}, f"SQLiteCache has path={one!r}; give a path, as a string or") for one in (3, None, "")),
    (retrying, (OpenAICompatible,), {}, f"retrying has model=OpenAICompatible, a class; {A_MODEL}"),
    (retrying, ("gpt-4o",), {}, f"retrying has model='gpt-4o'; {A_MODEL}"),
    *((retrying, (MODEL,), {"attempts": n}, f"retrying has attempts={n!r}; {A_COUNT}:") for n in (0, "3", 2.5, True)),
    *(
        (retrying, (MODEL,), {option: wrong}, f"retrying has {option}={wrong!r}; give seconds, 0 or more")
        for option, wrong in [("first_wait", -1), ("first_wait", "1"), ("longest_wait", math.nan)]
    ),
    (retrying, (MODEL,), {"on": "ModelError"}, "retrying has on='ModelError'; give a tuple of classes"),
    (retrying, (MODEL,), {"on": InputError}, "retrying has on=InputError, a class; give a tuple of classes"),
    (retrying, (MODEL,), {"on": (KeyboardInterrupt,)}, "retrying has on=(<class 'KeyboardInterrupt'>,); give a tuple"),
    (with_fallbacks, (MODEL, ScriptedModel), {}, "with_fallbacks has model=ScriptedModel, a class; give models as"),
    (with_fallbacks, (MODEL, [MODEL]), {}, "with_fallbacks has model=[<ScriptedModel: 0 of 0 replies left>]; give"),
    (with_fallbacks, ("a", "b"), {}, "with_fallbacks has model='a'; give models as separate arguments, not in a list"),
    (rate_limited, (ScriptedModel,), {"per_second": 1}, f"rate_limited has model=ScriptedModel, a class; {A_MODEL}"),
    *(
        (rate_limited, (MODEL,), {option: wrong}, f"rate_limited has {option}={wrong!r}; {A_COUNT}, or None for no")
        for option in ("per_second", "per_minute")
        for wrong in (0, 0.5, "60", math.inf, True)
    ),
    *(
        (Price, prices, {}, f"Price has {option}={wrong!r}; {MONEY}")
        for wrong in ("1", -0.01, math.nan, math.inf, True, None, Decimal(1))
        for prices, option in [((wrong, 1), "prompt"), ((1, wrong), "completion")]
    ),
    (Price, (1, 1, -1), {}, f"Price has cached=-1; {MONEY}, or None for the price of prompts"),
    (priced, (ScriptedModel, Price(1, 1)), {}, f"priced has model=ScriptedModel, a class; {A_MODEL}"),
    (priced, (MODEL, Price), {}, f"priced has price=Price, a class; {PRICE}"),
    *((priced, (MODEL, wrong), {}, f"priced has price={wrong!r}; {PRICE}") for wrong in (3, None, {"a": 3})),
    *((ScriptedModel, (wrong,), {}, f"ScriptedModel has replies={wrong!r}; give a list of") for wrong in ("hello", 3)),
    *(
        (ScriptedModel, ([wrong],), {}, f"ScriptedModel has a reply={wrong!r}; give a string, a ModelReply, a ToolCall")
        for wrong in (3, None, ["a text"], {"content": "a text"})
    ),
    (ScriptedModel, ([ValueError],), {}, "ScriptedModel has a reply=ValueError, a class; give"),
    (LocalModel, (3,), {}, "LocalModel has path=3; give a path, as a string or a Path, or None for named weights"),
    (LocalModel, (), {"threads": 0}, f"LocalModel has threads=0; {A_COUNT}"),
    (LocalModel, (), {"context": "big"}, f"LocalModel has context='big'; {A_COUNT}"),
    (LocalModel, (), {"download": "no"}, "LocalModel has download='no'; give True or False"),
    *(
        (make, (), {option: wrong}, f"{owner} has {option}={wrong!r}; give a whole number, 0 or more")
        for wrong in (-1, True, 2.0, "3")
        for make, owner, option in [
            (WindowMemory, "WindowMemory", "turns"),
            (TokenWindowMemory, "TokenWindowMemory", "max_tokens"),
        ]
    ),
    *(
        (BufferMemory, (), {"history": wrong}, f"BufferMemory has history={wrong!r}; {A_HISTORY}")
        for wrong in ("chat_history", list[Any](), None, Path("turns.jsonl"), dict[str, str]())
    ),
    (BufferMemory, (), {"history": MemoryHistory}, f"BufferMemory has history=MemoryHistory, a class; {A_HISTORY}"),
    *(
        (BufferMemory, (), {option: 3}, f"BufferMemory has {option}=3; give a string")
        for option in ("key", "input_key", "output_key", "human", "ai")
    ),
    (BufferMemory, (), {"as_messages": "yes"}, "BufferMemory has as_messages='yes'; give True or False"),
    (TokenWindowMemory, (9,), {"count": "gpt-4o"}, "TokenWindowMemory has count='gpt-4o'; give a function from"),
    *(
        (SQLiteHistory, (wrong,), {"conversation": "me"}, f"SQLiteHistory has path={wrong!r}; give a path, as a string")
        for wrong in (3, None, b"turns", "")
    ),
    (SQLiteHistory, ("turns",), {"conversation": 7}, "SQLiteHistory has conversation=7; give a string"),
    *((VERIFY, (), {"examples": n}, f"examples is {n!r}; {A_COUNT}") for n in ("5", 0)),
    *(
        (Meter, (name,), {}, f"a meter cannot be named {name!r}; give it a name that a variable could have")
        for name in (3, None, ["revisions"])
    ),
    *(
        (Limits, (wrong,), {}, f"the limits are {wrong!r}; give a dict of meters and limits")
        for wrong in (3, "revisions", ["revisions"])
    ),
    *((Limits, ({name: 2},), {}, f"the limits have {name!r}, which is not a meter; give") for name in (3, "revisions")),
]

WRONG_FOR_CLIENTS: list[tuple[dict[str, Any], str]] = [
    ({"model": None}, "model=None; give a name, as a string"),
    ({"model": " "}, "model=' '; give a name, as a string"),
    ({"base_url": b"http://127.0.0.1"}, "base_url=b'http://127.0.0.1'; give a string, or None for"),
    ({"temperature": "hot"}, "temperature='hot'; give a number, 0 or more, or None for the server's"),
    ({"max_tokens": 0}, f"max_tokens=0; {A_COUNT}, or None for"),
    ({"timeout": "3"}, "timeout='3'; give seconds above 0"),
    ({"timeout": None}, "timeout=None; give seconds above 0"),
    ({"max_retries": -1}, "max_retries=-1; give a whole number, 0 or more"),
    ({"client": httpx.Client}, "client=Client, a class; give an httpx.Client, or one like it"),
    ({"timeout": 0, "max_retries": "2"}, "timeout=0; give seconds above 0; {owner} has max_retries='2'; give"),
]


@cases(("make", "given", "options", "message"), *WRONG)
def test_invalid_option_is_named_with_its_remedy(
    make: Callable[..., object], given: tuple[Any, ...], options: dict[str, Any], message: str
) -> None:
    error = LimitsError if make in (Meter, Limits) else InputError
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        make(*given, **options)


@cases("make", *CLIENTS)
@cases(("options", "message"), *WRONG_FOR_CLIENTS)
def test_invalid_client_option_is_named_with_its_remedy(make: Any, options: dict[str, Any], message: str) -> None:
    owner = make.__name__
    with pytest.raises(InputError, match=f"^{re.escape(f'{owner} has {message.format(owner=owner)}')}"):
        make(**{"model": "tiny", **options})


@pytest.mark.medium
@cases("make", *CLIENTS)
def test_client_of_the_other_kind_is_rejected(make: Any) -> None:
    blocking, of_a_loop = httpx.Client(), httpx.AsyncClient()
    with pytest.raises(InputError, match=r"client=<httpx\.AsyncClient .*; give an httpx\.Client, or one like it"):
        make("tiny", client=of_a_loop)
    with pytest.raises(InputError, match=r"async_client=<httpx\.Client .*; give an httpx\.AsyncClient, or one like it"):
        make("tiny", async_client=blocking)


@cases("key", b"sk-secret", ["sk-secret"])
def test_invalid_key_is_never_shown(key: Any) -> None:
    with pytest.raises(
        InputError, match=r"OpenAICompatible has an api_key of the class (bytes|list); give a string"
    ) as it:
        OpenAICompatible("tiny", api_key=key)
    assert "sk-secret" not in str(it.value)


def test_custom_client_needs_only_the_called_methods() -> None:
    class Own:
        def build_request(self, *_: object, **__: object) -> str:
            return "a request"

        def send(self, request: str, *, stream: bool) -> httpx.Response:
            raise httpx.ConnectError(request)

    with (
        OpenAICompatible("tiny", base_url="http://127.0.0.1:1", client=Own(), max_retries=0) as model,
        pytest.raises(Exception, match="a request"),
    ):
        model.complete(HELLO)


anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1, 2),
    st.floats(),
    st.sampled_from(["", "2", "two\nlines"]),
    st.sampled_from([int, MODEL, {}, [MODEL], Price(1, 1), CHAT_COMPLETIONS]),
)
OPTIONS: list[tuple[Any, str]] = [
    *((make, name) for make in CLIENTS for name in ("model", "temperature", "max_tokens", "timeout", "max_retries")),
    *((partial(retrying, MODEL), option) for option in ("attempts", "first_wait", "longest_wait")),
    *((partial(rate_limited, MODEL, per_minute=1), option) for option in ("per_second",)),
    *((partial(cached, name="a"), option) for option in ("model", "store")),
    *((partial(priced, MODEL), option) for option in ("price",)),
    *((LocalModel, option) for option in ("model", "context", "threads", "temperature", "max_tokens", "timeout")),
]


def refusal(make: Callable[[], object]) -> str | None:
    try:
        make()
    except InputError as error:
        return str(error)
    return None


@given(st.sampled_from(OPTIONS), anything)
def test_any_option_is_accepted_or_rejected(room: tuple[Any, str], value: Any) -> None:
    make, option = room
    required = {"model": MODEL if make not in CLIENTS else "tiny"} if make in CLIENTS or option == "store" else {}
    message = refusal(lambda: make(**{**required, option: value}))
    assert message is None or (f" has {option}=" in message and "; give " in message and "\n" not in message)


@cases("request_", "hello", [messages.UserMessage("hello")])
def test_model_is_not_sent_a_prompt_alone(request_: Any) -> None:
    model = OpenAICompatible("a-model", api_key="k", base_url="http://127.0.0.1:1/v1")

    def run_acomplete(given: Any) -> object:
        return asyncio.run(model.acomplete(given))

    message = r"^the request is .*; write model\.complete\(ChatRequest\(\[UserMessage\('...'\)\]\)\)$"
    for send in (model.complete, model.stream, model.astream, run_acomplete):
        with pytest.raises(InputError, match=message):
            send(request_)
