"""Tasks for `score.py`: questions, the calls that answer them, and what the answer must contain.

They were written before the prompts that are measured on them. Each group has the tools that its agent gets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import score_tools as made_up

from graphexec.tools import AnyTool
from graphexec.tools.everyday import EVERYDAY_TOOLS


@dataclass(frozen=True, slots=True)
class Call:
    """A call that a task needs: a tool with these arguments, in any case."""

    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Computation:
    """A call that a task needs: any tool that is given the `numbers` and returns `result`."""

    numbers: tuple[float, ...]
    result: float


@dataclass(frozen=True, slots=True)
class Task:
    """A question, the calls that answer it (no other tool may be called), and what the answer contains.

    An answer that is a number counts in any spelling.
    """

    question: str
    calls: tuple[Call | Computation, ...]
    answer: str


@dataclass(frozen=True, slots=True)
class Group:
    """Tasks for one agent, with its tools."""

    tools: tuple[AnyTool, ...]
    tasks: tuple[Task, ...]


def one(question: str, tool: AnyTool, answer: str, **arguments: Any) -> Task:
    """Return a task that one call answers."""
    return Task(question, (Call(tool.name, arguments),), answer)


def group(tools: Sequence[AnyTool], *tasks: Task) -> Group:
    """Return a group."""
    return Group(tuple(tools), tasks)


def everyday(question: str, result: float, *numbers: float) -> Task:
    """Return a task for the everyday tools: a calculation."""
    return Task(question, (Computation(numbers, result),), f"{result}")


DATES = {"march": "2026-03-14", "april": "2026-04-02", "july": "2026-07-09"}

THREE_TOOLS = (
    group(
        (made_up.item_price, made_up.stock_level, made_up.track_parcel),
        one("How much is a kettle?", made_up.item_price, "34.5", item="kettle"),
        one("How many lamps do you have in stock?", made_up.stock_level, "42", item="lamp"),
        one("Where is my parcel PX-91?", made_up.track_parcel, "Basel", parcel_id="PX-91"),
        one("What does the umbrella cost?", made_up.item_price, "12.4", item="umbrella"),
    ),
    group(
        (made_up.current_weather, made_up.local_time, made_up.population),
        one("What's the weather like in Bergen?", made_up.current_weather, "rain", city="Bergen"),
        one("What time is it in Quito?", made_up.local_time, "07:05", city="Quito"),
        one("How many people live in Kenya?", made_up.population, "54", country="Kenya"),
        Task(
            "Is it warmer in Cairo or in Quito?",
            (Call("current_weather", {"city": "Cairo"}), Call("current_weather", {"city": "Quito"})),
            "Cairo",
        ),
    ),
    group(
        (made_up.exchange, made_up.tip, made_up.savings_rate),
        one("Convert 250 USD to EUR.", made_up.exchange, "225", amount=250, source="USD", target="EUR"),
        one("How many JPY are 30 GBP?", made_up.exchange, "6000", amount=30, source="GBP", target="JPY"),
        one("How much is a tip of 15 percent on a bill of 48 euros?", made_up.tip, "7.2", bill=48, percent=15),
        one("What interest does Norbank pay?", made_up.savings_rate, "2.75", bank="Norbank"),
    ),
    group(
        (made_up.list_events, made_up.weekday, made_up.set_reminder),
        one("What events are there on 2026-03-14?", made_up.list_events, "dentist", day=DATES["march"]),
        one("Which day of the week is 2026-07-09?", made_up.weekday, "Thursday", day=DATES["july"]),
        one(
            "Set a reminder to call Anna on 2026-04-02.",
            made_up.set_reminder,
            "call anna",
            text="call Anna",
            day=DATES["april"],
        ),
    ),
    group(
        (made_up.translate, made_up.count_letters, made_up.synonym),
        one("Translate apple into German.", made_up.translate, "Apfel", word="apple", language="German"),
        one("What is the Spanish word for window?", made_up.translate, "ventana", word="window", language="Spanish"),
        one("How many letters are in the word strawberry?", made_up.count_letters, "10", word="strawberry"),
        one("Give me another word for angry.", made_up.synonym, "furious", word="angry"),
    ),
    group(
        (made_up.add, made_up.multiply, made_up.square_root),
        one("What is 318 plus 467?", made_up.add, "785", a=318, b=467),
        one("What is 23 times 19?", made_up.multiply, "437", a=23, b=19),
        one("What is the square root of 1521?", made_up.square_root, "39", number=1521),
        Task(
            "Multiply 12 by 14 and add 100 to the result.",
            (Call("multiply", {"a": 12, "b": 14}), Call("add", {"a": 168, "b": 100})),
            "268",
        ),
    ),
    group(
        (made_up.switch_light, made_up.set_temperature, made_up.humidity),
        one("Switch off the light in the kitchen.", made_up.switch_light, "off", room="kitchen", state="off"),
        one("Set the bedroom to 19 degrees.", made_up.set_temperature, "19", room="bedroom", degrees=19),
        one("How humid is it in the cellar?", made_up.humidity, "64", room="cellar"),
    ),
    group(
        (made_up.phone_number, made_up.vacation_days, made_up.book_room),
        one("What is the phone number of Ines Falk?", made_up.phone_number, "555-0143", name="Ines Falk"),
        one("How many vacation days does employee 4133 have left?", made_up.vacation_days, "21", employee_id=4133),
        one("Book room B2 for 8 people.", made_up.book_room, "B2", room="B2", people=8),
    ),
    group(
        (made_up.next_train, made_up.ticket_price, made_up.train_delay),
        one(
            "When does the next train from Graz to Linz leave?",
            made_up.next_train,
            "16:42",
            origin="Graz",
            destination="Linz",
        ),
        one(
            "How much is a first class ticket from Linz to Graz?",
            made_up.ticket_price,
            "88",
            origin="Linz",
            destination="Graz",
            travel_class="first",
        ),
        one("Is train IC 503 late?", made_up.train_delay, "11", train="IC 503"),
    ),
    group(
        (made_up.calories, made_up.recipe, made_up.oven_time),
        one("How many calories are in 250 grams of rice?", made_up.calories, "325", food="rice", grams=250),
        one("What do I need for pesto?", made_up.recipe, "basil", dish="pesto"),
        one("How long must a quiche stay in the oven?", made_up.oven_time, "35", dish="quiche"),
    ),
    group(
        (made_up.read_note, made_up.file_size, made_up.delete_file),
        one("What does the note garden.txt say?", made_up.read_note, "roses", path="garden.txt"),
        one("How big is photos.zip?", made_up.file_size, "18.4", path="photos.zip"),
        one("Delete the file old.log.", made_up.delete_file, "deleted", path="old.log"),
        Task("Thank you, that was all!", (), ""),
    ),
    group(
        (made_up.capital, made_up.element_symbol, made_up.planet_mass),
        one("What is the capital of Mongolia?", made_up.capital, "Ulaanbaatar", country="Mongolia"),
        one("Which symbol does tungsten have?", made_up.element_symbol, "W", element="tungsten"),
        one("How heavy is Saturn?", made_up.planet_mass, "95.2", planet="Saturn"),
        Task("Good morning!", (), ""),
    ),
)

_OFFICE = (
    made_up.phone_number,
    made_up.vacation_days,
    made_up.book_room,
    made_up.list_events,
    made_up.weekday,
    made_up.exchange,
)
_HOME = (
    made_up.switch_light,
    made_up.humidity,
    made_up.recipe,
    made_up.calories,
    made_up.current_weather,
    made_up.read_note,
)
_SCHOOL = (
    made_up.capital,
    made_up.element_symbol,
    made_up.translate,
    made_up.square_root,
    made_up.multiply,
    made_up.planet_mass,
)

SIX_TOOLS = (
    group(
        _OFFICE,
        one("What is Tom Weller's phone number?", made_up.phone_number, "555-0178", name="Tom Weller"),
        one("How many vacation days are left for employee 4120?", made_up.vacation_days, "5", employee_id=4120),
        one("Please book room C3 for 12 people.", made_up.book_room, "C3", room="C3", people=12),
        one("What is on my calendar on 2026-04-02?", made_up.list_events, "concert", day=DATES["april"]),
        one("How many EUR are 500 USD?", made_up.exchange, "450", amount=500, source="USD", target="EUR"),
    ),
    group(
        _HOME,
        one("Turn on the light in the garage.", made_up.switch_light, "on", room="garage", state="on"),
        one("What is the humidity in the office?", made_up.humidity, "38", room="office"),
        one("Which ingredients do pancakes need?", made_up.recipe, "flour", dish="pancakes"),
        one("How many calories do 50 grams of cheese have?", made_up.calories, "200", food="cheese", grams=50),
        one("How is the weather in Cairo?", made_up.current_weather, "33", city="Cairo"),
    ),
    group(
        _SCHOOL,
        one("Name the capital of Chile.", made_up.capital, "Santiago", country="Chile"),
        one("What is the symbol of sodium?", made_up.element_symbol, "Na", element="sodium"),
        one("Translate window into French.", made_up.translate, "fenêtre", word="window", language="French"),
        one("Calculate the square root of 784.", made_up.square_root, "28", number=784),
        one("What is the mass of Mars?", made_up.planet_mass, "0.107", planet="Mars"),
    ),
)

# Each tool alone, as in a first hour.
ONE_TOOL = (
    group((made_up.author,), one("Who wrote Momo?", made_up.author, "Michael Ende", title="Momo")),
    group((made_up.postal_code,), one("What is the postal code of Husum?", made_up.postal_code, "25813", town="Husum")),
    group(
        (made_up.tire_pressure,),
        one("What tire pressure does a Corsa need?", made_up.tire_pressure, "2.3", model="Corsa"),
    ),
    group(
        (made_up.check_domain,),
        one("Is bluefern.org available?", made_up.check_domain, "available", domain="bluefern.org"),
    ),
    group((made_up.fibonacci,), one("What is the 40th Fibonacci number?", made_up.fibonacci, "102334155", n=40)),
    group((made_up.horoscope,), one("What is the horoscope for Libra?", made_up.horoscope, "friend", sign="libra")),
    group((made_up.stock_level,), one("How many teapots are in stock?", made_up.stock_level, "3", item="teapot")),
    group((made_up.humidity,), one("How humid is the bathroom?", made_up.humidity, "71", room="bathroom")),
    group((made_up.train_delay,), one("What is the delay of IC 503?", made_up.train_delay, "11", train="IC 503")),
    group(
        (made_up.current_weather,), one("What is the weather in Quito?", made_up.current_weather, "14", city="Quito")
    ),
)

# With the worked examples that the command line has for its own tools. The questions share no number with them.
EVERYDAY = (
    group(
        EVERYDAY_TOOLS,
        everyday("What is 418 plus 273?", 691, 418, 273),
        everyday("Multiply 125 by 16.", 2000, 125, 16),
        everyday("A book has 352 pages and I have read 187. How many pages are left?", 165, 352, 187),
        everyday("How much is 905 - 348?", 557, 905, 348),
        everyday("Calculate 64 times 27.", 1728, 64, 27),
        everyday("A ticket costs 18 euros. How much do 24 tickets cost?", 432, 18, 24),
        everyday("What is the sum of 1250 and 875?", 2125, 1250, 875),
        everyday("A farmer has 146 sheep and buys 78 more. How many sheep does he have now?", 224, 146, 78),
        everyday("There are 32 rows with 45 seats in each row. How many seats are there?", 1440, 32, 45),
        everyday("What is the difference between 730 and 485?", 245, 730, 485),
        everyday("I paid 365 dollars for a bike and 89 dollars for a helmet. How much did I pay?", 454, 365, 89),
        everyday("Subtract 256 from 1000.", 744, 1000, 256),
    ),
)

SETS: Mapping[str, tuple[Group, ...]] = {
    "three": THREE_TOOLS,
    "six": SIX_TOOLS,
    "one": ONE_TOOL,
    "everyday": EVERYDAY,
}
