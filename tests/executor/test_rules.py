"""The rules of an agent: nodes that keep it from copying examples and from repeating calls."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel

import graphexec as gx
from graphexec.actions import Run, Steps
from graphexec.agents import RuleName, WorkedExample
from graphexec.effects import MODEL_CALLS, AskHuman
from graphexec.errors import GraphError, InputError, ModelError
from graphexec.executor import Acted, LimitReached, Replied, limit_reached
from graphexec.executor.rules.calls import NOT_REPEATED, CallRules
from graphexec.executor.rules.nodes import MOST_REQUESTS
from graphexec.kernel import Asks, Snapshot, ask
from graphexec.memory import BufferMemory
from graphexec.messages import ChatRequest, Image, ModelReply, ToolCall
from graphexec.models import ScriptedModel
from graphexec.models.scripted import ScriptedReply
from graphexec.nodes import no_immediate_repeats, no_repeats, stop_repeats
from graphexec.tools import AnyTool
from tests.executor.actors import call, echo, fail, run_executor, statuses
from tests.parameters import cases

# What the synthesised examples use, and what they do not.
DUMMY, OTHER = "Tartu", "Oslo"
# A question without a value that could be a city.
NAMELESS = "How is it there?"


class Weather:
    """A tool that counts its calls by city."""

    def __init__(self, **options: Any) -> None:
        self.calls: list[str] = []

        @gx.tool(**options)
        def weather(city: str, unit: Literal["C", "F"] = "C") -> str:
            """Get the weather in a city."""
            self.calls.append(city)
            return f"{len(self.calls)}: rain in {city}"

        self.tool: AnyTool = weather


@gx.tool
def local_time(town: str) -> str:
    """Get the local time in a town."""
    return f"noon in {town}"


def act(city: str = OTHER, /, name: str = "weather", **arguments: Any) -> str:
    given = {"town" if name == "local_time" else "city": city, **arguments}
    return json.dumps({"action": name, "action_input": given})


def finish(text: str = "done") -> str:
    return json.dumps({"action": "final_answer", "answer": text})


class Scene:
    """An executor of a structured agent with a scripted model, and its tools."""

    def __init__(
        self,
        *replies: ScriptedReply,
        repeat_last: bool = False,
        rules: Sequence[RuleName] = ("no_dummies", "no_repeats"),
        options: dict[str, Any] | None = None,
        agent: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        self.weather = Weather(**(options or {}))
        self.tools = [self.weather.tool, local_time]
        self.model = ScriptedModel(replies, repeat_last=repeat_last)
        made = gx.create_structured_agent(self.model, self.tools, rules=rules, **(agent or {}))
        self.executor = gx.AgentExecutor(agent=made, tools=self.tools, handle_parsing_errors=True, **settings)

    def run(self, question: Any = f"How is {OTHER}?") -> Any:
        return self.executor.run(question)

    @property
    def branches(self) -> list[list[str]]:
        """The actions that the schema of each request allowed."""
        return [branches_of(request) for request in self.model.requests]


def branches_of(request: Any) -> list[str]:
    return [branch["properties"]["action"]["const"] for branch in request.schema["anyOf"]]


ALL = ["weather", "local_time", "final_answer"]


# ---- repeats


def test_repeated_call_is_answered_without_a_call() -> None:
    scene = Scene(act(), act(), finish("rain"))
    result = scene.run()
    assert (result.output, scene.weather.calls, len(result.steps)) == ("rain", [OTHER], 1)
    assert scene.branches == [ALL, ALL, ["final_answer"]]
    assert result.spent[MODEL_CALLS] == 3


def test_refused_answer_repeats_the_observation() -> None:
    scene = Scene(act(), act(), act(), finish())
    result = scene.run()
    assert scene.weather.calls == [OTHER]
    first, second = result.steps
    assert (second.observation, second.status) == (first.observation, "ok")
    assert second.model_text.startswith(f"{first.observation}\n(This is the result of the same call")
    assert scene.branches == [ALL, ALL, ["final_answer"], ALL]
    assert result.spent["tool_calls"] == 1


@cases("same", [act(unit="C"), act(f"{OTHER}", unit="C"), act(OTHER, unit="C")])
def test_arguments_are_compared_after_validation(same: str) -> None:
    @gx.tool
    def double(number: float) -> float:
        """Double a number."""
        seen.append(number)
        return 2 * number

    seen: list[float] = []
    replies = [json.dumps({"action": "double", "action_input": {"number": one}}) for one in (5, "5.0")]
    model = ScriptedModel([*replies, finish("10")])
    gx.AgentExecutor(agent=gx.create_structured_agent(model, [double]), tools=[double]).run("Double 5.")
    assert seen == [5.0]
    scene = Scene(same, same, finish())
    scene.run()
    assert scene.weather.calls == [OTHER]


@cases("second", [act("Rome"), act(unit="F"), act(name="local_time")])
def test_different_call_is_made(second: str) -> None:
    scene = Scene(act(), second, finish())
    result = scene.run(f"{OTHER} or Rome?")
    assert len(result.steps) == 2
    assert scene.branches == [ALL, ALL, ALL]


def test_failed_call_is_made_again_once() -> None:
    model = ScriptedModel([call_of("fail")] * 3 + [finish("It fails.")])
    executor = gx.AgentExecutor(agent=gx.create_structured_agent(model, [echo, fail]), tools=[echo, fail])
    result = executor.run("say what?")
    assert (result.output, statuses_of(result)) == ("It fails.", ["error", "error"])
    assert branches_of(model.requests[-1]) == ["final_answer"]


def call_of(name: str, text: str = "what") -> str:
    return json.dumps({"action": name, "action_input": {"text": text}})


def statuses_of(result: Any) -> list[str]:
    return [step.status for step in result.steps]


def test_repeatable_tool_is_called_again() -> None:
    scene = Scene(act(), act(), finish(), options={"repeatable": True})
    scene.run()
    assert scene.weather.calls == [OTHER, OTHER]
    assert scene.branches == [ALL, ALL, ALL]


def test_rules_can_be_turned_off() -> None:
    scene = Scene(act(DUMMY), act(DUMMY), finish(), rules=())
    scene.run()
    assert scene.weather.calls == [DUMMY, DUMMY]
    assert set(scene.executor.graph.nodes) == {
        *("plan", "parse", "dispatch_tools", "check_return_direct", "stopped_response")
    }


@cases(("rule", "calls"), [("no_repeats", ["Oslo", "Rome"]), ("no_immediate_repeats", ["Oslo", "Rome", "Oslo"])])
def test_immediate_rule_allows_a_call_after_another(rule: RuleName, calls: list[str]) -> None:
    scene = Scene(act("Oslo"), act("Rome"), act("Oslo"), finish("?"), finish(), rules=[rule])
    scene.run()
    assert scene.weather.calls == calls


@cases("between", ["garbage", act(name="nope"), act(unit="K")])
def test_reply_without_a_call_does_not_hide_a_repeat(between: str) -> None:
    scene = Scene(act(), between, act(), finish(), rules=["no_immediate_repeats"])
    assert scene.run().output == "done"
    assert scene.weather.calls == [OTHER]


def test_failed_call_between_allows_a_repeat() -> None:
    weather = Weather()
    replies = [act(), call_of("fail"), act(), finish()]
    agent = gx.create_structured_agent(ScriptedModel(replies), [weather.tool, fail], rules=["no_immediate_repeats"])
    gx.AgentExecutor(agent=agent, tools=[weather.tool, fail]).run(f"How is {OTHER}?")
    assert weather.calls == [OTHER, OTHER]


def test_repeat_of_one_call_hides_no_repeat_of_another() -> None:
    both = (call("echo", "1", text="a"), call("echo", "2", text="b"))
    repeats = [call("echo", number, text=text) for number, text in (("3", "a"), ("4", "b"))]
    executor, _ = tool_calling(both, repeats[0], "", repeats[1], "", "done", rules=["no_immediate_repeats"])
    result = executor.run("q")
    assert (result.spent["tool_calls"], [step.observation for step in result.steps]) == (2, ["a", "b", "a", "b"])


@cases("rule", ["no_repeats", "no_immediate_repeats"])
def test_note_of_a_repeated_call_does_not_grow(rule: RuleName) -> None:
    scene = Scene(act(), repeat_last=True, rules=[rule], max_iterations=6)
    first, *others = scene.run().steps
    assert len(others) == 5
    assert {step.model_text for step in others} == {f"{first.observation}{NOT_REPEATED}"}
    # A caller may cut the steps between two turns.
    turns = Scene(act(), repeat_last=True, rules=[rule], max_iterations=6)
    trimmed = CallRules(turns.executor.agent, turns.executor.tools)
    noted = trimmed.make_earlier_result(Run({"input": OTHER}, Steps(others[:1])), first.action)
    assert noted is None or noted.model_text == others[0].model_text


@cases("again", [act(name="Weather"), act(name="WEATHER", unit="C"), act(unit="C")])
def test_failed_calls_are_compared_as_successful_ones(again: str) -> None:
    @gx.tool
    def weather(city: str, unit: Literal["C", "F"] = "C") -> str:
        """Get the weather in a city."""
        raise ValueError(f"{city} {unit}")

    model = ScriptedModel([act(unit="C"), again, again, finish()])
    agent = gx.create_structured_agent(model, [weather])
    executor = gx.AgentExecutor(agent=agent, tools=[weather], tool_lookup="case_insensitive")
    assert statuses_of(executor.run(f"How is {OTHER}?")) == ["error", "error"]
    assert branches_of(model.requests[-1]) == ["final_answer"]


def test_repeatable_tool_may_fail_repeatedly() -> None:
    @gx.tool(repeatable=True)
    def poll(text: str) -> str:
        """Poll a job."""
        raise ValueError("not yet")

    model = ScriptedModel([call_of("poll")] * 3 + [finish()])
    result = gx.AgentExecutor(agent=gx.create_structured_agent(model, [poll]), tools=[poll]).run("say what?")
    assert statuses_of(result) == ["error"] * 3


def test_reply_is_read_once_after_the_first_step() -> None:
    """The three nodes that read a reply share what the agent read, beside the steps of the run."""
    scene = Scene(act(), act("Rome"), finish())
    agent = scene.executor.agent
    replies: list[Any] = []

    def read(reply: Any) -> Any:
        replies.append(reply)
        return agent.read(reply)

    gx.AgentExecutor(agent=replace(agent, read=read), tools=scene.tools).run("Oslo or Rome?")
    assert len(replies) == 3 + 1 + 1


def test_trimmed_step_is_not_asked_about_but_not_repeated() -> None:
    scene = Scene(act(), act("Rome"), act(), finish(), trim_intermediate_steps=1)
    result = scene.run("Oslo or Rome?")
    assert scene.weather.calls == ["Oslo", "Rome"]
    assert [step.observation for step in result.steps] == ["1: rain in Oslo", "2: rain in Rome", "1: rain in Oslo"]
    assert ["final_answer"] not in scene.branches


def test_repeated_return_direct_result_is_the_answer() -> None:
    @gx.tool(return_direct=True)
    def direct(text: str) -> str:
        """Answer."""
        seen.append(text)
        return text

    seen: list[str] = []
    several = (call("direct", "1", text="a"), call("echo", "2", text="b"))
    model = ScriptedModel([several, call("direct", "3", text="a")])
    agent = gx.create_tool_calling_agent(model, [direct, echo], rules=["no_repeats"])
    result = gx.AgentExecutor(agent=agent, tools=[direct, echo]).run("q")
    assert (result.output, result.reason, seen) == ("a", "return_direct", ["a"])
    assert len(model.requests) == 2


# ---- several calls in one reply


def tool_calling(*replies: ScriptedReply, rules: Sequence[RuleName] = ("no_repeats",)) -> tuple[Any, ScriptedModel]:
    model = ScriptedModel(replies)
    tools = [echo, Weather().tool]
    return gx.AgentExecutor(agent=gx.create_tool_calling_agent(model, tools, rules=rules), tools=tools), model


def test_only_new_calls_of_a_reply_are_made() -> None:
    first = call("echo", "1", text="a")
    second = (call("echo", "2", text="b"), call("echo", "3", text="a"), call("echo", "4", text="c"))
    result = run_executor(lambda: tool_calling(first, second, "done")[0])
    assert [step.observation for step in result.outcome.steps] == ["a", "b", "a", "c"]
    assert result.spent["tool_calls"] == 3
    assert statuses(result) == ["ok"] * 4


def test_repeats_of_a_whole_reply_are_answered() -> None:
    several = (call("echo", "1", text="a"), call("echo", "2", text="b"))
    executor, model = tool_calling(several, several, "a and b", rules=["no_immediate_repeats"])
    assert executor.run("q").output == "a and b"
    last = model.requests[-1]
    assert isinstance(last, ChatRequest)
    assert (last.tool_choice, len(last.tools)) == ("none", 2)


def test_empty_reply_is_no_answer() -> None:
    one = call("echo", "1", text="a")
    executor, _ = tool_calling(one, one, "", "done")
    assert [step.observation for step in executor.run("q").steps] == ["a", "a"]


def test_chunks_have_each_step_once() -> None:
    first = call("echo", "1", text="a")
    second = (call("echo", "2", text="a"), call("echo", "3", text="c"))
    chunks = list(tool_calling(first, second, "done")[0].stream_chunks("q"))
    assert [chunk["steps"][0].observation for chunk in chunks if "steps" in chunk] == ["a", "c", "a"]
    assert [chunk["actions"][0].call_id for chunk in chunks if "actions" in chunk] == ["1", "2", "3"]
    assert chunks[-1]["output"] == "done"


# ---- dummies


def test_copied_argument_is_not_used() -> None:
    scene = Scene(act(DUMMY), act(OTHER, name="local_time"), finish())
    result = scene.run(NAMELESS)
    assert (scene.weather.calls, [step.action.tool for step in result.steps]) == ([], ["local_time"])
    assert scene.branches == [ALL, ["local_time", "final_answer"], ALL]


def test_each_copying_tool_is_left_out_in_turn() -> None:
    scene = Scene(act(DUMMY), act("Bergamo", name="local_time"), finish("I do not know."))
    assert scene.run(NAMELESS).output == "I do not know."
    assert scene.branches == [ALL, ["local_time", "final_answer"], ["final_answer"]]


def test_copied_argument_is_chosen_from_the_question() -> None:
    scene = Scene(act(DUMMY), act(), finish())
    assert scene.run().spent[MODEL_CALLS] == 3
    assert scene.weather.calls == [OTHER]
    assert scene.branches == [ALL, ALL, ALL]
    asked: Any = scene.model.requests[1]
    properties = asked.schema["anyOf"][0]["properties"]["action_input"]["properties"]
    assert properties["city"] == {"enum": [OTHER]}


def test_tool_is_left_out_after_a_second_copy() -> None:
    scene = Scene(act(DUMMY), act(DUMMY), finish("I do not know."))
    assert scene.run().output == "I do not know."
    assert scene.branches == [ALL, ALL, ["local_time", "final_answer"]]


def test_required_call_stays_required_after_a_copy() -> None:
    scene = Scene(act(DUMMY), act(), finish(), agent={"tool_choice": "required"})
    scene.run()
    assert scene.branches == [ALL[:2], ALL[:2], ALL]


def test_insisting_model_never_calls_the_tool() -> None:
    scene = Scene(act(DUMMY), repeat_last=True, max_iterations=3)
    result = scene.run()
    assert isinstance(result.ending, gx.StoppedResponse)
    assert (scene.weather.calls, statuses_of(result)) == ([], ["bad_arguments"] * 3)
    why = f"weather was not called: city={DUMMY} is in neither the question nor an observation."
    assert why in result.steps[0].observation


@cases(
    "inputs",
    [
        f"How is {DUMMY}?",
        f"how is {DUMMY.upper()} today",
        {"input": "How is it there?", "chat_history": [{"role": "user", "content": f"I am in {DUMMY}."}]},
    ],
)
def test_argument_from_the_question_is_used(inputs: Any) -> None:
    scene = Scene(act(DUMMY), finish())
    scene.run(inputs)
    assert scene.weather.calls == [DUMMY]


def test_argument_from_an_observation_is_used() -> None:
    scene = Scene(act(DUMMY, name="local_time"), act(DUMMY), finish())
    scene.run(f"What time is it in {DUMMY}?")
    assert scene.weather.calls == [DUMMY]
    scene = Scene(act(), act("rain"), finish(), agent={"examples": [example("rain")]})
    scene.run()
    assert scene.weather.calls == [OTHER, "rain"]


def example(city: Any, name: str = "weather") -> WorkedExample:
    return WorkedExample("?", ((name, {"city": city}, "1"),), "1")


def test_dummy_of_another_tool_is_not_used() -> None:
    scene = Scene(act("Bergamo"), finish())
    scene.run()
    assert scene.executor.agent.dummies["local_time"]["town"][0] == "Bergamo"
    assert scene.weather.calls == []


def test_refusal_does_not_make_the_argument_known() -> None:
    scene = Scene(*[act(DUMMY)] * 8, finish(), max_iterations=4)
    scene.run()
    assert scene.weather.calls == []


def test_numbers_and_lists_are_found_in_the_question() -> None:
    @gx.tool
    def total(numbers: list[float], factor: float) -> float:
        """Add numbers."""
        return sum(numbers) * factor

    def outcome(question: str, numbers: list[float], factor: float) -> list[str]:
        worked = WorkedExample("?", (("total", {"numbers": [1000, 2], "factor": 37.0}, "1"),), "1")
        reply = json.dumps({"action": "total", "action_input": {"numbers": numbers, "factor": factor}})
        model = ScriptedModel([reply, finish()] * 3, repeat_last=True)
        agent = gx.create_structured_agent(model, [total], examples=[worked])
        return statuses_of(gx.AgentExecutor(agent=agent, tools=[total]).run(question))

    assert outcome("Add 1,000 and 2, times 37.", [1000, 2], 37) == ["ok"]
    assert outcome("Add 1,000 and 2, times 37.0!", [1000, 2], 37) == ["ok"]
    assert outcome("Add 3 and 4, times 370.", [3, 4], 37) == []
    assert outcome("Add 3 and 4, times 37.", [1000, 2], 37) == []
    assert outcome("Add 3 and 4, times thirty-seven.", [3, 4], 37) == ["ok"]
    assert outcome("Add 3 and 4.", [3, 4], 5) == ["ok"]


@gx.tool
def calculator(expression: str) -> str:
    """Calculate an expression."""
    return expression


@cases("question", ["What is 6 times 7?", "6*7", "6x7", "6 apples for 7 each", "Was ist sechs mal 7?"])
def test_expression_is_compared_by_its_numbers(question: str) -> None:
    worked = WorkedExample("?", (("calculator", {"expression": "6 * 7"}, "42"),), "42")
    reply = json.dumps({"action": "calculator", "action_input": {"expression": "6 * 7"}})
    agent = gx.create_structured_agent(ScriptedModel([reply, finish("42")]), [calculator], examples=[worked])
    assert statuses_of(gx.AgentExecutor(agent=agent, tools=[calculator]).run(question)) == ["ok"]


@given(number=st.integers(2, 9_999), unit=st.sampled_from(["kg", " km", "°C", "k", "%", "pm", "x"]))
def test_number_with_a_unit_is_never_refused(number: int, unit: str) -> None:
    seen: list[float] = []

    @gx.tool
    def double(number: float) -> float:
        """Double a number."""
        seen.append(number)
        return 2 * number

    worked = WorkedExample("?", (("double", {"number": number}, "1"),), "1")
    reply = json.dumps({"action": "double", "action_input": {"number": number}})
    model = ScriptedModel([reply, finish(), reply, finish()])
    executor = gx.AgentExecutor(
        agent=gx.create_structured_agent(model, [double], examples=[worked], rules=["no_dummies"]), tools=[double]
    )
    executor.run(f"Please add {number}{unit}.")
    assert seen == [number]
    executor.run("Please add that number.")
    assert seen == [number]


PIXEL = Image.from_bytes(bytes.fromhex("89504e470d0a1a0a"), "image/png")


@cases(
    ("inputs", "options"),
    [
        ({"input": "How is the weather here?", "images": [PIXEL]}, {}),
        ("How is it here?", {"prompt": f"{{tools}} The user lives in {DUMMY}."}),
        (
            "Is it raining, as usual?",
            {"examples": [WorkedExample("is it raining, as usual?", (("weather", {"city": DUMMY}, "1"),), "")]},
        ),
    ],
)
def test_argument_may_come_from_elsewhere(inputs: Any, options: dict[str, Any]) -> None:
    scene = Scene(act(DUMMY), finish(), agent=options)
    scene.run(inputs)
    assert scene.weather.calls == [DUMMY]


class Item(BaseModel):
    name: str
    unit: Literal["EUR", "USD"]


@cases(
    ("basket", "status"),
    [
        ({"some basket": 2.5}, "bad_arguments"),
        ({"kettle": 2.5, "Some Basket": 3}, "bad_arguments"),
        ({"kettle": ["another basket"]}, "bad_arguments"),
        (["some basket", "kettle"], "bad_arguments"),
        ({"some basket": 317}, "bad_arguments"),
        ({"kettle": 2.5, "unit": "EUR", "name": "teapot"}, "ok"),
        (["kettle"], "ok"),
        ({}, "ok"),
    ],
)
def test_parts_of_an_argument_may_be_copied(basket: Any, status: str) -> None:
    @gx.tool
    def total(basket: Any, items: tuple[Item, ...] = ()) -> int:
        """Return the total of a basket."""
        return len(items)

    calls: list[dict[str, Any]] = [
        {"basket": {"some basket": 317}},
        {"basket": ["another basket", {"name": "jug", "unit": "EUR"}]},
    ]
    worked = [WorkedExample("?", (("total", arguments, "1"),), "1") for arguments in calls]
    replies = [json.dumps({"action": "total", "action_input": {"basket": basket}}), "none", finish()]
    agent = gx.create_structured_agent(ScriptedModel(replies), [total], examples=worked)
    executor = gx.AgentExecutor(agent=agent, tools=[total], handle_parsing_errors=True)
    result = executor.run("How much is a kettle for 2.5, please?")
    assert statuses_of(result)[0] == status


def test_default_of_a_tool_is_not_copied() -> None:
    @gx.tool
    def forecast(city: str, days: int = 3) -> str:
        """Forecast the weather."""
        return f"{city} {days}"

    worked = WorkedExample("?", (("forecast", {"city": "Rome", "days": 3}, "1"),), "1")
    reply = json.dumps({"action": "forecast", "action_input": {"city": OTHER, "days": 3}})
    agent = gx.create_structured_agent(ScriptedModel([reply, finish()]), [forecast], examples=[worked])
    assert statuses_of(gx.AgentExecutor(agent=agent, tools=[forecast]).run(f"How is {OTHER}?")) == ["ok"]


@cases(("city", "statuses"), [("Lisbon", ["bad_arguments"]), ("Porto", ["bad_arguments", "ok"])])
def test_error_makes_known_what_it_adds(city: str, statuses: list[str]) -> None:
    """An error that echoes a copied argument does not make it known."""

    def require_capital(city: str) -> str:
        if city.islower():
            raise ValueError(f"{city} is not capitalised, and Porto is")
        return city

    @gx.tool
    def weather(city: Annotated[str, AfterValidator(require_capital)]) -> str:
        """Get the weather in a city."""
        return f"rain in {city}"

    model = ScriptedModel([act("lisbon"), act(city), finish()])
    agent = gx.create_structured_agent(model, [weather], examples=[example("Lisbon"), example("Porto")])
    result = gx.AgentExecutor(agent=agent, tools=[weather]).run("How is it there?")
    assert "lisbon is not capitalised" in result.steps[0].observation
    assert statuses_of(result) == statuses


def test_enumerations_are_never_dummies() -> None:
    scene = Scene(act(unit="C"), finish())
    assert scene.executor.agent.dummies == {
        "final_answer": {"answer": ("Hello! How can I help you?",)},
        "weather": {"city": ("Tartu", "Kalmar")},
        "local_time": {"town": ("Bergamo", "Gdynia")},
    }
    scene.run()
    assert scene.weather.calls == [OTHER]


def test_unreadable_second_reply_keeps_the_first() -> None:
    scene = Scene(act(DUMMY), "garbage", finish())
    result = scene.run()
    assert statuses_of(result) == ["bad_arguments"]
    assert result.output == "done"


def test_parsing_errors_may_still_end_the_run() -> None:
    tools = [echo]
    agent = gx.create_structured_agent(
        ScriptedModel([call_of("echo", "a"), call_of("echo", "a"), "[", finish()]), tools
    )
    strict = gx.AgentExecutor(agent=agent, tools=tools)
    assert strict.run("a").output == "done"


def test_case_insensitive_lookup_finds_the_tool() -> None:
    scene = Scene(act(), act(OTHER, name="WEATHER"), finish(), tool_lookup="case_insensitive")
    scene.run()
    assert scene.weather.calls == [OTHER]


def test_unknown_and_refused_calls_are_left_to_the_tools() -> None:
    scene = Scene(act(name="nope"), json.dumps({"action": "weather", "action_input": {"town": "?"}}), finish())
    assert statuses_of(scene.run()) == ["unknown_tool", "bad_arguments"]


def test_validator_of_a_user_may_raise() -> None:
    def reject(value: str) -> str:
        if value == "no":
            raise KeyError(value)
        return value

    @gx.tool
    def careful(text: Annotated[str, AfterValidator(reject)]) -> str:
        """Be careful."""
        return text

    model = ScriptedModel([call_of("careful", "no"), finish()])
    result = gx.AgentExecutor(agent=gx.create_structured_agent(model, [careful]), tools=[careful]).run("no")
    assert statuses_of(result) == ["error"]


# ---- the machine


def test_rules_are_nodes_between_plan_and_parse() -> None:
    graph = Scene(finish()).executor.graph
    moves = {(edge.source, edge.outcome.__name__): edge.target for edge in graph.edges}
    assert moves["plan", "Replied"] == "avoid_dummies"
    assert moves["avoid_dummies", "Replied"] == "answer_repeats"
    assert moves["answer_repeats", "Replied"] == "parse"
    assert moves["parse", "Acted"] == "refuse_dummies"
    assert moves["refuse_dummies", "Acted"] == "refuse_repeats"
    assert moves["refuse_repeats", "Acted"] == "dispatch_tools"
    assert "answer_repeats" in f"{graph:mermaid}"
    dummies, repeats = (Scene(finish(), rules=[name]).executor for name in ("no_dummies", "no_repeats"))
    assert [one.name for one in dummies.graph][-2:] == ["avoid_dummies", "refuse_dummies"]
    assert [one.name for one in repeats.graph][-2:] == ["answer_repeats", "refuse_repeats"]


def test_rules_are_pieces() -> None:
    executor = Scene(finish(), rules=["no_dummies", "no_repeats"]).executor
    assert executor.seats()[Acted] == ("no_dummies", "no_repeats")
    assert executor.seats()[Replied] == ("no_dummies", "no_repeats")
    bare = executor.unplug("no_dummies", "no_repeats")
    assert len(bare.seats()) == 0
    assert bare.agent.rules == ()
    again = bare.plug(no_repeats())
    assert (again.agent.rules, again.seats()[Acted]) == (("no_repeats",), ("no_repeats",))
    with pytest.raises(GraphError, match="no_repeats is plugged twice"):
        executor.plug(no_repeats())
    with pytest.raises(InputError, match="no_repeats and no_immediate_repeats"):
        executor.plug(no_immediate_repeats())


@cases("tools", [0, 1, 2, 3, 9])
def test_bound_counts_a_request_per_rule_and_tool(tools: int) -> None:
    several = [gx.tool(name=f"echo_{number}")(echo.function) for number in range(tools)]
    agent = gx.create_structured_agent(ScriptedModel([]), several)
    bounds = gx.AgentExecutor(agent=agent, tools=several, max_iterations=5).verify().bounds
    assert bounds is not None
    more = min(tools, MOST_REQUESTS) + 1 if tools else 0
    assert bounds.model_calls.number == 5 * (1 + more)


@given(
    replies=st.lists(st.sampled_from([act(), act(DUMMY), act("Bergamo", name="local_time"), finish(), "garbage"])),
    limit=st.integers(0, 12),
    early=st.sampled_from(["force", "generate"]),
)
def test_limits_stop_the_rules(replies: list[str], limit: int, early: str) -> None:
    scene = Scene(*replies, act(DUMMY), repeat_last=True, max_model_calls=limit, early_stopping_method=early)
    result = scene.run()
    assert len(scene.model.requests) <= limit + (early == "generate")
    assert DUMMY not in scene.weather.calls
    assert scene.weather.calls.count(OTHER) <= 1
    assert isinstance(result.ending, gx.AgentFinish | gx.StoppedResponse)


@given(st.lists(st.sampled_from([act("a"), act("b"), act("c", name="local_time"), "[", finish()]), max_size=12))
def test_no_call_succeeds_twice(replies: list[str]) -> None:
    scene = Scene(*replies, finish())
    scene.run("a b c")
    assert len(set(scene.weather.calls)) == len(scene.weather.calls)


def test_nodes_behind_parse_see_every_call() -> None:
    approved: list[str] = []

    @gx.charged(when_spent=limit_reached, asks=1)
    @gx.node
    def approve(acted: Acted) -> Asks[AskHuman, Acted]:
        """Ask a person."""
        yield from ask(AskHuman(acted.actions[0].tool))
        return acted

    def answer_person(question: AskHuman) -> str:
        approved.append(question.question)
        return "yes"

    scene = Scene(act(), act(), act(), finish(), handlers={AskHuman: answer_person})
    graph = scene.executor.graph
    routes = gx.on(Acted, graph["dispatch_tools"]) | gx.on(LimitReached, graph["stopped_response"])
    executor = scene.executor.splice(gx.edges(approve, routes), after=graph["parse"], on=Acted)
    assert executor.run(f"How is {OTHER}?").output == "done"
    assert approved == ["weather", "weather"]
    assert scene.weather.calls == [OTHER]
    assert [one for one in executor.verify().findings if one.code == "GX027"] == []


def test_stop_repeats_and_rules_work_together() -> None:
    scene = Scene(act(), repeat_last=True)
    result = scene.executor.plug(stop_repeats()).run(f"How is {OTHER}?")
    assert (result.reason, scene.weather.calls) == ("repeats", [OTHER])


def test_memory_saves_the_answer_of_a_rule() -> None:
    memory = BufferMemory(as_messages=True)
    scene = Scene(act(), act(), finish("rain"), memory=memory)
    scene.run()
    assert [turn.output for turn in memory.history.turns()] == ["rain"]


@cases("position", [0, 1, 2, 3])
def test_run_resumes_in_the_question_of_a_rule(position: int) -> None:
    replies: list[ScriptedReply] = [act(), act(), finish("rain")]
    replies.insert(position, ModelError("down"))
    scene = Scene(*replies)
    if position == 3:
        assert scene.run().output == "rain"
        return
    with pytest.raises(ModelError) as raised:
        scene.run()
    taken = gx.snapshot_of(raised.value)
    assert taken is not None
    stored = Snapshot.from_json(taken.to_json(), scene.executor.graph)
    assert stored.node == ("answer_repeats" if position == 2 else "plan")
    assert scene.executor.run(stored).output == "rain"
    assert scene.weather.calls == [OTHER]


def test_answer_of_a_rule_is_streamed() -> None:
    scene = Scene(act(), act(), finish("It rains."))
    assert "".join(scene.executor.stream_answer(f"How is {OTHER}?")) == "It rains."


@cases(
    ("rule", "lacks", "functions"),
    [
        ("no_dummies", {"narrow": None}, "narrow"),
        ("no_repeats", {"narrow": None, "conclude": None}, "narrow and no conclude"),
    ],
)
def test_agent_must_be_able_to_ask_again(rule: RuleName, lacks: dict[str, Any], functions: str) -> None:
    agent = gx.create_structured_agent(ScriptedModel([]), [echo], rules=[rule])
    with pytest.raises(InputError, match=rf"rules=\('{rule}',\) but no {functions} function; give it narrow"):
        gx.AgentExecutor(agent=replace(agent, **lacks), tools=[echo])


def test_text_agent_is_asked_to_conclude() -> None:
    acted = "Thought: hm\nAction: echo\nAction Input: a"
    model = ScriptedModel([acted, acted, "Final Answer: a"])
    agent = replace(gx.create_react_agent(model, [echo]), rules=("no_immediate_repeats",))
    result = gx.AgentExecutor(agent=agent, tools=[echo]).run("Say a.")
    assert (result.output, len(result.steps)) == ("a", 1)
    last = model.requests[-1]
    assert isinstance(last, ChatRequest)
    assert str(last.messages[-1]).count("return a final answer based on the previous steps:") == 1


@cases(
    ("rules", "message"),
    [
        (["no_repeat"], "rules has 'no_repeat'; give names of no_dummies, no_repeats, no_immediate_repeats"),
        (["no_repeats", "no_immediate_repeats"], "rules has no_repeats and no_immediate_repeats; give one of them"),
    ],
)
def test_invalid_rules_are_refused(rules: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        gx.create_structured_agent(ScriptedModel([]), [echo], rules=rules)


@cases("repeatable", [False, True])
def test_call_that_stands_twice_is_made_once(repeatable: bool) -> None:
    paid: list[float] = []

    @gx.tool(repeatable=repeatable)
    def pay(amount: float, to: str = "Bo") -> str:
        """Pay an amount."""
        paid.append(amount)
        return f"paid {len(paid)}"

    arguments = ('{"amount": 5}', '{"amount": 5.0, "to": "Bo"}', '{"amount": 6}')
    calls = [ToolCall(f"p{number}", "pay", one) for number, one in enumerate(arguments)]
    unknown = [ToolCall(f"u{number}", "other", "{}") for number in range(2)]
    model = ScriptedModel([ModelReply("", tool_calls=(*calls, *unknown)), "done"])
    agent = gx.create_tool_calling_agent(model, [pay], rules=["no_immediate_repeats"])
    executor = gx.AgentExecutor(agent=agent, tools=[pay], handle_parsing_errors=True, tool_concurrency=1)
    result = executor.run("q")
    assert paid == ([5, 5, 6] if repeatable else [5, 6])
    assert len(result.steps) == 5
    assert [step.observation for step in result.steps[:3]] == [
        f"paid {n}" for n in ([1, 2, 3] if repeatable else [1, 1, 2])
    ]


def test_tool_calling_agent_refuses_no_dummies() -> None:
    with pytest.raises(InputError, match="a tool-calling agent shows no worked examples; leave it out"):
        gx.create_tool_calling_agent(ScriptedModel([]), [echo], rules=["no_dummies"])


@gx.tool
def switch(state: Literal["on", "off"], now: bool = True) -> str:
    """Switch the light."""
    return f"{state} {now}"


@gx.tool(repeatable=True)
def clock() -> str:
    """Tell the time."""
    return "noon"


@cases(
    ("tools", "options", "nodes"),
    [
        ([echo], {"rules": ["no_dummies"], "examples": ()}, []),
        ([switch, clock], {"rules": ["no_dummies"]}, []),
        ([clock], {"rules": ["no_immediate_repeats"]}, []),
        ([clock], {"rules": ["no_repeats"]}, ["answer_repeats"]),
        ([clock, switch], {"rules": ["no_immediate_repeats"]}, ["answer_repeats"]),
        ([clock, echo], {}, ["avoid_dummies", "answer_repeats"]),
    ],
)
def test_rule_without_effect_adds_no_node(tools: list[AnyTool], options: dict[str, Any], nodes: list[str]) -> None:
    agent = gx.create_structured_agent(ScriptedModel([]), tools, **options)
    executor = gx.AgentExecutor(agent=agent, tools=tools, max_iterations=5)
    assert [name for name in ("avoid_dummies", "answer_repeats") if name in executor.graph] == nodes
    bounds = executor.verify().bounds
    assert bounds is not None
    # One tool has arguments that can be copied.
    assert bounds.model_calls.number == 5 * (1 + len(nodes))
