"""A model that asks the one of several models which a function of the request chooses."""

from typing import Any

import pytest

from graphexec import AgentExecutor, Reported, create_react_agent
from graphexec.errors import InputError, MissingAPIKeyError
from graphexec.messages import ChatRequest, ModelReply, Usage, UserMessage
from graphexec.models import OpenAICompatible, Price, Routed, ScriptedModel, priced, routed
from tests.models.call_modes import Ask, Typewriter, all_modes, record_reports
from tests.parameters import cases


def by_length(request: ChatRequest) -> str:
    return "big" if len(request.messages[-1].content) > 5 else "small"


async def later(request: ChatRequest) -> str:
    return by_length(request)


@all_modes
@cases("choose", by_length, later)
def test_function_chooses_the_model_of_each_request(ask: Ask, choose: Any) -> None:
    models = {"small": Typewriter(["a", "c"], identity="tiny"), "big": Typewriter(["b"], identity="huge")}
    model = routed(choose, models)
    with record_reports() as reports:
        asked = [ask(model, ChatRequest([UserMessage(text)])).content for text in ("hi", "a question", "ho")]
    assert asked == ["a", "b", "c"]
    assert reports == [Routed("small", "<tiny>"), Routed("big", "<huge>"), Routed("small", "<tiny>")]
    assert str(reports[1]) == "big was chosen: <huge> is called"


def test_each_model_has_its_price() -> None:
    def make(text: str) -> ScriptedModel:
        return ScriptedModel([ModelReply(f"Final Answer: {text}", usage=Usage(1_000_000, 0))], repeat_last=True)

    models = {"small": priced(make("s"), Price(1, 1)), "big": priced(make("b"), Price(9, 9))}
    news: list[object] = []

    def remember(event: Any) -> None:
        if isinstance(event, Reported):
            news.append(event.news)

    model = routed(lambda request: "big" if "hard" in request.prompt else "small", models)
    agent = create_react_agent(model, [], protocol="completion")
    executor = AgentExecutor(agent=agent, tools=[], max_cost=100.0, observers=[remember])
    results = [executor.run(question) for question in ("easy", "hard")]
    assert [(one.output, one.spent["cost"]) for one in results] == [("s", 1), ("b", 9)]
    assert [str(one).split()[0] for one in news] == ["small", "big"]


@cases(
    ("make", "text"),
    (lambda: routed(by_length, {}), "routed has no models; pass a dict"),
    (lambda: routed("big", {"big": ScriptedModel([])}), "choose='big'; give a function"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    (lambda: routed(by_length, {"big": "gpt"}), "model='gpt'"),  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
    (lambda: routed(lambda _: "bgi", {"big": ScriptedModel([])}), r"returned 'bgi', .* did you mean big\?"),
    (lambda: routed(lambda _: 3, {"big": ScriptedModel([])}), "returned 3, which names no model; return one of big"),  # type: ignore[arg-type, return-value]  # pyright: ignore[reportArgumentType]
)
def test_wrong_routes_are_refused(make: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        make().complete(ChatRequest([UserMessage("hi")]))


def test_run_needs_access_to_all_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(MissingAPIKeyError):
        routed(by_length, {"small": ScriptedModel([]), "big": OpenAICompatible("gpt-5-mini")}).check_access()
