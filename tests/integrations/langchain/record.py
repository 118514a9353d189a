"""Record how LangChain's parsers read replies: `python -m tests.integrations.langchain.record`, with langchain-classic.

`recorded.json` has, for each parser, replies and what LangChain makes of them, which is an action, an answer, or
nothing: those `written` as LangChain's own tests write them, and those `composed` at random of the parts that models
write. This reads the replies of the file again. It has the meanings of version 1.0.8 of langchain-classic.
"""

import json
from collections.abc import Callable
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

RECORDED = Path(__file__).parent / "recorded.json"

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


def load(name: str) -> Callable[[str], Any]:
    parse: Callable[[str], Any] = resolve_name(f"langchain_classic.agents.{name}")().parse
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
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    for kind, tables in recorded.items():
        parse = load(PARSERS[kind])
        for name, replies in tables.items():
            tables[name] = {text: read(parse, text) for text in replies}
    RECORDED.write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
