"""From the labels of corpora and of other tools to the types of private values.

A de-identifier draws surrogates within a type, and the type of a private value is released with it.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from sottovoce._validate import one_of
from sottovoce.corpora import Span
from sottovoce.corpora.synthetic import DOMAINS, schema
from sottovoce.errors import InvalidInput

TYPES: Mapping[str, str] = {
    "PER": "people",
    "ORG": "organisations and groups",
    "LOC": "cities, countries, places",
    "ADDRESS": "postal addresses",
    "DATE": "days and dates",
    "TIME": "times of day",
    "PHONE": "telephone numbers",
    "EMAIL": "e-mail addresses",
    "URL": "web addresses",
    "IP": "network addresses",
    "CARD": "payment cards and bank accounts",
    "MONEY": "amounts of money",
    "ID": "other numbers that name somebody",
    "MEDICAL": "conditions, medicines, readings",
    "TITLE": "titles of works and lists",
    "TEXT": "free text such as messages",
    "MISC": "anything else that is private",
}
"""The types that the built-in detectors find and the built-in surrogates replace."""


@dataclass(frozen=True)
class LabelMap:
    """Which labels are private, and as what; `public` are known to be harmless.

    A label that the mapping does not know is refused: treating it as harmless would let text
    through.

    >>> labels = LabelMap({"contact": "PER"}, public=frozenset({"count"}))
    >>> labels.typed([Span(0, 3, "contact"), Span(4, 5, "count")])
    [Span(start=0, end=3, type='PER')]
    >>> labels.typed([Span(0, 3, "contract")])
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected a label of the mapping, got 'contract'; map it to a type
    such as PER, or list it as public.
    """

    private: Mapping[str, str] = field(default_factory=dict)
    public: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if both := sorted(self.public.intersection(self.private)):
            raise InvalidInput(f"Expected {both[0]!r} to be private or public, got both.")
        for label, kind in self.private.items():
            if not kind or kind != kind.strip():
                raise InvalidInput(f"Expected a type for the label {label!r}, got {kind!r}.")

    def type_of(self, label: str) -> str | None:
        """The type of a label; None where it is public."""
        kind = self.private.get(label)
        if kind is None and label not in self.public:
            raise InvalidInput(
                f"Expected a label of the mapping, got {label!r}; map it to a type such as PER, "
                "or list it as public."
            )
        return kind

    def typed(self, spans: Iterable[Span]) -> list[Span]:
        """The private ones among labelled spans, with the type in place of the label."""
        found = []
        for start, end, label in spans:
            kind = self.type_of(label)
            if kind is not None:
                found.append(Span(start, end, kind))
        return found

    def to_json(self) -> dict[str, Any]:
        return {"private": dict(self.private), "public": sorted(self.public)}

    @classmethod
    def from_json(cls, data: object) -> "LabelMap":
        """Read `{"private": {label: type}, "public": [label]}`."""
        match data:
            case {"private": dict(private), **rest} if all(
                isinstance(kind, str) for kind in private.values()
            ):
                public = rest.pop("public", [])
                if not rest and isinstance(public, list):
                    return cls(private, frozenset(map(str, public)))
        raise InvalidInput('Expected {"private": {label: type}, "public": [label, ...]} in JSON.')


def read_labels(path: str | Path) -> LabelMap:
    """Read a mapping from a JSON file."""
    try:
        return LabelMap.from_json(json.loads(Path(path).read_text(encoding="utf-8")))
    except (OSError, ValueError) as problem:
        raise InvalidInput(f"{path}: {problem}") from problem


_ENTITY_TYPES: Mapping[str, str] = {
    "person": "PER",
    "organisation": "ORG",
    "location": "LOC",
    "address": "ADDRESS",
    "date": "DATE",
    "time": "TIME",
    "email": "EMAIL",
    "phone": "PHONE",
    "text": "TEXT",
    "title": "TITLE",
    "number": "ID",
}
_ALIKE = ("person", "organisation", "location", "date", "title", "number")
"""Entities whose private and public values cannot be told apart by their words."""
_STANDARD: Mapping[str, str] = {
    **{kind: kind for kind in TYPES},
    **dict.fromkeys(("PERSON", "NAME"), "PER"),
    **dict.fromkeys(("ORGANIZATION", "ORGANISATION", "COMPANY"), "ORG"),
    **dict.fromkeys(("LOCATION", "GPE", "FAC", "CITY", "ZIP_CODE"), "LOC"),
    **dict.fromkeys(("DATE_TIME", "AGE"), "DATE"),
    **dict.fromkeys(("CREDIT_CARD", "IBAN_CODE"), "CARD"),
    **dict.fromkeys(("US_SSN", "US_DRIVER_LICENSE"), "ID"),
    **dict.fromkeys(("NRP", "NORP"), "MISC"),
    "STREET_ADDRESS": "ADDRESS",
    "PHONE_NUMBER": "PHONE",
    "EMAIL_ADDRESS": "EMAIL",
    "DOMAIN_NAME": "URL",
    "IP_ADDRESS": "IP",
}
_ATIS_ENDINGS: Mapping[str, str] = {
    "LOC": "city_name state_code state_name country_name airport_name airport_code",
    "ORG": "airline_name airline_code",
    "DATE": "day_name day_number month_name date_relative today_relative year days_code",
    "TIME": "time start_time end_time period_of_day period_mod time_relative",
}
_ATIS_PLACES = ("", "fromloc.", "toloc.", "stoploc.")
_ATIS_MOMENTS = ("", "depart_date.", "arrive_date.", "return_date.")
_ATIS_HOURS = ("", "depart_time.", "arrive_time.", "return_time.")
_CORPORA: Mapping[str, tuple[Mapping[str, str], str]] = {
    "snips": (
        {
            **dict.fromkeys(("artist", "party_size_description", "playlist_owner"), "PER"),
            **dict.fromkeys(("restaurant_name", "location_name"), "ORG"),
            **dict.fromkeys(("city", "state", "country", "geographic_poi", "poi"), "LOC"),
            **dict.fromkeys(("timeRange", "year"), "DATE"),
            **dict.fromkeys(
                ("playlist", "object_name", "movie_name", "entity_name", "track", "album"), "TITLE"
            ),
        },
        "object_type rating_value music_item restaurant_type spatial_relation rating_unit "
        "best_rating party_size_number object_select service movie_type sort current_location "
        "condition_temperature object_location_type condition_description served_dish cuisine "
        "object_part_of_series_type facility genre",
    ),
    "en-tod": (
        {
            **dict.fromkeys(("datetime", "reminder/recurring_period"), "DATE"),
            "location": "LOC",
            "reminder/todo": "TEXT",
        },
        "weather/attribute weather/noun weather/temperatureUnit reminder/noun reminder/reference "
        "alarm/alarm_modifier negation reminder/reminder_modifier news/type timer/noun "
        "timer/attributes alarm/noun demonstrative_reference",
    ),
    "ms-restaurant": (
        {
            "restaurantname": "ORG",
            "starttime": "TIME",
            "date": "DATE",
            **dict.fromkeys(("city", "state", "zip"), "LOC"),
            "address": "ADDRESS",
            "personfullname": "PER",
        },
        "numberofpeople cuisine rating restauranttype atmosphere food mealtype pricing occasion "
        "distanceconstraints seating choice dress_code numberofkids",
    ),
    "ms-taxi": (
        {
            **dict.fromkeys(("dropoff_location", "pickup_location"), "ADDRESS"),
            **dict.fromkeys(
                ("pickup_location_city", "dropoff_location_city", "state", "city", "zip"), "LOC"
            ),
            "pickup_time": "TIME",
            "date": "DATE",
            "name": "PER",
            "cost": "MONEY",
        },
        "car_type numberofpeople distanceconstraints",
    ),
    "ami-ne": (
        {
            **dict.fromkeys(("PROJECT_MANAGER", "INTERFACE_SPECIALIST", "MARKETING"), "PER"),
            **dict.fromkeys(("INDUSTRIAL_DESIGNER", "EXPERIMENTER", "OTHER"), "PER"),
            "LOCATION": "LOC",
            "ORGANIZATION": "ORG",
            "DATE": "DATE",
            **dict.fromkeys(("TIME", "DURATION"), "TIME"),
            "MONEY": "MONEY",
        },
        "CARDINAL DRAWING MATERIALS MEANS_OF_WORKING MEASURE CONSTRUCTED COLOUR SHAPE PERCENT "
        "RECORDING_DEVICES MODELLING_STUFF INCIDENTAL FURNITURE",
    ),
}
_ATIS_PUBLIC = (
    "round_trip cost_relative flight_mod class_type flight_stop flight_number fare_basis_code or "
    "flight_time meal_description fare_amount meal transport_type flight_days connect economy "
    "aircraft_code mod restriction_code meal_code flight booking_class compartment"
)

MAPPINGS: tuple[str, ...] = ("standard", "built-in", "cautious", *DOMAINS, "atis", *_CORPORA)


@cache
def mapping(name: str) -> LabelMap:
    """A default mapping by its name.

    PER, ORG, LOC, DATE and TIME are the classes of Adelani et al., section 4; the other types cover
    what the paper leaves out. `standard` knows the types themselves and the usual spellings of
    named-entity corpora (CoNLL-2003, OntoNotes, Presidio); the others are those of public corpora
    and of the built-in ones.

    >>> mapping("atis").type_of("fromloc.city_name"), mapping("atis").type_of("meal")
    ('LOC', None)
    >>> mapping("health").type_of("medicine"), mapping("standard").type_of("PERSON")
    ('MEDICAL', 'PER')
    """
    one_of("mapping", name, MAPPINGS)
    if name == "standard":
        return LabelMap(_STANDARD)
    if name == "atis":
        return _atis()
    if name in _CORPORA:
        private, public = _CORPORA[name]
        return LabelMap(private, frozenset(public.split()))
    if name == "cautious":
        return _built_in(DOMAINS, cautious=True)
    return _built_in(DOMAINS if name == "built-in" else (name,))


def _atis() -> LabelMap:
    stems = {"LOC": _ATIS_PLACES, "ORG": ("",), "DATE": _ATIS_MOMENTS, "TIME": _ATIS_HOURS}
    private = {
        stem + ending: kind
        for kind, endings in _ATIS_ENDINGS.items()
        for ending in endings.split()
        for stem in stems[kind]
    }
    return LabelMap(private, frozenset(_ATIS_PUBLIC.split()))


def _built_in(domains: tuple[str, ...], *, cautious: bool = False) -> LabelMap:
    """What the schema of a domain calls private, and times, as in the paper.

    A label is private if any of the domains says so. With caution, whatever looks like a private
    value is one: an actor is a person too.
    """
    private: dict[str, str] = {}
    every: set[str] = set()
    for domain in domains:
        for slot in schema(domain).slots:
            every.add(slot.name)
            if slot.name == "reading":
                private[slot.name] = "MEDICAL"
            elif slot.private or slot.entity == "time" or (cautious and slot.entity in _ALIKE):
                private[slot.name] = _ENTITY_TYPES.get(slot.entity, "MEDICAL")
    return LabelMap(private, frozenset(every - private.keys()))
