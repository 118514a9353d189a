"""Values for examples by the name of a parameter, and the numbers and dates between them."""

from __future__ import annotations

import re
from collections.abc import Mapping

# Common names of parameters, with values that people seldom ask about, and that seldom follow from a question: a model
# that copies one is easily noticed, and one that means it is not refused.
_ROWS: Mapping[str, tuple[str, ...]] = {
    "city town place location destination station airport": ("Tartu", "Bergamo", "Kalmar", "Gdynia"),
    "origin source start departure": ("Aveiro", "Trento", "Lund", "Torun"),
    "country nation region": ("Lesotho", "Tuvalu", "Palau", "Brunei"),
    "name person employee customer user username contact author owner": ("Clara", "Viktor", "Amina", "Jonas"),
    "id code key number sku reference": ("K-52", "M-37", "T-64", "R-81"),
    "path file filename filepath document": ("lantern.txt", "meadow.md", "velvet.csv", "pebble.pdf"),
    "directory folder": ("lanterns", "meadows", "velvet", "pebbles"),
    "url link website": ("https://example.org/a", "https://example.org/b", "https://example.org/c"),
    "email mail recipient": ("clara@example.org", "viktor@example.org", "amina@example.org"),
    "word term noun": ("lantern", "meadow", "velvet", "pebble"),
    "text message content body sentence note comment string": (
        *("The lantern is green", "We meet at the pier", "Bring a ladder", "The meadow is wet"),
    ),
    "title subject task event label reminder": ("lantern repair", "meadow walk", "velvet sale", "pebble art"),
    "query question search keyword keywords": ("lanterns", "meadows", "velvet", "pebbles"),
    "language": ("Faroese", "Basque", "Welsh", "Tongan"),
    "expression formula": ("317 * 46", "952 / 68", "643 - 286", "523 + 894"),
    "date day": ("2031-05-17", "2032-09-23", "2033-02-14", "2034-11-06"),
    "time": ("06:43", "17:28", "21:37", "11:52"),
    "item product article object": ("lantern", "rucksack", "blanket", "compass"),
    "room": ("attic", "pantry", "hallway", "workshop"),
    "unit": ("furlongs", "gills", "fathoms", "bushels"),
    "currency": ("XPF", "TOP", "MOP", "WST"),
    "food fruit vegetable": ("turnip", "lentils", "quince", "millet"),
    "dish meal": ("goulash", "ratatouille", "paella", "chowder"),
    "company bank organization": ("Velora", "Quintex", "Baltira", "Norvane"),
    "book movie film song": ("The Velvet Pier", "Nine Lanterns", "Meadow Road", "Pebble Street"),
    "animal": ("otter", "heron", "badger", "lynx"),
    "address street": ("3 Pier Road", "9 Mill Lane", "5 Hill Street", "7 Lake Drive"),
    "phone": ("555-0162", "555-0117", "555-0184", "555-0139"),
    "color colour": ("teal", "amber", "ivory", "violet"),
    "model brand car": ("Altura", "Brisa", "Corvo", "Delta"),
    "domain host hostname server": ("velvet.example", "meadow.example", "pebble.example", "lantern.example"),
    "train flight bus line route": ("RE 71", "EC 86", "S 34", "IR 59"),
    "symbol ticker stock share": ("VLRA", "QNTX", "BLTR", "NRVN"),
    "element material metal": ("bismuth", "gallium", "osmium", "iridium"),
    "planet star": ("Ceres", "Vega", "Pallas", "Rigel"),
    "team club department group project": ("Harbour", "Orchard", "Granite", "Juniper"),
    "category type kind tag topic": ("garden", "sailing", "pottery", "chess"),
    "device machine sensor": ("pump 3", "fan 7", "lift 2", "boiler 5"),
    "plant flower tree": ("fern", "tulip", "alder", "clover"),
    "game sport": ("darts", "rowing", "curling", "squash"),
    "medicine drug ingredient": ("Vexalin", "Doramil", "Quintol", "Peralgan"),
    "branch version release": ("spring-fix", "harbour-2", "granite-4", "juniper-1"),
}
WORDS: Mapping[str, tuple[str, ...]] = {word: values for words, values in _ROWS.items() for word in words.split()}

_OTHERS = ("some", "another", "the other", "the last")

# Neither round nor small, for the same reason; the smaller ones are for what has a bound.
NUMBERS = (317, 523, 461, 739, 286, 647, 859, 394, 571, 926, 438, 683, 752, 163, 347, 598, 274, 832, 619, 967)
SMALLER_NUMBERS = (37, 53, 67, 83, 43, 59, 73, 89, 47, 61, 79, 97, 19, 23, 13, 17)


def words_of(name: str) -> tuple[str, ...]:
    """Return the words of an identifier in lower case: `fromCity` and `from_city` have two."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return tuple(word for word in re.split(r"[\W_]+", apart.casefold()) if word)


def table_word(name: str) -> str | None:
    """Return the last word of a parameter's name that has values of its own, such as `city`."""
    for word in reversed(words_of(name)):
        for form in (word, word.removesuffix("s")):
            if form in WORDS:
                return form
    return None


def values_named(name: str) -> tuple[str, ...]:
    """Return values for a parameter of this name."""
    word = table_word(name)
    phrase = " ".join(words_of(name)) or "value"
    return tuple(f"{other} {phrase}" for other in _OTHERS) if word is None else WORDS[word]
