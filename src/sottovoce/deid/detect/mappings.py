"""Default mappings for public corpora and the built-in ones, as data.

PER, ORG, LOC, DATE and TIME are the classes of Adelani et al., section 4; the other types cover
what the paper leaves out. `standard` knows the types themselves and the usual spellings of
named-entity corpora (CoNLL-2003, OntoNotes, Presidio).
"""

from collections.abc import Mapping
from functools import cache

from sottovoce._validate import one_of
from sottovoce.corpora.synthetic import DOMAINS, schema
from sottovoce.deid.detect.labels import TYPES, LabelMap

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
