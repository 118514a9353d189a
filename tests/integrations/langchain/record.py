"""Record how LangChain's parsers read replies: `python -m tests.integrations.langchain.record`, with langchain-classic.

It writes `recorded.json`: for each parser, replies and what LangChain makes of them, which is an action, an answer, or
nothing. The replies are written as LangChain's own tests write them, and composed at random of the parts that
models write. LangChain, of which the file has version 1.0.8 of
langchain-classic, is needed only to write the file.
"""

import importlib
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parent / "recorded.json"
SEED = 16
COMPOSED = 150

PARSERS = {
    "react": "output_parsers.react_single_input:ReActSingleInputOutputParser",
    "mrkl": "mrkl.output_parser:MRKLOutputParser",
    "conversational": "conversational.output_parser:ConvoOutputParser",
    "chat": "chat.output_parser:ChatOutputParser",
    "structured_chat": "structured_chat.output_parser:StructuredChatOutputParser",
    "json_chat": "output_parsers.json:JSONAgentOutputParser",
    "xml": "output_parsers.xml:XMLAgentOutputParser",
    "self_ask": "output_parsers.self_ask:SelfAskOutputParser",
}

JSON_ACTION = '{"action": "search", "action_input": "2+2"}'
JSON_ANSWER = '{"action": "Final Answer", "action_input": "4"}'
FENCED_ACTION = f"```\n{JSON_ACTION}\n```"
LABELLED = ["Thought: agent thought here\nAction: search\nAction Input: what is the temperature in SF?"]
# As in LangChain's unit tests of each parser, in words of our own.
WRITTEN = {
    "react": [
        *LABELLED,
        "Thought: agent thought here\nFinal Answer: The temperature is 100 degrees",
        "Thought: agent thought here",
        "Action: search Final Answer:\nAction Input: what is the temperature in SF?",
        "Action 1: search\nAction Input 1: cats",
        "Action 1: search\nAction 1 Input 1: cats",
        "Action: search\nAction Input: SELECT * FROM t",
        'Action: sql\nAction Input: "SELECT * FROM t"',
        "Action:\n\nsearch\n\nAction Input:\n\ncats",
        "Action: search\n\nThat is all.",
        "Final Answer: one\nFinal Answer: two",
    ],
    "conversational": [
        "Thought: Do I need to use a tool? Yes\nAction: search\nAction Input: cats",
        "Thought: Do I need to use a tool? No\nAI: Hello.",
        "Thought: Do I need to use a tool? No AI: Hello.",
        'Action: my_action\nAction Input: This is the input\nand a second line with {"a": 1}',
        "Hello.",
    ],
    "chat": [
        f"Thought: I need to search.\nAction:\n{FENCED_ACTION}",
        f"Thought: I need to search.\nAction:\n```json\n{JSON_ACTION}\n```",
        f"Action:\n```json\n{json.dumps(json.loads(JSON_ACTION), indent=2)}\n```\nThat is it.",
        "Thought: I know.\nFinal Answer: 4",
        "I know.",
    ],
    "json_chat": [
        JSON_ACTION,
        JSON_ANSWER,
        f"```json\n{JSON_ACTION}\n```",
        f"```json\n{JSON_ANSWER}\n```",
        f"`{JSON_ACTION}`",
        f"Here you go:\n```json\n{JSON_ACTION}\n```\nGood luck!",
        f"[{JSON_ACTION}]",
        '{"action": "search"}',
        '{"action": "search", "action_input": "two\nlines\tand a tab"}',
        '{"action": "search", "action_input": {"query": "cats"}}',
        "I know.",
    ],
    "xml": [
        "<tool>search</tool><tool_input>foo</tool_input>",
        "<tool>search</tool>\n<tool_input>foo</tool_input>",
        "Let me see.\n<tool>search</tool><tool_input>foo</tool_input>\nSo.",
        "<final_answer>bar</final_answer>",
        "So: <final_answer>bar\nbaz</final_answer>",
        "<tool>search</tool>",
        "bar",
    ],
    "self_ask": [
        "Yes.\nFollow up: When was it opened?",
        "Followup: When was it opened?",
        "So the final answer is: 42",
        "I think.\nSo the final answer is: 42",
        "No.",
    ],
}
WRITTEN["mrkl"] = [*WRITTEN["react"], "Final Answer: 4\n\nAction: search\nAction Input: cats"]
WRITTEN["structured_chat"] = [*WRITTEN["chat"], *WRITTEN["json_chat"]]

LABEL_PARTS = [
    *("Thought: I look.\n", "Action: search\n", "Action Input: cats", 'Action Input: {"a": 1}', "\nFinal Answer: 4"),
    *("Action 1: search\n", "action: search\n", "\n", " ", "\nObservation: 3\n", "\nAI: Hello", '"', "Action:", "x"),
]
JSON_PARTS = [
    *(JSON_ACTION, JSON_ANSWER, FENCED_ACTION, f"```json\n{JSON_ANSWER}\n```", "```json\n", "\n```", "Action:\n"),
    *("```", "Thought: I look.\n", "Sure. ", "\n", "[", "]", "\nFinal Answer: 4", '{"action": "search"}'),
    JSON_ACTION[:30],
]
PARTS = {
    "react": LABEL_PARTS,
    "mrkl": LABEL_PARTS,
    "conversational": LABEL_PARTS,
    "chat": JSON_PARTS,
    "structured_chat": JSON_PARTS,
    "json_chat": JSON_PARTS,
    "xml": [
        *("<tool>", "search", "</tool>", "<tool_input>", "cats", "</tool_input>", "\n", "I look. "),
        *("<final_answer>", "</final_answer>", "<tool>search</tool><tool_input>cats</tool_input>"),
    ],
    "self_ask": ["Yes.\n", "Follow up: ", "Who?", "\n", "So the final answer is: ", "42", "Followup: ", "x: y"],
}


def compose(kind: str) -> Iterator[str]:
    """Yield the replies for a parser: those that are written above, and random ones, which are always the same."""
    yield from WRITTEN[kind]
    source = random.Random(f"{SEED} {kind}")
    for _ in range(COMPOSED):
        yield "".join(source.choices(PARTS[kind], k=source.randint(1, 6)))


def load(name: str) -> Callable[[str], Any]:
    module, _, parser = name.partition(":")
    make = getattr(importlib.import_module(f"langchain_classic.agents.{module}"), parser)
    parse: Callable[[str], Any] = make().parse
    return parse


def read(parse: Callable[[str], Any], text: str) -> list[Any]:
    """Return `[tool, input]` for an action, `[answer]` for an answer, and an empty list for an error."""
    try:
        decision = parse(text)
    except ValueError:
        return []
    found = (
        [decision.return_values["output"]]
        if hasattr(decision, "return_values")
        else [decision.tool, decision.tool_input]
    )
    return found if all(isinstance(one, (str, dict)) for one in found) else []


def main() -> None:
    recorded = {
        kind: {text: read(load(name), text) for text in dict.fromkeys(compose(kind))} for kind, name in PARSERS.items()
    }
    RECORDED.write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
