"""A structured agent can require a call of a tool before its answer; for the smallest models the question decides."""

import json
from typing import Annotated, Any, Literal

from pydantic import Field

from graphexec import AgentExecutor, create_agent, create_structured_agent, messages, models, tool
from graphexec.agents.small.tool_choice import find_subjects, is_tiny, needs_tool
from tests.parameters import cases


@tool
def age(person: str) -> int:
    """Look up the age of a person."""
    return len(person)


@tool
def today() -> str:
    """Tell the date of today."""
    return "2031-05-17"


CALL = json.dumps({"action": "age", "action_input": {"person": "Ada"}})
DONE = json.dumps({"action": "final_answer", "answer": "3"})


def choices(request: Any) -> list[str]:
    """Return the actions that the schema of a request allows."""
    assert isinstance(request, messages.ChatRequest)
    assert request.schema is not None
    return [branch["properties"]["action"]["const"] for branch in request.schema["anyOf"]]


class Tiny(models.ScriptedModel):
    """A scripted model with the name of the default local one."""

    name = models.LocalModel(download=False).name


def first_choices(model: models.ScriptedModel, question: str, **options: Any) -> list[str]:
    executor = AgentExecutor(agent=create_structured_agent(model, [age, today], **options), tools=[age, today])
    executor.run(question)
    return choices(model.requests[0])


@cases(("choice", "allowed"), ("required", ["age", "today"]), ("age", ["age"]))
def test_call_is_required_until_a_tool_is_called(choice: str, allowed: list[str]) -> None:
    model = models.ScriptedModel(["unreadable", CALL, DONE])
    agent = create_structured_agent(model, [age, today], tool_choice=choice)
    result = AgentExecutor(agent=agent, tools=[age, today], handle_parsing_errors=True).run("How old is Ada?")
    assert result.output == "3"
    assert list(map(choices, model.requests)) == [allowed, allowed, ["age", "today", "final_answer"]]


@cases(
    ("model", "tools", "options", "settings"),
    (models.ScriptedModel([DONE]), [age], {"tool_choice": "required"}, {"max_model_calls": 0}),
    # An agent without tools answers.
    (Tiny([DONE]), [], {}, {}),
)
def test_last_answer_needs_no_call(model: models.ScriptedModel, tools: Any, options: Any, settings: Any) -> None:
    agent = create_structured_agent(model, tools, **options)
    AgentExecutor(agent=agent, tools=tools, early_stopping_method="generate", **settings).run("How old is Ada?")
    assert choices(model.requests[0]) == ["final_answer"]


@tool
def delete_file(path: str) -> str:
    """Delete a file."""
    return path


SMALL_TALK = """Hello! | Hi | Hello there | Thank you very much. | Thanks a million! | Good job | Well done, Ada! | ...
How are you? | Who are you? | Which tools do you have? | What can you do? | My name is Ada. | Have a nice day! | Bye :3
Thanks.That was all | yes/no | I'm fine, and you're great | 👍 | <3 | Dziękuję! | Спасибо | 谢谢 | ありがとう | Ça va?
Vielen Dank für die Hilfe! | Guten Morgen, Herr Müller | ¡Gracias! | नमस्ते | Tell me a joke | THANK YOU SO MUCH"""


@cases("question", *[one.strip() for line in SMALL_TALK.splitlines() for one in line.split("|")])
def test_smallest_models_answer_small_talk(question: str) -> None:
    assert not needs_tool(question, find_subjects([age, today, delete_file]))
    assert first_choices(Tiny([DONE]), question) == ["age", "today", "final_answer"]


QUESTIONS = [
    *("What is the age of Ada?", "Hello, tell me her age", "ages of persons", "12", "PX-9", 'Look up "Ada"'),
    *("Look up 'Ada'", "「Ada」とは", "ada@example.org", "notes/a/b", "/etc/hosts", "~/ada", "C:\\ada", "ada.txt"),
    *("https://ada", "What is the date?"),
]


@cases("question", *QUESTIONS)
def test_smallest_models_must_call_a_tool(question: str) -> None:
    assert first_choices(Tiny([CALL, DONE]), question) == ["age", "today"]
    assert first_choices(Tiny([DONE]), question, tool_choice="auto")[-1] == "final_answer"


@cases(
    ("question", "is_meant"),
    ("How humid is it?", True),
    ("Translate it, please", True),
    ("into French", True),
    ("the rooms", True),
    ("roof", False),
    ("number, string, properties", False),
)
def test_words_of_tools_mean_them(question: str, is_meant: bool) -> None:
    @tool
    def humidity(room: str) -> int:
        """Measure it."""
        return len(room)

    @tool
    def translation(words: str, target: Annotated[Literal["French", "German"], Field(description="the idiom")]) -> str:
        """Put it into another tongue."""
        return words + target

    assert needs_tool(question, find_subjects([humidity, translation])) == is_meant


def test_inferred_choice_is_shown() -> None:
    assert "(structured), tool_choice=inferred:" in repr(create_agent(Tiny([]), [age]))
    assert "(structured):" in repr(create_agent(models.ScriptedModel([]), [age]))


@cases(
    ("name", "tiny"),
    *((name, True) for name in ("SmolLM2-135M-Instruct", "smollm2:135m", "ai/smollm2-135m")),
    *((name, False) for name in ("SmolLM2-1.7B", "qwen3:0.6b", "gpt-5-mini")),
)
def test_small_model_is_known_at_a_server_too(name: str, tiny: bool) -> None:
    assert is_tiny(models.OpenAICompatible(name, base_url="http://127.0.0.1:1/v1")) is tiny
    assert first_choices(models.ScriptedModel([DONE]), "How old is Ada?")[-1] == "final_answer"


def test_answer_of_an_example_is_not_an_argument() -> None:
    """The smallest models copy the answer to the greeting into a call."""
    copied = json.dumps({"action": "age", "action_input": {"person": "Hello! How can I help you?"}})
    model = models.ScriptedModel([copied, DONE])
    agent = create_structured_agent(model, [age, today])
    AgentExecutor(agent=agent, tools=[age, today]).run("Who is it?")
    assert choices(model.requests[1]) == ["today", "final_answer"]
