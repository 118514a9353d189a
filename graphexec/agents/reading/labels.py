"""The labels in the text of a reply, such as `Action:`, in the spellings that models use.

Markdown may surround a label, a number may follow it, and the colon may be a full-width one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from enum import IntEnum
from functools import cached_property
from typing import final

from graphexec._parsing import INVISIBLE, compile_lazily

# All repetitions are bounded or possessive, so hostile text is parsed in linear time.
_BLANK = r"[ \t\u00a0\u202f\u3000]"
# What may stand before a label, beside the numbers of a list: quotations, headings, lists, emphasis and brackets.
_DECORATION = rf"{_BLANK}|{INVISIBLE}|[>#*_`+•\-\[【(]"
_LINE = rf"(?m:^(?:{_DECORATION}|\d{{1,2}}[.)]){{0,8}})"
_CLOSED = r"[*_`\]】)]{0,3}"
_NUMBER = rf"{_BLANK}{{0,3}}\d{{0,3}}{_BLANK}{{0,3}}"
# LangChain's parsers allow any whitespace.
_WIDE_NUMBER = r"\s{0,9}\d{0,9}\s{0,9}"
_COLON = "[:：]"
# The number of a label is not a time: `Final answer 10:30`. LangChain's parsers allow a number in an action only.
_COLON_BUT_IN_TIMES = r"(?:(?<!\d)[:：]|(?<=\d)[:：](?!\d))"
_EMPHASIS = compile_lazily(r"([*_`]{1,3})[\[【(]?\w")

# What models write when the question is in Chinese, Japanese, Korean, German, French, Spanish, Portuguese, Italian,
# Dutch or Russian. In French, an action and an observation have the English words.
TRANSLATIONS: dict[str, tuple[str, ...]] = {
    "Action": (
        *("行动", "动作", "操作", "行動", "動作", "アクション", "행동", "액션", "동작"),
        *("Aktion", "Handlung", "Acción", "Accion", "Ação", "Acao", "Azione", "Actie", "Действие"),
    ),
    "Action Input": (
        *("行动输入", "动作输入", "操作输入", "输入", "行動輸入", "動作輸入", "輸入"),
        *("行動入力", "行動の入力", "アクション入力", "アクションの入力", "入力"),
        *("행동 입력", "액션 입력", "동작 입력", "입력"),
        *("Aktionseingabe", "Aktions-Eingabe", "Aktion Eingabe", "Eingabe der Aktion", "Aktion Input", "Eingabe"),
        *("Entrée de l'action", "Entrée d'action", "Entrée action", "Entrée"),
        *("Entrada de la acción", "Entrada de acción", "Entrada de la accion", "Acción Input"),
        *("Entrada da ação", "Entrada de ação", "Entrada da acao", "Ação Input", "Entrada"),
        *("Input dell'azione", "Input azione", "Azione Input"),
        *("Actie-invoer", "Actie invoer", "Invoer van de actie", "Actie Input", "Invoer"),
        *("Ввод действия", "Ввод для действия", "Входные данные действия", "Входные данные", "Вход действия", "Ввод"),
    ),
    "Final Answer": (
        *("最终答案", "最终回答", "最终答复", "最終答案", "最終回答", "最終的な回答", "最終的な答え"),
        *("최종 답변", "최종 답", "최종 대답", "최종 응답"),
        *("Endgültige Antwort", "Finale Antwort", "Abschließende Antwort"),
        *("Réponse finale", "Réponse définitive", "Respuesta final", "Respuesta definitiva", "Resposta final"),
        *("Risposta finale", "Definitief antwoord", "Eindantwoord"),
        *("Окончательный ответ", "Финальный ответ", "Итоговый ответ"),
    ),
    "Observation": (
        *("观察", "观察结果", "觀察", "觀察結果", "観察", "観察結果", "観測", "관찰", "관찰 결과"),
        *("Beobachtung", "Observación", "Observacion", "Observação", "Observacao", "Osservazione", "Observatie"),
        "Наблюдение",
    ),
    "Question": (*("问题", "問題", "質問", "질문", "Frage", "Pregunta", "Pergunta", "Domanda", "Vraag", "Вопрос"),),
    "Thought": (
        *("思考", "想法", "思想", "생각", "Gedanke", "Pensée", "Pensamiento", "Pensamento", "Pensiero", "Gedachte"),
        "Мысль",
    ),
}


def _spell(words: str, number: str = _NUMBER) -> str:
    return number.join(re.escape(word).replace("'", "['’]") for word in words.split())


def _begin_line(words: str, colon: str, case: str = "i") -> str:
    return rf"{_LINE}(?{case}:{words}){_CLOSED}{_NUMBER}{_CLOSED}{colon}"


# Characters of a text in which the pattern is found as fast as its words.
_SHORT = 500


@final
class LabelPattern:
    """The pattern of a label. It is compiled and searched only for texts that have the words of a wording."""

    def __init__(self, pattern: str, wordings: Sequence[str], *, any_case: bool) -> None:
        self._any_case = any_case
        self._source = pattern
        self._words = tuple(dict.fromkeys(tuple(self._fold(one).split()) for one in wordings))

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self._source)

    def _fold(self, text: str) -> str:
        return text.casefold().replace("’", "'") if self._any_case else text

    def _may_match(self, text: str) -> bool:
        if len(text) <= _SHORT:
            return True
        folded = self._fold(text)
        return any(words[0] in folded and all(map(folded.__contains__, words)) for words in self._words)

    def search(self, text: str, start: int = 0, end: int = sys.maxsize) -> re.Match[str] | None:
        """Return the first match from `start` on."""
        return self._pattern.search(text, start, end) if self._may_match(text) else None

    def match(self, text: str, start: int = 0) -> re.Match[str] | None:
        """Return the match that begins at `start`."""
        return self._pattern.match(text, start)

    def finditer(self, text: str, start: int = 0) -> Iterator[re.Match[str]]:
        """Return the matches from `start` on, in order."""
        return self._pattern.finditer(text, start) if self._may_match(text) else iter(())


class Spelling(IntEnum):
    """The spelling of a label. Each one includes those before it.

    `EXACT`: the exact words anywhere, as LangChain's parsers read them. `ANY_CASE`: also in any case at the beginning
    of a line. `TRANSLATED`: also translated at the beginning of a line.
    """

    EXACT = 0
    ANY_CASE = 1
    TRANSLATED = 2


class Label:
    """A label with one wording or several.

    `patterns` find it by its `Spelling`, `lines` do so at the beginning of a line, and `at_line` is the last of those.
    """

    __slots__ = ("at_line", "lines", "patterns", "stop")

    def __init__(self, *wordings: str, colon: str = _COLON_BUT_IN_TIMES) -> None:
        wide = "|".join(_spell(one, _WIDE_NUMBER) for one in wordings)
        exact = rf"(?:{_LINE}|[*_`]{{1,3}})?(?:{wide}){_CLOSED}{_WIDE_NUMBER}{_CLOSED}{colon}"
        translated = [one for words in wordings for one in (words, *TRANSLATIONS.get(words, ()))]
        own, every = ("|".join(map(_spell, some)) for some in (wordings, translated))
        any_case = _begin_line(own, colon)
        in_any = _begin_line(every, colon)
        self.patterns = (
            LabelPattern(exact, wordings, any_case=False),
            LabelPattern(rf"{exact}|{any_case}", wordings, any_case=True),
            LabelPattern(rf"{exact}|{in_any}", translated, any_case=True),
        )
        self.lines = (
            LabelPattern(_begin_line(own, colon, case=""), wordings, any_case=False),
            LabelPattern(any_case, wordings, any_case=True),
            LabelPattern(in_any, translated, any_case=True),
        )
        self.at_line = self.lines[Spelling.TRANSLATED]
        # The words of a stop string.
        self.stop = wordings[0]

    def find_spelling(self, found: re.Match[str]) -> Spelling:
        """Return the strictest spelling that a match has."""
        return next(one for one in Spelling if self.patterns[one].match(found.string, found.start()))


ACTION = Label("Action", colon=_COLON)
INPUT = Label("Action Input", colon=_COLON)
FINAL_ANSWER = Label("Final Answer")
OBSERVATION = Label("Observation")
THOUGHT = Label("Thought")
# What only the user or the program writes, as the prompts of the agents do.
TURN = Label(
    "Question", "Observation", "Human", "New input", "The person now says", "Are follow up questions needed here"
)
# This may also be a line of an answer. It is a turn if the next line with one of `REPLIES` replies to it.
USER = Label("User")
REPLIES = Label("Assistant", "AI", "Final Answer")


def read_text_after(text: str, label: re.Match[str], end: int | None = None) -> str:
    """Return the text after a label, up to `end`, without surrounding whitespace.

    Emphasis that begins before the label and ends after it is not a part of the text: `**Action:** search`.
    """
    found = text[label.end() : len(text) if end is None else end].strip()
    mark = find_open_emphasis(label)
    if mark and found.startswith(mark):
        return found.removeprefix(mark).lstrip()
    return found.removesuffix(mark).rstrip()


def find_open_emphasis(label: re.Match[str]) -> str:
    """Return the emphasis that begins before a label and does not end within it, such as `**`, or an empty string."""
    emphasis = _EMPHASIS().search(label[0])
    return "" if emphasis is None or emphasis[1] in label[0][emphasis.end() :] else emphasis[1]


def find_last(pattern: LabelPattern, text: str) -> re.Match[str] | None:
    """Return the last match of a pattern."""
    return next(reversed([*pattern.finditer(text)]), None)
