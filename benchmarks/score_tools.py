"""Made-up tools for `score.py`: small tables behind typed functions. An unknown key is an error that the model sees."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from typing import Annotated, Literal, TypeVar

from pydantic import Field

from graphexec import tool

T = TypeVar("T")


def look_up(table: Mapping[str, T], key: str) -> T:
    """Return the value of a key, in any case. Raises `ValueError` for a key that the table does not have."""
    folded = {name.casefold(): value for name, value in table.items()}
    if key.strip().casefold() not in folded:
        raise ValueError(f"there is no {key!r}")
    return folded[key.strip().casefold()]


@tool
def item_price(item: str) -> str:
    """Return the price of an item in the shop."""
    return f"{look_up({'kettle': 34.5, 'lamp': 21.9, 'teapot': 18.25, 'umbrella': 12.4}, item)} euros"


@tool
def stock_level(item: str) -> int:
    """Tell how many pieces of an item are in stock."""
    return look_up({"kettle": 17, "lamp": 42, "teapot": 3, "umbrella": 58}, item)


@tool
def track_parcel(parcel_id: str) -> str:
    """Find out where a parcel is."""
    return look_up({"PX-88": "in Rotterdam", "PX-91": "at the customs in Basel", "QR-17": "delivered"}, parcel_id)


@tool
def current_weather(city: str) -> str:
    """Get the current weather in a city."""
    return look_up({"Bergen": "rain, 9 degrees", "Cairo": "sunny, 33 degrees", "Quito": "fog, 14 degrees"}, city)


@tool
def local_time(city: str) -> str:
    """Get the local time in a city."""
    return look_up({"Bergen": "14:05", "Cairo": "15:05", "Quito": "07:05"}, city)


@tool
def population(country: str) -> str:
    """Look up the number of inhabitants of a country."""
    return look_up({"Chile": "19.6 million", "Norway": "5.5 million", "Kenya": "54 million"}, country)


@tool
def exchange(
    amount: float, source: Literal["EUR", "USD", "GBP", "JPY"], target: Literal["EUR", "USD", "GBP", "JPY"]
) -> float:
    """Convert an amount of money from one currency to another."""
    euros = {"EUR": 1.0, "USD": 0.9, "GBP": 1.2, "JPY": 0.006}
    return round(amount * euros[source] / euros[target], 2)


@tool
def tip(bill: float, percent: int) -> float:
    """Calculate the tip for a bill."""
    return round(bill * percent / 100, 2)


@tool
def savings_rate(bank: str) -> str:
    """Return the yearly interest rate that a bank pays on savings."""
    return look_up({"Norbank": "2.75 %", "Alpina": "1.9 %"}, bank)


@tool
def list_events(day: dt.date) -> str:
    """List the events on a day."""
    return look_up({"2026-03-14": "dentist at 9:30", "2026-04-02": "team lunch, concert"}, day.isoformat())


@tool
def weekday(day: dt.date) -> str:
    """Tell which day of the week a date is."""
    return ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")[day.weekday()]


@tool
def set_reminder(text: str, day: dt.date, hour: Annotated[int, Field(ge=0, le=23)] = 9) -> str:
    """Set a reminder."""
    return f"reminder set: {text.strip().strip('.').casefold()} on {day.isoformat()} at {hour}:00"


@tool
def translate(word: str, language: Literal["French", "German", "Spanish"]) -> str:
    """Translate a word into another language."""
    words = {"apple": ("pomme", "Apfel", "manzana"), "window": ("fenêtre", "Fenster", "ventana")}
    return look_up(words, word)[("French", "German", "Spanish").index(language)]


@tool
def count_letters(word: str) -> int:
    """Count the letters of a word."""
    return len(word.strip())


@tool
def synonym(word: str) -> str:
    """Find a synonym of a word."""
    return look_up({"happy": "cheerful", "fast": "rapid", "angry": "furious"}, word)


@tool
def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


@tool
def multiply(a: float, b: float) -> float:
    """Multiply two numbers."""
    return a * b


@tool
def square_root(number: float) -> float:
    """Return the square root of a number."""
    return round(math.sqrt(number), 4)


@tool
def switch_light(room: str, state: Literal["on", "off"]) -> str:
    """Switch the light in a room on or off."""
    return f"the light in the {room.strip().casefold()} is {state}"


@tool
def set_temperature(room: str, degrees: Annotated[float, Field(ge=5, le=30)]) -> str:
    """Set the temperature of a room."""
    return f"{room.strip().casefold()} set to {degrees:g} degrees"


@tool
def humidity(room: str) -> str:
    """Measure the humidity in a room."""
    return look_up({"bathroom": "71 %", "cellar": "64 %", "office": "38 %"}, room)


@tool
def phone_number(name: str) -> str:
    """Look up the phone number of an employee."""
    return look_up({"Ines Falk": "555-0143", "Tom Weller": "555-0178", "Mara Quist": "555-0199"}, name)


@tool
def vacation_days(employee_id: int) -> int:
    """Return the number of vacation days that an employee has left."""
    return look_up({"4107": 12, "4120": 5, "4133": 21}, str(employee_id))


@tool
def book_room(room: Literal["A1", "B2", "C3"], people: int) -> str:
    """Book a meeting room."""
    return f"room {room} is booked for {people} people"


@tool
def next_train(origin: str, destination: str) -> str:
    """Find the next train between two stations."""
    trains = {"graz-linz": "16:42 from platform 3", "linz-graz": "17:12 from platform 8", "wels-graz": "18:02"}
    return look_up(trains, f"{origin.strip()}-{destination.strip()}")


@tool
def ticket_price(origin: str, destination: str, travel_class: Literal["first", "second"] = "second") -> str:
    """Return the price of a train ticket."""
    price = look_up({"graz-linz": 46, "linz-graz": 44, "wels-graz": 39}, f"{origin.strip()}-{destination.strip()}")
    return f"{price * (2 if travel_class == 'first' else 1)} euros"


@tool
def train_delay(train: str) -> str:
    """Tell the delay of a train in minutes."""
    return look_up({"IC 503": "11 minutes", "RJ 74": "no delay"}, train)


@tool
def calories(food: str, grams: Annotated[int, Field(ge=1)] = 100) -> float:
    """Return the calories in a portion of food."""
    return look_up({"rice": 1.3, "cheese": 4.0, "banana": 0.9}, food) * grams


@tool
def recipe(dish: str) -> str:
    """Search for the ingredients of a dish."""
    return look_up({"pancakes": "flour, milk, eggs", "pesto": "basil, pine nuts, oil", "hummus": "chickpeas"}, dish)


@tool
def oven_time(dish: str) -> str:
    """Oven time of a dish."""
    return look_up({"lasagne": "40 minutes", "quiche": "35 minutes"}, dish)


@tool
def read_note(path: str) -> str:
    """Read the note in a file."""
    return look_up({"garden.txt": "water the roses", "todo/plan.md": "paint the fence"}, path)


@tool
def file_size(path: str) -> str:
    """Return the size of a file."""
    return look_up({"garden.txt": "212 bytes", "photos.zip": "18.4 MB", "todo/plan.md": "97 bytes"}, path)


@tool
def delete_file(path: str) -> str:
    """Delete a file."""
    return f"{path.strip()} is deleted"


@tool
def capital(country: str) -> str:
    """Return the capital of a country."""
    return look_up({"Chile": "Santiago", "Norway": "Oslo", "Kenya": "Nairobi", "Mongolia": "Ulaanbaatar"}, country)


@tool
def element_symbol(element: str) -> str:
    """Return the chemical symbol of an element."""
    return look_up({"tungsten": "W", "sodium": "Na", "tin": "Sn"}, element)


@tool
def planet_mass(planet: Literal["Mars", "Venus", "Saturn"]) -> str:
    """Return the mass of a planet in Earth masses."""
    return {"Mars": "0.107", "Venus": "0.815", "Saturn": "95.2"}[planet]


@tool
def author(title: str) -> str:
    """Find the author of a book."""
    return look_up({"Dune": "Frank Herbert", "Emma": "Jane Austen", "Momo": "Michael Ende"}, title)


@tool
def postal_code(town: str) -> str:
    """Look up the postal code of a town."""
    return look_up({"Eisenach": "99817", "Husum": "25813"}, town)


@tool
def tire_pressure(model: str) -> str:
    """Return the recommended tire pressure for a car model."""
    return look_up({"Corsa": "2.3 bar", "Fiesta": "2.1 bar"}, model)


@tool
def check_domain(domain: str) -> str:
    """Check if a domain name is available."""
    return look_up({"bluefern.org": "available", "quickpond.com": "taken"}, domain)


@tool
def fibonacci(n: Annotated[int, Field(ge=0, le=200)]) -> int:
    """Return the n-th Fibonacci number."""
    before, number = 0, 1
    for _ in range(n):
        before, number = number, before + number
    return before


@tool
def horoscope(sign: Literal["aries", "leo", "libra", "virgo"]) -> str:
    """Get the horoscope for a sign of the zodiac."""
    return {"aries": "be bold", "leo": "rest today", "libra": "call a friend", "virgo": "buy flowers"}[sign]
