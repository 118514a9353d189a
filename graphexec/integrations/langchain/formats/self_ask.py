"""The self-ask agent (Press et al. 2022): it writes follow-up questions, which one tool answers."""

from __future__ import annotations

from collections.abc import Sequence

from graphexec._mistakes import explain_creation
from graphexec._parsing import compile_lazily
from graphexec.actions import Decision
from graphexec.agents.agent import Agent, remakeable
from graphexec.agents.prompt import validate_tools
from graphexec.agents.reading.labels import Label, Spelling, read_text_after
from graphexec.agents.reading.text_parsing import BOTH, reject_cut_reply
from graphexec.agents.reading.turns import Value, read_text
from graphexec.agents.scratchpad import TextProtocol, make_form, make_scratchpad, make_text_agent
from graphexec.errors import InputError, ParseError
from graphexec.messages import Model, ModelReply
from graphexec.tools import AnyTool

SELF_ASK_PROMPT = """\
Question: Which was opened first, the Eiffel Tower or the Brooklyn Bridge?
Are follow up questions needed here: Yes.
Follow up: When was the Eiffel Tower opened?
Intermediate answer: The Eiffel Tower was opened in 1889.
Follow up: When was the Brooklyn Bridge opened?
Intermediate answer: The Brooklyn Bridge was opened in 1883.
So the final answer is: the Brooklyn Bridge

Question: Into which sea does the river flow that Vienna lies on?
Are follow up questions needed here: Yes.
Follow up: Which river does Vienna lie on?
Intermediate answer: Vienna lies on the Danube.
Follow up: Into which sea does the Danube flow?
Intermediate answer: The Danube flows into the Black Sea.
So the final answer is: the Black Sea

Question: {input}
Are follow up questions needed here:{agent_scratchpad}"""

STOP = ("\nIntermediate answer:",)

# The required name of the only tool.
INTERMEDIATE_ANSWER = "Intermediate Answer"

_INTERMEDIATE = Label("Intermediate answer")
# The labels in any case anywhere on the last line, with emphasis around them.
_FOLLOW_UP = compile_lazily(r"(?i)[*_]{0,3}follow[ \t-]?up[ \t]{0,3}\d{0,3}[ \t]{0,3}[*_]{0,3}[:：]")
_FINISH = compile_lazily(r"(?i)[*_]{0,3}so the final answer is[ \t]{0,3}[*_]{0,3}[:：]")


# The steps as a text that the model continues: its questions and their answers.
format_scratchpad = make_scratchpad(lambda step: f"{step.action.log}\nIntermediate answer: {step.text}\n")


@remakeable
@explain_creation
def create_self_ask_agent(
    model: Model,
    tools: Sequence[AnyTool],
    prompt: str = SELF_ASK_PROMPT,
    *,
    stop: Sequence[str] = STOP,
    protocol: TextProtocol = "chat",
) -> Agent:
    """Make an agent that divides a question into follow-up questions and looks up each of them.

    `tools` is a list of one tool, named "Intermediate Answer"; otherwise raises `InputError`. `prompt` is a template
    with `{agent_scratchpad}`, and `{tools}` if the model is to see the tool's examples. The options and the other
    errors raised are as in `create_react_agent`.
    """
    tools = validate_tools(tools)
    names = [tool.name for tool in tools]
    if names != [INTERMEDIATE_ANSWER]:
        given = ", ".join(names) or "no tool"
        raise InputError(
            f"the self-ask agent is given {given}; give it exactly one tool, named with "
            f'@tool(name="{INTERMEDIATE_ANSWER}")'
        )
    asked = make_form(prompt, tools, required=("agent_scratchpad",), scratchpad=format_scratchpad)
    return make_text_agent(model, read, asked, stop=stop, protocol=protocol, kind="self_ask")


def read(reply: ModelReply) -> Decision:
    """Parse the last line that is not blank: a follow-up question, or the final answer.

    Raises `ParseError` if the line is neither or both, for a question that is blank or behind an answer, and if it was
    cut at the token limit.
    """
    whole = read_text(reply, _find_value, _INTERMEDIATE)
    text = whole.text
    line = whole.log.strip().rpartition("\n")[2]
    follow_up = _FOLLOW_UP().search(line)
    finish = _FINISH().search(line)
    if (follow_up and _FINISH().search(whole.log)) or _find_value(text[whole.end :]):
        raise ParseError(f"{BOTH}: {text}", llm_output=text)
    if finish:
        return whole.finish(read_text_after(line, finish))
    question = read_text_after(line, follow_up) if follow_up else ""
    if not question:
        observation = "Your last line has to be 'Follow up: <a question>' or 'So the final answer is: <the answer>'."
        prose = _FOLLOW_UP().search(text) is None
        raise ParseError(f"Could not parse LLM output: `{text}`", observation=observation, llm_output=text, prose=prose)
    reject_cut_reply(whole)
    return whole.act(INTERMEDIATE_ANSWER, question)


def _find_value(text: str) -> Value | None:
    found = [one.end() for pattern in (_FOLLOW_UP(), _FINISH()) if (one := pattern.search(text))]
    return Value(min(found), Spelling.TRANSLATED) if found else None
