"""The XML agent: tools, inputs and answers in tags, for models that are good at XML."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from itertools import dropwhile

from graphexec._mistakes import explain_creation
from graphexec._parsing import compile_lazily
from graphexec.actions import AgentAction, AgentStep, Decision
from graphexec.agents.agent import Agent, remakeable
from graphexec.agents.prompt import format_observation, names_of, validate_tools
from graphexec.agents.reading.labels import Spelling
from graphexec.agents.reading.text_parsing import BOTH, find_tool, make_unreadable_error, reject_cut_reply
from graphexec.agents.reading.turns import Value, find_value_from, read_text
from graphexec.agents.scratchpad import TextProtocol, make_form, make_scratchpad, make_text_agent
from graphexec.errors import ParseError
from graphexec.messages import Model, ModelReply
from graphexec.tools import AnyTool

XML_PROMPT = """\
Answer the question of a person. You have these tools:

{tools}

To use one, write its name and its input in tags; what it returns comes back between <observation> and </observation>:
<tool>search</tool><tool_input>weather in Oslo</tool_input>
<observation>4 degrees, rain</observation>

When you know the answer, write it in tags, too:
<final_answer>It is 4 degrees in Oslo, and it rains.</final_answer>

Inside an input or an answer, write &lt; for the < of any of these tags.

