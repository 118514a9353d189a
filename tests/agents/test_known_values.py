"""Values are found in texts in other spellings; where a text cannot be read, they may be known."""

import math
import unicodedata
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from graphexec.agents.small.known_values import KnownText, may_be_known
from tests.parameters import cases


def is_known(value: Any, question: str, *observations: str) -> bool:
    return may_be_known(value, [question], observations)


WHOLE = st.integers(2, 99_999)
UNITS = ["kg", " km", "°C", "€", "x5", "×", "*", "h", "th", "'s", "%", "k", "pm", ")", "-", "/7", "?"]


@given(number=WHOLE, before=st.sampled_from(["", "€", "x", "-", "K-", "("]), unit=st.sampled_from(UNITS))
def test_number_is_found_beside_a_unit(number: int, before: str, unit: str) -> None:
    assert is_known(number, f"How much is {before}{number}{unit} and 5?")
    assert is_known(f"{number} * 5", f"what is {before}{number}{unit}, 5")


@given(st.integers(1_000, 99_999_999), st.sampled_from([",", ".", " ", "'", "_", "\u00a0", "\u202f"]))
def test_thousands_may_be_separated(number: int, separator: str) -> None:
    assert is_known(number, f"What is {number:,} plus 5?".replace(",", separator))


@given(number=st.integers(2, 999), zero=st.sampled_from([0x660, 0x966, 0xFF10, 0x1D7CE]))
def test_digits_of_other_scripts_are_read(number: int, zero: int) -> None:
    digits = str(number).translate({ord("0") + digit: zero + digit for digit in range(10)})
    assert KnownText(f"What is {digits}?").has(number)


@cases(
    ("value", "text"),
    *((37.5, "37,5"), (37.0, "37.000"), (37_000, "37.000"), (13_752, "1,37,52"), (52, "1,37,52"), (0.57, "57 %")),
    *((0.57, "57 percent"), (37_000, "37k"), (1_500_000, "1.5M"), (0.75, "3/4"), (17, "5 p.m.")),
    *(("17:05", "5:05pm"), ("2025-03-17", "on the 17th"), (370, "3.7e2")),
    *((-37, "37"), (1, "one"), (10**400, f"1{'0' * 400}"), (math.inf, "9" * 200_000)),
)
def test_text_means_the_number(value: float | str, text: str) -> None:
    assert KnownText(text).has(value)


@cases(
    "question",
    *("What is thirty-seven times two?", "What is half of it?", "Wie viel ist siebenunddreißig plus 5?"),
    *("¿Cuánto es treinta y siete por 5?", "Ile to jest trzydzieści siedem razy 5?"),
    *("Paljonko on kolmekymmentäseitsemän?", "三十七加5", "тридцать семь плюс 5", "What is XXXVII plus 5?"),
    *("What is 0x25 plus 5?", "What is there on March 4?"),
)
def test_numbers_that_cannot_be_read_may_be_known(question: str) -> None:
    assert is_known(37, question)
    assert is_known("37 * 5", question)
    assert is_known([37], question)


@cases("question", "What is 3 plus 4?", "Add 3 and 4, times 370.", "3 + 4", "How many lamps are there?")
def test_missing_number_is_not_known(question: str) -> None:
    assert not is_known(37, question)
    assert not is_known("37 * 5", question)
    assert not is_known({"numbers": [37, 52]}, question)


NAMES = st.sampled_from(["Lisbon", "New York", "Malmö", "São Tomé", "notes/garden.txt", "Ines Falk", "call Anna"])


@given(NAMES, st.sampled_from([str.upper, str.title, str.swapcase]), st.sampled_from([" ", "", "-", "\n", "  "]))
def test_string_is_found_in_another_spelling(name: str, change: Any, blank: str) -> None:
    spelled = change(name).replace(" ", blank)
    plain = "".join(one for one in unicodedata.normalize("NFD", spelled) if not unicodedata.combining(one))
    assert is_known(name, f"What about {spelled}?")
    assert is_known(name, f"What about ({plain})'s?")


@given(st.integers(1, 6), st.sampled_from(["Lisbon", "Helsinki", "umbrella", "strawberry"]))
def test_word_is_found_with_a_missing_letter(place: int, word: str) -> None:
    misspelled = word[:place] + word[place + 1 :]
    assert is_known(word, f"What about {misspelled}?")


@cases(
    ("value", "question"),
    *(("Lisbon", text) for text in ("Wie ist das Wetter in Lissabon?", "リスボンの天気は?", "Погода в Лиссабоне")),
    *(("東京", "東京の天気は?"), ("東京", "What is the weather in Tokyo?"), ("2025-03-04", "What is there on 4.3.?")),
    *(("2025-03-04", "What is there on 20250304?"), ("notes/garden.txt", "What is in my garden notes?")),
    *(("1,000", "What is 1000?"), ("+", "What is 3 + 4?"), ("", "What?"), (None, "What?"), (True, "What?")),
    *(([], "What?"), (["Lisbon", "Oslo"], "What about Oslo?"), ({"city": "Oslo"}, "What about Oslo?")),
)
def test_value_may_be_known(value: Any, question: str) -> None:
    assert is_known(value, question)


@cases(
    ("value", "question"),
    ("Lisbon", "How is Oslo?"),
    ("Lisbon", "Was kostet das?"),
    ("Lisbon", "The length is 3 μm, or λ."),
    ("Rome", "A message from Emma, please"),
    ("Ines Falk", "What is the number of Tom Falk?"),
    ("report.json", "Delete the file data.json"),
    ("6 * 7", "What is 6 times 8?"),
    ("2025-03-04", "What events are there tomorrow?"),
    ("2025-03-04", "What events are there on the 14th?"),
    (317, "Set an alarm for 8:00 and turn the light off in 5 hours."),
    ("東京", "天気はどう?"),
    ("東京", "84 * 19"),
    ("+", "What is 3 - 4?"),
    (["Lisbon"], "How is Oslo?"),
    (30, "What is 3/0?"),
)
def test_value_is_not_known(value: Any, question: str) -> None:
    assert not is_known(value, question)


@given(st.one_of(WHOLE, NAMES))
def test_value_of_an_observation_is_known(value: float | str) -> None:
    assert is_known(value, "What is there?", "nothing", f"found: {value}.")
    assert not is_known(value, "What is there?", "nothing")
