"""A run of a scripted model, as `graphexec run --record` writes it."""

from graphexec import AgentExecutor, create_structured_agent, draw, models, tool
from tests.cli.conversations import answer_text, tool_call_text

TRACE = "trace.jsonl"
QUESTION = "What is 2 * 2?"


@tool
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


def make_executor(*first: str, max_iterations: int = 15) -> AgentExecutor:
    """Return an executor whose model gives the `first` replies, then calls the tool, and answers."""
    model = models.ScriptedModel([*first, tool_call_text("double", number=2), answer_text("It is 4.")])
    agent = create_structured_agent(model, [double], rules=())
    return AgentExecutor(agent=agent, tools=[double], handle_parsing_errors=True, max_iterations=max_iterations)


def recorder_of(*first: str, max_iterations: int = 15, to: int | None = None) -> draw.Recorder:
    """Return the recorder of a run, or of its first records."""
    executor = make_executor(*first, max_iterations=max_iterations)
    recorder = draw.Recorder(executor.verify(), inputs=QUESTION)
    for event in executor.stream(QUESTION):
        if to is not None and len(recorder.records) >= to:
            break
        recorder(event)
    return recorder


def record_run(*first: str, max_iterations: int = 15) -> str:
    return recorder_of(*first, max_iterations=max_iterations).recording.to_json_lines()
