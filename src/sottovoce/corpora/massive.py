"""Records of MASSIVE: `utt`, and `annot_utt` with slots as `[name : value]`.

They are recognised in JSONL and in datasets. `worker_id` is the user, and `partition` names the
part of a record (see `splits`). The annotated text is dropped after reading, so that a release of
the corpus has no second copy of it under another key.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any

from sottovoce.errors import InvalidInput

_SLOT = re.compile(r"\[\s*([^\[\]:]+?)\s*:\s*([^\[\]]*?)\s*\]")


def is_massive(keys: Collection[str]) -> bool:
    return "annot_utt" in keys and "text" not in keys and "tokens" not in keys


def from_massive(record: Mapping[str, Any]) -> dict[str, Any]:
    """The object in spans form (see `objects`).

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
