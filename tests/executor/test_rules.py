"""The rules of an agent: nodes that keep it from copying examples and from repeating calls."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel

import graphexec as gx
from graphexec import actions, effects, errors, kernel, messages
from graphexec.agents import RuleName, WorkedExample
from graphexec.agents.calls import NOT_REPEATED, CallRules
from graphexec.executor import Acted, Replied, Stopped, limit_reached
from graphexec.executor.rules import MOST_REQUESTS
from graphexec.integrations import langchain
from graphexec.memory import BufferMemory
from graphexec.models import ScriptedModel
from graphexec.models.scripted import ScriptedReply
from graphexec.nodes import no_immediate_repeats, no_repeats, stop_repeats
from graphexec.tools import AnyTool
from tests.executor.actors import call, echo, fail, run_executor, snapshot_in, statuses
from tests.parameters import cases
from tests.semantics.endings import noting_tool

# What the synthesised examples use, and what they do not.
DUMMY, OTHER = "Tartu", "Oslo"
# A question without a value that could be a city, and one with it.
NAMELESS, HERE = "How is it there?", f"How is {OTHER}?"


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

    def run(self, question: Any = HERE) -> Any:
        return self.executor.run(question)

    @property
    def branches(self) -> list[list[str]]:
        """The actions that the schema of each request allowed."""
        return [branches_of(request) for request in self.model.requests]


def branches_of(request: Any) -> list[str]:
    return [branch["properties"]["action"]["const"] for branch in request.schema["anyOf"]]


def doubling() -> tuple[AnyTool, list[float]]:
    """Return a tool that doubles numbers, and the list of the numbers."""
    seen: list[float] = []

    @gx.tool
    def double(number: float) -> float:
        """Double a number."""
        seen.append(number)
        return 2 * number

    return double, seen


def call_of(name: str, text: str = "what") -> str:
    return json.dumps({"action": name, "action_input": {"text": text}})


def example_of(name: str, **arguments: Any) -> WorkedExample:
    return WorkedExample("?", ((name, arguments, "1"),), "1")


def statuses_of(result: Any) -> list[str]:
    return [step.status for step in result.steps]


def structured(tools: Sequence[AnyTool], *replies: ScriptedReply, **options: Any) -> tuple[Any, ScriptedModel]:
    """Return an executor of a structured agent with a scripted model, and the model."""
    model = ScriptedModel(replies)
    return gx.AgentExecutor(agent=gx.create_structured_agent(model, tools, **options), tools=tools), model


ALL, TOWN, LAST = ["weather", "local_time", "final_answer"], ["local_time", "final_answer"], ["final_answer"]
CALL, COPY, COPIED_TOWN, END = act(), act(DUMMY), act("Bergamo", name="local_time"), finish()
IMMEDIATE: dict[str, Any] = {"rules": ["no_immediate_repeats"]}
# Two calls in one reply.
BOTH = (call("echo", "1", text="a"), call("echo", "2", text="b"))


CALLS = (CALL, act("Rome"), act("Rome", name="local_time"))


# ---- repeats


@cases(
    ("replies", "options", "calls", "branches", "steps"),
    # The second call is answered without one.
    ([CALL, CALL, END], {}, [OTHER], [ALL, ALL, LAST], 1),
    # Defaults are compared as arguments.
    *(([act(unit="C"), same, END], {}, [OTHER], [ALL, ALL, LAST], 1) for same in (act(unit="C"), CALL)),
    ([CALL, act("Rome"), END], {}, [OTHER, "Rome"], [ALL, ALL, ALL], 2),
    ([CALL, act(unit="F"), END], {}, [OTHER, OTHER], [ALL, ALL, ALL], 2),
    ([CALL, act(name="local_time"), END], {}, [OTHER], [ALL, ALL, ALL], 2),
    ([CALL, CALL, END], {"options": {"repeatable": True}}, [OTHER, OTHER], [ALL, ALL, ALL], 2),
    ([COPY, COPY, END], {"rules": ()}, [DUMMY, DUMMY], [ALL, ALL, ALL], 2),
    ([CALL, act(name="WEATHER"), END], {"tool_lookup": "case_insensitive"}, [OTHER], [ALL, ALL, LAST], 1),
    # The immediate rule allows a call after another one, but not after a reply without a call.
    ([CALL, act("Rome"), CALL, END], {"rules": ["no_repeats"]}, [OTHER, "Rome"], [*[ALL] * 3, LAST], 2),
    ([CALL, act("Rome"), CALL, END], IMMEDIATE, [OTHER, "Rome", OTHER], [ALL] * 4, 3),
    ([CALL, "garbage", CALL, END], IMMEDIATE, [OTHER], [*[ALL] * 3, LAST], 2),
    ([CALL, act(name="nope"), CALL, END], IMMEDIATE, [OTHER], [*[ALL] * 3, LAST], 2),
    ([CALL, act(unit="K"), CALL, END], IMMEDIATE, [OTHER], [*[ALL] * 3, LAST], 2),
)
def test_only_repeated_calls_are_not_made(
    replies: list[str], options: dict[str, Any], calls: list[str], branches: list[list[str]], steps: int
) -> None:
    scene = Scene(*replies, **options)
    result = scene.run(f"{OTHER} or Rome?")
    assert (result.output, scene.weather.calls, scene.branches) == ("done", calls, branches)
    assert (len(result.steps), result.spent[effects.MODEL_CALLS]) == (steps, len(branches))


def test_repeat_is_answered_with_the_earlier_observation() -> None:
    # A refused answer repeats the observation.
    scene = Scene(CALL, CALL, CALL, END)
    result = scene.run()
    assert scene.weather.calls == [OTHER]
    first, second = result.steps
    assert (second.observation, second.status) == (first.observation, "ok")
    assert second.text.startswith(f"{first.observation}\n(This is the result of the same call")
    assert (scene.branches, result.spent["tool_calls"]) == ([ALL, ALL, LAST, ALL], 1)
    # The repeat of one call hides no repeat of another.
    repeats = [call("echo", number, text=text) for number, text in (("3", "a"), ("4", "b"))]
    executor, _ = tool_calling(BOTH, repeats[0], "", repeats[1], "", "done", rules=["no_immediate_repeats"])
    result = executor.run("q")
    assert (result.spent["tool_calls"], [step.observation for step in result.steps]) == (2, ["a", "b", "a", "b"])
    # A step that was trimmed is not asked about, and not repeated.
    scene = Scene(CALL, act("Rome"), CALL, END, trim_intermediate_steps=1)
    result = scene.run("Oslo or Rome?")
    assert scene.weather.calls == ["Oslo", "Rome"]
    assert [step.observation for step in result.steps] == ["1: rain in Oslo", "2: rain in Rome", "1: rain in Oslo"]
    assert LAST not in scene.branches
    # The repeated result of a return_direct tool is the answer.
    direct, seen = noting_tool("direct", return_direct=True)
    several = (call("direct", "1", text="a"), call("echo", "2", text="b"))
    model = ScriptedModel([several, call("direct", "3", text="a")])
    agent = gx.create_tool_calling_agent(model, [direct, echo], rules=["no_repeats"])
    result = gx.AgentExecutor(agent=agent, tools=[direct, echo]).run("q")
    assert (result.output, result.reason, seen) == ("a", "return_direct", ["a"])
    assert len(model.requests) == 2
    # The three nodes that read a reply share what the agent read.
    scene = Scene(CALL, act("Rome"), END)
    agent, replies = scene.executor.agent, list[Any]()

    def read(reply: Any) -> Any:
        replies.append(reply)
        return agent.read(reply)

    gx.AgentExecutor(agent=replace(agent, read=read), tools=scene.tools).run("Oslo or Rome?")
    assert len(replies) == 3


@cases(("first", "second"), (5, "5.0"), ("5", 5), ("5.0", "5"))
def test_arguments_are_compared_after_validation(first: Any, second: Any) -> None:
    double, seen = doubling()
    replies = [json.dumps({"action": "double", "action_input": {"number": one}}) for one in (first, second)]
    structured([double], *replies, finish("10"))[0].run("Double 5.")
    assert seen == [5.0]


# Unless its tool is repeatable, or another call is between.
@cases(
    ("tools", "replies", "options", "statuses"),
    ([echo, fail], [call_of("fail")] * 3, {}, ["error", "error"]),
    ([replace(fail, repeatable=True)], [call_of("fail")] * 3, {}, ["error"] * 3),
    ([Weather().tool, fail], [CALL, call_of("fail"), CALL], IMMEDIATE, ["ok", "error", "ok"]),
)
def test_failed_call_is_made_again_once(tools: Any, replies: Any, options: Any, statuses: list[str]) -> None:
    executor, model = structured(tools, *replies, END, **options)
    result = executor.run(f"say what in {OTHER}?")
    assert (result.output, statuses_of(result)) == ("done", statuses)
    assert (branches_of(model.requests[-1]) == LAST) == (statuses == ["error", "error"])


@cases("rule", "no_repeats", "no_immediate_repeats")
def test_note_of_a_repeated_call_does_not_grow(rule: RuleName) -> None:
    scene = Scene(CALL, repeat_last=True, rules=[rule], max_iterations=6)
    first, *others = scene.run().steps
    assert len(others) == 5
    assert {step.text for step in others} == {f"{first.observation}{NOT_REPEATED}"}
    # A caller may cut the steps between two turns.
    turns = Scene(CALL, repeat_last=True, rules=[rule], max_iterations=6)
    trimmed = CallRules(turns.executor.agent, turns.executor.tools, [rule])
    noted = trimmed.make_earlier_result(actions.Run({"input": OTHER}, actions.Steps(others[:1])), first.action)
    assert noted is None or noted.text == others[0].text


@cases("again", act(name="Weather"), act(name="WEATHER", unit="C"), act(unit="C"))
def test_failed_calls_are_compared_as_successful_ones(again: str) -> None:
    @gx.tool
    def weather(city: str, unit: Literal["C", "F"] = "C") -> str:
        """Get the weather in a city."""
        raise ValueError(f"{city} {unit}")

    model = ScriptedModel([act(unit="C"), again, again, END])
    agent = gx.create_structured_agent(model, [weather])
    executor = gx.AgentExecutor(agent=agent, tools=[weather], tool_lookup="case_insensitive")
    assert statuses_of(executor.run(HERE)) == ["error", "error"]
    assert branches_of(model.requests[-1]) == LAST


# ---- several calls in one reply


def tool_calling(*replies: ScriptedReply, rules: Sequence[RuleName] = ("no_repeats",)) -> tuple[Any, ScriptedModel]:
    model = ScriptedModel(replies)
    tools = [echo, Weather().tool]
    return gx.AgentExecutor(agent=gx.create_tool_calling_agent(model, tools, rules=rules), tools=tools), model


def test_repeats_among_several_calls_are_answered() -> None:
    # Only the new calls of a reply are made.
    first = call("echo", "1", text="a")
    more = (call("echo", "2", text="b"), call("echo", "3", text="a"), call("echo", "4", text="c"))
    result = run_executor(lambda: tool_calling(first, more, "done")[0])
    assert [step.observation for step in result.outcome.steps] == ["a", "b", "a", "c"]
    assert (result.spent["tool_calls"], statuses(result)) == (3, ["ok"] * 4)
    # Repeats of a whole reply are answered.
    executor, model = tool_calling(BOTH, BOTH, "a and b", rules=["no_immediate_repeats"])
    assert executor.run("q").output == "a and b"
    last = model.requests[-1]
    assert isinstance(last, messages.ChatRequest)
    assert (last.tool_choice, len(last.tools)) == ("none", 2)
    # An empty reply is no answer.
    executor, _ = tool_calling(BOTH[0], BOTH[0], "", "done")
    assert [step.observation for step in executor.run("q").steps] == ["a", "a"]
    # The chunks have each step once.
    second = (call("echo", "2", text="a"), call("echo", "3", text="c"))
    chunks = list(langchain.stream_chunks(tool_calling(BOTH[0], second, "done")[0], "q"))
    assert [chunk["steps"][0].observation for chunk in chunks if "steps" in chunk] == ["a", "a", "c"]
    assert [chunk["actions"][0].call_id for chunk in chunks if "actions" in chunk] == ["1", "2", "3"]
    assert chunks[-1]["output"] == "done"


# ---- dummies


@cases(
    ("replies", "agent", "question", "calls", "branches", "tools"),
    # Each tool whose argument is copied is left out.
    ([COPY, act(OTHER, name="local_time"), END], {}, NAMELESS, [], [ALL, TOWN, ALL], ["local_time"]),
    ([COPY, COPIED_TOWN, END], {}, NAMELESS, [], [ALL, TOWN, LAST], []),
    ([CALL, END], {}, HERE, [OTHER], [ALL, ALL], ["weather"]),
    ([COPY, COPY, END], {}, HERE, [], [ALL, TOWN, TOWN], []),
    (
        [COPY, act(OTHER, name="local_time"), END],
        {"tool_choice": "required"},
        HERE,
        [],
        [ALL[:2], TOWN, ALL],
        ["local_time"],
    ),
)
def test_copied_argument_is_not_used(
    replies: list[str], agent: dict[str, Any], question: str, calls: list[str], branches: Any, tools: list[str]
) -> None:
    scene = Scene(*replies, agent=agent)
    result = scene.run(question)
    assert (result.output, scene.weather.calls, scene.branches) == ("done", calls, branches)
    assert ([step.action.tool for step in result.steps], result.spent[effects.MODEL_CALLS]) == (tools, len(replies))


def test_arguments_of_observations_are_used() -> None:
    scene = Scene(act(DUMMY, name="local_time"), COPY, END)
    scene.run(f"What time is it in {DUMMY}?")
    assert scene.weather.calls == [DUMMY]
    scene = Scene(CALL, act("rain"), END, agent={"examples": [example_of("weather", city="rain")]})
    scene.run()
    assert scene.weather.calls == [OTHER, "rain"]


@cases("limit", 3, 4)
def test_insisting_model_never_calls_the_tool(limit: int) -> None:
    scene = Scene(COPY, repeat_last=True, max_iterations=limit)
    result = scene.run()
    assert isinstance(result.ending, gx.StoppedResponse)
    assert (scene.weather.calls, statuses_of(result)) == ([], ["bad_arguments"] * limit)
    why = f"weather was not called: city={DUMMY} is in neither the question nor an observation."
    assert why in result.steps[0].observation


PIXEL = messages.Image.from_bytes(bytes.fromhex("89504e470d0a1a0a"), "image/png")
USUAL = WorkedExample("is it raining, as usual?", (("weather", {"city": DUMMY}, "1"),), "")


@cases(
    ("inputs", "agent"),
    (f"How is {DUMMY}?", {}),
    (f"how is {DUMMY.upper()} today", {}),
    ({"input": NAMELESS, "chat_history": [{"role": "user", "content": f"I am in {DUMMY}."}]}, {}),
    ({"input": "How is the weather here?", "images": [PIXEL]}, {}),
    ("How is it here?", {"prompt": f"{{tools}} The user lives in {DUMMY}."}),
    ("Is it raining, as usual?", {"examples": [USUAL]}),
)
def test_argument_from_the_inputs_is_used(inputs: Any, agent: dict[str, Any]) -> None:
    scene = Scene(COPY, END, agent=agent)
    scene.run(inputs)
    assert scene.weather.calls == [DUMMY]


class Item(BaseModel):
    name: str
    unit: Literal["EUR", "USD"]


@gx.tool
def total(numbers: list[float], factor: float) -> float:
    """Add numbers."""
    return sum(numbers) * factor


@gx.tool
def price(basket: Any, items: tuple[Item, ...] = ()) -> int:
    """Return the price of a basket."""
    return len(items)


@gx.tool
def calculator(expression: str) -> str:
    """Calculate an expression."""
    return expression


@gx.tool
def forecast(city: str, days: int = 3) -> str:
    """Forecast the weather."""
    return f"{city} {days}"


PRODUCTS = ["What is 6 times 7?", "6*7", "6x7", "6 apples for 7 each", "Was ist sechs mal 7?"]
PRODUCT = {"expression": "6 * 7"}
SUM = {"numbers": [1000, 2], "factor": 37.0}
BASKETS: list[Any] = [{"basket": {"some basket": 317}}, {"basket": ["another basket", {"name": "jug", "unit": "EUR"}]}]
# Sums: the question, the numbers and the factor of the call, and its status.
SUMS = [
    ("Add 1,000 and 2, times 37.", [1000, 2], 37, "ok"),
    ("Add 1,000 and 2, times 37.0!", [1000, 2], 37, "ok"),
    ("Add 3 and 4, times 370.", [3, 4], 37, "bad_arguments"),
    ("Add 3 and 4, times 37.", [1000, 2], 37, "bad_arguments"),
    ("Add 3 and 4, times thirty-seven.", [3, 4], 37, "ok"),
    ("Add 3 and 4.", [3, 4], 5, "ok"),
]
COPIED_BASKETS: list[Any] = [
    *({"some basket": 2.5}, {"kettle": 2.5, "Some Basket": 3}, {"kettle": ["another basket"]}),
    *(["some basket", "kettle"], {"some basket": 317}),
]
OWN_BASKETS: list[Any] = [{"kettle": 2.5, "unit": "EUR", "name": "teapot"}, ["kettle"], {}]
KETTLE = "How much is a kettle for 2.5, please?"


@cases(
    ("tool", "examples", "arguments", "question", "status"),
    *((total, [SUM], {"numbers": few, "factor": by}, question, status) for question, few, by, status in SUMS),
    # An expression is compared by its numbers.
    *((calculator, [PRODUCT], PRODUCT, question, "ok") for question in PRODUCTS),
    # Parts of an argument may be copied.
    *((price, BASKETS, {"basket": basket}, KETTLE, "bad_arguments") for basket in COPIED_BASKETS),
    *((price, BASKETS, {"basket": basket}, KETTLE, "ok") for basket in OWN_BASKETS),
    # The default of a tool is not copied.
    (forecast, [{"city": "Rome", "days": 3}], {"city": OTHER, "days": 3}, HERE, "ok"),
)
def test_arguments_are_found_in_the_question(
    tool: AnyTool, examples: list[Any], arguments: dict[str, Any], question: str, status: str
) -> None:
    model = ScriptedModel([json.dumps({"action": tool.name, "action_input": arguments}), "none", END])
    worked = [example_of(tool.name, **one) for one in examples]
    agent = gx.create_structured_agent(model, [tool], examples=worked)
    result = gx.AgentExecutor(agent=agent, tools=[tool], handle_parsing_errors=True).run(question)
    assert statuses_of(result)[0] == status


@given(number=st.integers(2, 9_999), unit=st.sampled_from(["kg", " km", "°C", "k", "%", "pm", "x"]))
def test_number_with_a_unit_is_never_refused(number: int, unit: str) -> None:
    double, seen = doubling()
    reply = json.dumps({"action": "double", "action_input": {"number": number}})
    worked = [example_of("double", number=number)]
    executor, _ = structured([double], reply, END, reply, END, examples=worked, rules=["no_dummies"])
    executor.run(f"Please add {number}{unit}.")
    assert seen == [number]
    executor.run("Please add that number.")
    assert seen == [number]


@cases(("city", "statuses"), ("Lisbon", ["bad_arguments"]), ("Porto", ["bad_arguments", "ok"]))
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

    examples = [example_of("weather", city=one) for one in ("Lisbon", "Porto")]
    result = structured([weather], act("lisbon"), act(city), END, examples=examples)[0].run(NAMELESS)
    assert "lisbon is not capitalised" in result.steps[0].observation
    assert statuses_of(result) == statuses


def test_dummies_are_those_of_every_tool_but_no_enumerations() -> None:
    for reply, calls in ((act("Bergamo"), []), (act(unit="C"), [OTHER])):
        scene = Scene(reply, END)
        greeting = "Hello! How can I help you?"
        assert scene.executor.agent.dummies == (greeting, "Tartu", "Bergamo", "Kalmar", "Gdynia")
        scene.run()
        assert scene.weather.calls == calls


@cases(
    ("replies", "statuses"),
    # What cannot be read leaves the first reply.
    ([COPY, "garbage", END], ["bad_arguments"]),
    # Unknown and refused calls are left to the tools.
    (
        [act(name="nope"), json.dumps({"action": "weather", "action_input": {"town": "?"}}), END],
        ["unknown_tool", "bad_arguments"],
    ),
)
def test_other_replies_are_left_to_the_tools(replies: list[str], statuses: list[str]) -> None:
    result = Scene(*replies).run()
    assert (result.output, statuses_of(result)) == ("done", statuses)


def test_rules_judge_no_errors_of_others() -> None:
    # Parsing errors may still end the run.
    repeated = call_of("echo", "a")
    assert structured([echo], repeated, repeated, "[", END)[0].run("a").output == "done"

    # A user's validator may raise.
    def reject(value: str) -> str:
        if value == "no":
            raise KeyError(value)
        return value

    @gx.tool
    def careful(text: Annotated[str, AfterValidator(reject)]) -> str:
        """Be careful."""
        return text

    assert statuses_of(structured([careful], call_of("careful", "no"), END)[0].run("no")) == ["error"]


# ---- the machine


def test_rules_are_pieces_between_plan_and_parse() -> None:
    # Rules are nodes between plan and parse.
    graph = Scene(finish()).executor.graph
    moves = {(edge.source, edge.outcome.__name__): edge.target for edge in graph.edges}
    for outcome, nodes in (
        ("Replied", ["plan", "avoid_dummies", "answer_repeats", "parse"]),
        ("Acted", ["parse", "refuse_dummies", "refuse_repeats", "dispatch_tools"]),
    ):
        assert all(moves[source, outcome] == target for source, target in itertools.pairwise(nodes))
    assert "answer_repeats" in f"{graph:mermaid}"
    dummies, repeats = (Scene(finish(), rules=[name]).executor for name in ("no_dummies", "no_repeats"))
    assert [one.name for one in dummies.graph][-2:] == ["avoid_dummies", "refuse_dummies"]
    assert [one.name for one in repeats.graph][-2:] == ["answer_repeats", "refuse_repeats"]
    bare = {"plan", "parse", "dispatch_tools", "check_return_direct", "stopped_response"}
    assert {*Scene(rules=()).executor.graph.nodes} == bare
    # Rules are pieces.
    executor = Scene(finish(), rules=["no_dummies", "no_repeats"]).executor
    assert executor.seats()[Acted] == ("no_dummies", "no_repeats")
    assert executor.seats()[Replied] == ("no_dummies", "no_repeats")
    unplugged = executor.unplug("no_dummies", "no_repeats")
    assert len(unplugged.seats()) == 0
    assert unplugged.pieces == ()
    again = unplugged.plug(no_repeats())
    assert ([one.name for one in again.pieces], again.seats()[Acted]) == (["no_repeats"], ("no_repeats",))
    # Another agent brings its rules, but for those that were unplugged.
    others = [Scene(rules=()).executor.agent, Scene().executor.agent]
    assert [len(executor.with_agent(other).pieces) for other in others] == [0, 2]
    assert [one.name for one in executor.unplug("no_dummies").with_agent(others[1]).pieces] == ["no_repeats"]
    with pytest.raises(errors.GraphError, match="no_repeats is plugged twice"):
        executor.plug(no_repeats())
    with pytest.raises(errors.GraphError, match="no_repeats and no_immediate_repeats have a node answer_repeats"):
        executor.plug(no_immediate_repeats())


@cases("tools", 0, 1, 2, 3, 9)
def test_bound_counts_a_request_per_rule_and_tool(tools: int) -> None:
    several = [gx.tool(name=f"echo_{number}")(echo.function) for number in range(tools)]
    agent = gx.create_structured_agent(ScriptedModel([]), several)
    bounds = gx.AgentExecutor(agent=agent, tools=several, max_iterations=5).verify().bounds
    assert bounds is not None
    more = min(tools, MOST_REQUESTS) + 1 if tools else 0
    assert bounds.model_calls.number == 5 * (1 + more)


@given(
    replies=st.lists(st.sampled_from([*CALLS, COPY, COPIED_TOWN, END, "garbage"]), max_size=12),
    limit=st.none() | st.integers(0, 12),
    early=st.sampled_from(["force", "generate"]),
)
def test_limits_stop_the_rules_and_no_call_succeeds_twice(replies: list[str], limit: int | None, early: str) -> None:
    scene = Scene(*replies, COPY, repeat_last=True, max_model_calls=limit, early_stopping_method=early)
    result = scene.run(f"{OTHER} or Rome?")
    assert limit is None or len(scene.model.requests) <= limit + (early == "generate")
    assert DUMMY not in scene.weather.calls
    assert len(set(scene.weather.calls)) == len(scene.weather.calls)
    assert isinstance(result.ending, gx.AgentFinish | gx.StoppedResponse)


def test_nodes_behind_parse_see_every_call() -> None:
    approved: list[str] = []

    @gx.node(when_spent=limit_reached, asks=1)
    def approve(acted: Acted) -> kernel.Asks[effects.AskHuman, Acted]:
        """Ask a person."""
        yield from kernel.ask(effects.AskHuman(acted.actions[0].tool))
        return acted

    def answer_person(question: effects.AskHuman) -> str:
        approved.append(question.question)
        return "yes"

    scene = Scene(act(), act(), act(), finish(), handlers={effects.AskHuman: answer_person})
    graph = scene.executor.graph
    routes = gx.on(Acted, graph["dispatch_tools"]) | gx.on(Stopped, graph["stopped_response"])
    executor = scene.executor.splice(gx.edges(approve, routes), after=graph["parse"], on=Acted)
    assert executor.run(HERE).output == "done"
    assert (approved, scene.weather.calls) == (["weather", "weather"], [OTHER])
    assert [one for one in executor.verify().findings if one.code == "GX027"] == []


def test_rules_work_with_other_parts() -> None:
    # Stop repeats and rules work together.
    scene = Scene(act(), repeat_last=True)
    result = scene.executor.plug(stop_repeats()).run(HERE)
    assert (result.reason, scene.weather.calls) == ("repeats", [OTHER])
    # The answer of a rule is saved and streamed.
    memory = BufferMemory(as_messages=True)
    scene = Scene(CALL, CALL, finish("It rains."), memory=memory)
    assert "".join(scene.executor.stream_answer(HERE)) == "It rains."
    assert [turn.output for turn in memory.history.turns()] == ["It rains."]
    # A text agent is asked to conclude.
    acted = "Thought: hm\nAction: echo\nAction Input: a"
    model = ScriptedModel([acted, acted, "Final Answer: a"])
    agent = replace(gx.create_react_agent(model, [echo]), rules=("no_immediate_repeats",))
    result = gx.AgentExecutor(agent=agent, tools=[echo]).run("Say a.")
    assert (result.output, len(result.steps)) == ("a", 1)
    last = model.requests[-1]
    assert isinstance(last, messages.ChatRequest)
    assert str(last.messages[-1]).count("return a final answer based on the previous steps:") == 1


@cases("position", 0, 1, 2, 3)
def test_run_resumes_in_the_question_of_a_rule(position: int) -> None:
    replies: list[ScriptedReply] = [act(), act(), finish("rain")]
    replies.insert(position, errors.ModelError("down"))
    scene = Scene(*replies)
    if position == 3:
        assert scene.run().output == "rain"
        return
    with pytest.raises(errors.ModelError) as raised:
        scene.run()
    taken = snapshot_in(raised.value)
    stored = kernel.Snapshot.from_json(taken.to_json(), scene.executor.graph)
    assert stored.node == ("answer_repeats" if position == 2 else "plan")
    assert scene.executor.run(stored).output == "rain"
    assert scene.weather.calls == [OTHER]


@cases(("rule", "lacks"), ("no_dummies", ["narrow"]), ("no_repeats", ["narrow", "conclude"]))
def test_agent_must_be_able_to_ask_again(rule: RuleName, lacks: list[str]) -> None:
    agent = gx.create_structured_agent(ScriptedModel([]), [echo], rules=[rule])
    without: dict[str, Any] = dict.fromkeys(lacks)
    functions = " and no ".join(lacks)
    with pytest.raises(errors.InputError, match=rf"^{rule} asks .* no {functions} function; give it narrow"):
        gx.AgentExecutor(agent=replace(agent, **without), tools=[echo])


@cases(
    ("make", "rules", "facts"),
    (gx.create_structured_agent, ["no_repeat"], ("'no_repeat'", "no_dummies, no_repeats, no_immediate_repeats")),
    (gx.create_structured_agent, ["no_repeats", "no_immediate_repeats"], ("and no_immediate_repeats; give one",)),
    (gx.create_tool_calling_agent, ["no_dummies"], ("shows no worked examples; leave it out",)),
)
def test_invalid_rules_are_refused(make: Any, rules: Any, facts: tuple[str, ...]) -> None:
    with pytest.raises(errors.InputError) as caught:
        make(ScriptedModel([]), [echo], rules=rules)
    assert all(fact in str(caught.value) for fact in facts)


@cases("repeatable", False, True)
def test_call_that_stands_twice_is_made_once(repeatable: bool) -> None:
    paid: list[float] = []

    @gx.tool(repeatable=repeatable)
    def pay(amount: float, to: str = "Bo") -> str:
        """Pay an amount."""
        paid.append(amount)
        return f"paid {len(paid)}"

    arguments = ('{"amount": 5}', '{"amount": 5.0, "to": "Bo"}', '{"amount": 6}')
    calls = [messages.ToolCall(f"p{number}", "pay", one) for number, one in enumerate(arguments)]
    unknown = [messages.ToolCall(f"u{number}", "other", "{}") for number in range(2)]
    model = ScriptedModel([messages.ModelReply("", tool_calls=(*calls, *unknown)), "done"])
    agent = gx.create_tool_calling_agent(model, [pay], rules=["no_immediate_repeats"])
    executor = gx.AgentExecutor(agent=agent, tools=[pay], handle_parsing_errors=True, tool_concurrency=1)
    result = executor.run("q")
    assert paid == ([5, 5, 6] if repeatable else [5, 6])
    assert len(result.steps) == 5
    numbers = [1, 2, 3] if repeatable else [1, 1, 2]
    assert [step.observation for step in result.steps[:3]] == [f"paid {number}" for number in numbers]


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
    ([echo], {"rules": ["no_dummies"], "examples": ()}, []),
    ([switch, clock], {"rules": ["no_dummies"]}, []),
    ([clock], {"rules": ["no_immediate_repeats"]}, []),
    ([clock], {"rules": ["no_repeats"]}, ["answer_repeats"]),
    ([clock, switch], {"rules": ["no_immediate_repeats"]}, ["answer_repeats"]),
    ([clock, echo], {}, ["avoid_dummies", "answer_repeats"]),
)
def test_rule_without_effect_adds_no_node(tools: list[AnyTool], options: dict[str, Any], nodes: list[str]) -> None:
    agent = gx.create_structured_agent(ScriptedModel([]), tools, **options)
    executor = gx.AgentExecutor(agent=agent, tools=tools, max_iterations=5)
    assert [name for name in ("avoid_dummies", "answer_repeats") if name in executor.graph] == nodes
    bounds = executor.verify().bounds
    assert bounds is not None
    # One tool has arguments that can be copied.
    assert bounds.model_calls.number == 5 * (1 + len(nodes))
