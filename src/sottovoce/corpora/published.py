"""Records of the published corpora MASSIVE and SLURP, recognised in JSONL and in datasets."""

import re
from collections.abc import Collection, Mapping
from typing import Any

from sottovoce.corpora.records import OUTSIDE
from sottovoce.errors import InvalidInput

_SLOT = re.compile(r"\[\s*([^\[\]:]+?)\s*:\s*([^\[\]]*?)\s*\]")


def is_massive(keys: Collection[str]) -> bool:
    return "annot_utt" in keys and "text" not in keys and "tokens" not in keys


def from_massive(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record of MASSIVE in spans form (see `objects`).

    A record has `utt`, and `annot_utt` with slots as `[name : value]`. `worker_id` is the user, and
    `partition` names the part of a record (see `splits`). The annotated text is dropped after
    reading, so that a release of the corpus has no second copy of it under another key.

    >>> from_massive({"id": "1", "intent": "alarm_set", "utt": "wake me at nine",
    ...               "annot_utt": "wake me at [time : nine]"})
    {'id': '1', 'intent': 'alarm_set', 'text': 'wake me at nine',
     'entities': [{'start': 11, 'end': 15, 'type': 'time'}]}
    """
    annotated = record["annot_utt"]
    if not isinstance(annotated, str):
        raise InvalidInput(f"Expected annot_utt to be a string, got {type(annotated).__name__}.")
    text, entities, end = "", [], 0
    for found in _SLOT.finditer(annotated):
        text += annotated[end : found.start()]
        name, value = found.groups()
        entities.append({"start": len(text), "end": len(text) + len(value), "type": name})
        text += value
        end = found.end()
    text += annotated[end:]
    plain = record.get("utt")
    if plain is not None and "".join(str(plain).split()) != "".join(text.split()):
        raise InvalidInput(
            "Expected annot_utt to be utt with slots as [name : value], got a different text."
        )
    rest = {key: value for key, value in record.items() if key not in ("utt", "annot_utt")}
    if rest.get("user") is None and rest.get("worker_id") is not None:
        rest["user"] = rest.pop("worker_id")  # moved, so that pseudonymising `user` is enough
    return rest | {"text": text, "entities": entities}


_READ = frozenset({"sentence", "sentence_annotation", "tokens", "entities", "slurp_id", "intent"})


def is_slurp(record: Mapping[str, Any]) -> bool:
    tokens = record.get("tokens")
    return isinstance(tokens, list) and bool(tokens) and isinstance(tokens[0], Mapping)


def from_slurp(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record of SLURP in tokens form (see `objects`).

    A record has `sentence`, `tokens` with their `surface`, and `entities` as spans of token ids.
    Without `intent`, the intent is scenario_action. Other copies of the text (`sentence`,
    `sentence_annotation`) are dropped.

    >>> from_slurp({"slurp_id": 7, "sentence": "wake me at nine", "scenario": "alarm",
    ...             "action": "set", "tokens": [{"surface": word} for word in
    ...             ("wake", "me", "at", "nine")], "entities": [{"span": [3], "type": "time"}]})
    {'tokens': ['wake', 'me', 'at', 'nine'], 'slots': ['O', 'O', 'O', 'B-time'],
     'intent': 'alarm_set', 'id': 7, 'scenario': 'alarm', 'action': 'set'}
    """
    try:
        tokens = [token["surface"] for token in record["tokens"]]
        slots = [OUTSIDE] * len(tokens)
        for entity in record.get("entities") or ():
            places = sorted(entity["span"])
            if not places or places != list(range(places[0], places[0] + len(places))):
                raise InvalidInput(f"Expected a span of adjacent tokens, got {places}.")
            if places[0] < 0 or places[-1] >= len(tokens):
                raise InvalidInput(f"Expected a span within {len(tokens)} tokens, got {places}.")
            for place in places:
                if slots[place] != OUTSIDE:
                    raise InvalidInput(f"Expected entities that do not overlap, got {places}.")
                slots[place] = f"{'B' if place == places[0] else 'I'}-{entity['type']}"
    except (KeyError, TypeError) as problem:
        raise InvalidInput(
            "Expected a SLURP record, with surface in every token and span and type in every "
            f"entity, but {problem!r}."
        ) from problem
    intent = record.get("intent")
    if not intent and record.get("scenario") and record.get("action"):
        intent = f"{record['scenario']}_{record['action']}"
    found: dict[str, Any] = {"tokens": tokens, "slots": slots, "intent": intent}
    if record.get("slurp_id") is not None:
        found["id"] = record["slurp_id"]
    return found | {key: value for key, value in record.items() if key not in _READ}
