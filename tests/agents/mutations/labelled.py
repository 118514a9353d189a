"""Replies with labels."""

from __future__ import annotations

import re
from collections.abc import Callable

from hypothesis import strategies as st

from tests.agents.mutations.common import (
    LINES,
    NAMES,
    Draw,
    Meaning,
)

LABEL = re.compile(r"(?m)^(Thought|Action Input|Action|Final Answer|AI):")
LANGUAGES: list[dict[str, str]] = [
    {"Thought": "思考", "Action": "行动", "Action Input": "行动输入", "Final Answer": "最终答案"},
    {"Thought": "思考", "Action": "行動", "Action Input": "行動入力", "Final Answer": "最終回答"},
    {"Thought": "생각", "Action": "행동", "Action Input": "행동 입력", "Final Answer": "최종 답변"},
    {"Thought": "Gedanke", "Action": "Aktion", "Action Input": "Aktionseingabe", "Final Answer": "Endgültige Antwort"},
    {"Thought": "Pensée", "Action": "Action", "Action Input": "Entrée de l’action", "Final Answer": "Réponse finale"},
    {
        "Thought": "Pensamiento",
        "Action": "Acción",
        "Action Input": "Entrada de la acción",
        "Final Answer": "Respuesta final",
    },
    {"Thought": "Pensamento", "Action": "Ação", "Action Input": "Entrada da ação", "Final Answer": "Resposta final"},
    {"Thought": "Мысль", "Action": "Действие", "Action Input": "Ввод действия", "Final Answer": "Окончательный ответ"},
]


def relabel(change: Callable[[str], str], text: str, most: int = 3) -> str:
    """Change the labels at the beginning of a reply; later lines may be an input's or an answer's own."""
    return LABEL.sub(lambda found: change(found[1]), text, count=most)


def write_labels_otherwise(draw: Draw, text: str) -> str:
    """Put emphasis, numbers and blanks around labels."""
    forms = [
        "**{}:**",
        "**{}**:",
        "*{}*:",
        "__{}:__",
        "### {}:",
        "- {}:",
        "> {}:",
        " {}:",
        "{} :",
        "{}: ",
        "{}：",
        "{}:",
        "[{}]:",
    ]
    return relabel(draw(st.sampled_from(forms)).format, text)


def change_case(draw: Draw, text: str) -> str:
    """Write all labels in lower case or in capitals."""
    change = draw(st.sampled_from([str.lower, str.upper, str.capitalize]))
    return relabel(lambda label: f"{change(label)}:", text)


def translate(draw: Draw, text: str) -> str:
    """Write all labels in another language."""
    words = draw(st.sampled_from(LANGUAGES))
    colon = draw(st.sampled_from([":", "：", " :", "\u00a0:"]))
    return relabel(lambda label: f"{words.get(label, label)}{colon}", text)


def decorate_tool(draw: Draw, text: str) -> str:
    """Put quotes, brackets or the words of old prompts around the tool's name."""
    forms = ["`{}`", "**{}**", "[{}]", "one of [{}]", '"{}"', "{}()", "{}.", "```{}```", "One of: {}"]
    form = draw(st.sampled_from(forms))
    return re.sub(r"(?m)^(Action:[ ]*)(\w+)$", lambda found: found[1] + form.format(found[2]), text, count=1)


def fence_input(draw: Draw, text: str) -> str:
    """Put the tool's input into a fence."""
    opening = draw(st.sampled_from(["```\n", "```text\n", "```\r\n", "``` \n"]))
    before, label, given = text.partition("Action Input:")
    return f"{before}{label}\n{opening}{given.strip()}\n```" if label else text


def widen(draw: Draw, text: str) -> str:
    """Put blank lines between the labels."""
    return relabel(lambda label: f"\n{label}:", text)


def labelled(draw: Draw) -> tuple[Meaning, str]:
    thought = draw(st.sampled_from(["", "Thought: I look.\n", "I look.\n", "Thought: the final answer is near\n"]))
    value = draw(LINES)
    if draw(st.booleans()):
        return (value,), f"{thought}Final Answer: {value}"
    name = draw(st.sampled_from(NAMES))
    return (name, value), f"{thought}Action: {name}\nAction Input: {value}"


def spoken(draw: Draw) -> tuple[Meaning, str]:
    meaning, text = labelled(draw)
    return meaning, text.replace("Final Answer:", "AI:")


SECOND = "\nThought: then\nAction: clock\nAction Input: now"


def act_twice(draw: Draw, text: str) -> str:
    return text + SECOND


def answer_too(draw: Draw, text: str) -> str:
    return f"{text}{SECOND}\nFinal Answer: both"


def act_twice_or_drop_label(draw: Draw, text: str) -> str:
    """Add an action to an action; in LangChain's first agent an answer has priority over later actions."""
    return drop_label(draw, text) if "Final Answer:" in text else act_twice(draw, text)


def drop_label(draw: Draw, text: str) -> str:
    return re.sub(r"(?m)^(Action Input|Final Answer|AI):", draw(st.sampled_from(["", "Action Inp", "Final"])), text)