Question: {input}
{agent_scratchpad}"""

STOP = ("</tool_input>",)

_NAMES = "(?i:tool|tool_input|observation|final_answer)"
_TAG = compile_lazily(rf"<(/?{_NAMES})[ \t]{{0,3}}>")
# A tag that decides what the reply is.
_FIRST = ("tool", "final_answer", "observation")
_TOOL = compile_lazily(r"(?i)<tool[ \t]{0,3}>")
_ELEMENT = compile_lazily(r"(?i)<(?:tool_input|final_answer)[ \t]{0,3}>")
_TAG_OR_FENCE = compile_lazily(rf"(?:(?m:^)[ \t]{{0,3}}|(?<=>)\s{{0,9}})```(?s:.*?)```|<(/?{_NAMES})[ \t]{{0,3}}>")

# The `<` of one of the agent's tags, and its escaped form: `&lt;`, with one more `amp;` for each further escape.
_BEHIND = rf"(?=/?{_NAMES}[ \t]{{0,3}}>)"
_PLAIN = compile_lazily(rf"(<|&(?:amp;)*lt;){_BEHIND}")
_ESCAPED = compile_lazily(rf"&((?:amp;)*)lt;{_BEHIND}")


@remakeable
@explain_creation
def create_xml_agent(
    model: Model,
    tools: Sequence[AnyTool],
    prompt: str = XML_PROMPT,
    *,
    stop: Sequence[str] = STOP,
    protocol: TextProtocol = "chat",
) -> Agent:
    """Make an agent that writes actions and answers in tags.

    `prompt` is a template with `{tools}` and `{agent_scratchpad}`. The options and the errors raised are as in
    `create_react_agent`.
    """
    tools = validate_tools(tools)
    asked = make_form(prompt, tools, required=("tools", "agent_scratchpad"), scratchpad=format_scratchpad)
    return make_text_agent(
        model,
        partial(read, names=names_of(tools)),
        asked,
        stop=stop,
        protocol=protocol,
        kind="xml",
    )


def _format_step(step: AgentStep) -> str:
    """Format a step in tags. The end of the action, which the stop string cut off, is added again."""
    return f"{_format_action(step)}\n<observation>{escape_tags(step.text)}</observation>\n"


def _format_action(step: AgentStep) -> str:
    action = step.action
    if step.status == "parse_error":
        return action.log
    thought = _TOOL().split(action.log, maxsplit=1)[0]
    given = escape_tags(format_observation(action.tool_input))
    return f"{thought}<tool>{escape_tags(action.tool)}</tool><tool_input>{given}</tool_input>"


format_scratchpad = make_scratchpad(_format_step)


def read(reply: ModelReply, names: Collection[str] = ()) -> Decision:
    """Parse `<tool>` with its `<tool_input>`, or `<final_answer>`; the last closing tag may be missing, or be cut.

    The `names` are those of the known tools. Raises `ParseError` for neither or both, for two actions, and for an input
    that was cut at the token limit.
    """
    whole = read_text(reply, _find_value, None)
    text = whole.text
    tags, kinds = _find_tags(text)
    if not kinds or kinds[0] == "observation":
        raise _unreadable("it has neither a <tool> nor a <final_answer>", text)
    action = kinds[0] == "tool"
    begin = _find_begin(kinds)
    if begin is None:
        raise _unreadable("its <tool> is not followed by </tool> and <tool_input>", text)
    end = _find_end(kinds, begin)
    # The tag of an input is the stop string. An answer may end like a tag.
    until = _find_begun(whole.log, f"</{kinds[begin]}>", 1 if action else 3) if end is None else tags[end].start()
    inner = unescape_tags(text[tags[begin].end() : until].strip())
    # Without the closing tag, the element extends to the end, and tags inside it count as further decisions.
    after = begin + 1 if end is None else end
    _reject_more(kinds[after:], text, action=action)
    if "observation" in kinds[after:]:
        whole = replace(whole, end=min(whole.end, tags[kinds.index("observation", after)].start()))
    if not action:
        return whole.finish(inner)
    if end is None:
        reject_cut_reply(whole)
    tool = unescape_tags(text[tags[0].end() : tags[1].start()].strip())
    return (AgentAction(find_tool(tool, names), inner, text[:until], unread=whole.unread),)


def _find_tags(text: str) -> tuple[list[re.Match[str]], list[str]]:
    """Return the tags from the first that decides on, and their names; a closed fence in the element may have any."""
    element = _ELEMENT().search(text)
    start = len(text) if element is None else element.end()
    found = (*_TAG().finditer(text, 0, start), *(tag for tag in _TAG_OR_FENCE().finditer(text, start) if tag[1]))
    tags = list(dropwhile(lambda tag: tag[1].lower() not in _FIRST, found))
    return tags, [tag[1].lower() for tag in tags]


def _find_begin(kinds: Sequence[str]) -> int | None:
    """Return the place of the tag that begins the input or the answer."""
    if kinds[:1] == ["final_answer"]:
        return 0
    return 2 if kinds[:3] == ["tool", "/tool", "tool_input"] else None


def _find_end(kinds: Sequence[str], begin: int) -> int | None:
    """Return the place of the tag that ends the input or the answer."""
    ends = ({"/final_answer"}, {"observation"}) if begin == 0 else ({"/tool_input", "observation"},)
    return next((at for some in ends for at in range(begin + 1, len(kinds)) if kinds[at] in some), None)


def _find_value(text: str) -> Value | None:
    """Return the place behind the closing tag, or the answer without one. An input without one is complete."""
    tags, kinds = _find_tags(text)
    begin = _find_begin(kinds)
    if begin is None:
        return None
    if (end := _find_end(kinds, begin)) is not None:
        return Value(tags[end].end(), Spelling.TRANSLATED)
    return None if begin else find_value_from(text, tags[begin].end(), Spelling.EXACT)


def _find_begun(text: str, tag: str, least: int) -> int:
    """Return where a text ends in at least so many characters of a tag, or the length of the text."""
    last = text.rfind("<")
    begun = text[last:].rstrip().lower() if last >= 0 else ""
    return last if len(begun) >= least and tag.startswith(begun) else len(text)


def _reject_more(names: Sequence[str], text: str, *, action: bool) -> None:
    before = names[: names.index("observation")] if "observation" in names else names
    if ("final_answer" if action else "tool") in before:
        raise ParseError(f"{BOTH}: {text}", llm_output=text)
    if action and "tool" in before:
        raise _unreadable("it has several actions; use one tool at a time", text)


def escape_tags(text: str) -> str:
    """Return a text without the agent's tags: their `<` is replaced by `&lt;`."""
    return _PLAIN().sub(lambda found: "&lt;" if found[1] == "<" else f"&amp;{found[1][1:]}", text)


def unescape_tags(text: str) -> str:
    """Return the original of a text that `escape_tags` returned."""
    return _ESCAPED().sub(lambda found: f"&{found[1].removeprefix('amp;')}lt;" if found[1] else "<", text)


def _unreadable(why: str, text: str) -> ParseError:
    form = "Write <tool>the tool</tool><tool_input>its input</tool_input>, or <final_answer>the answer</final_answer>."
    return make_unreadable_error(why, text, form, prose=_TAG().search(text) is None)
