"""A policy: what a release has to fulfil, with the reason and the source of every threshold.

A policy is a TOML file; four are shipped (`SHIPPED`). Up to `release` a number is fine, up to
`most` a person must decide, and beyond it nothing is released. No policy can call an epsilon above
`VACUOUS` fine: there a guess of 50 % may become certain to 99.97 %.
"""

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.privacy.guarantee import Unit

SHIPPED = ("strict", "moderate", "research", "safe-harbor")
VACUOUS = 8.0
_FOLDER = "policies"
_EXPLAINED = ("why", "source")
_KEYS: Mapping[str, tuple[str, ...]] = {
    "delta": ("most",),
    "person": ("total",),
    "population": ("least",),
    "recall": ("least", "most_leaked", "types"),
    "stability": ("least",),
    "audits": ("train", "deid", "federate"),
    "assumptions": ("forbidden",),
    "signatures": ("roles",),
    "identifiers": ("list",),
    "fields": ("user", "id"),
}


@dataclass(frozen=True)
class Limit:
    """The largest epsilon of one unit: fine up to `release`, refused above `most`."""

    release: float
    most: float


@dataclass(frozen=True)
class Explanation:
    """Why a threshold is what it is, and who says so."""

    why: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What a release has to fulfil; a part that is None or empty asks for nothing.

    >>> strict = shipped("strict")
    >>> strict.epsilon[Unit.USER], strict.explanations["recall"].source[:18]
    (Limit(release=1.0, most=3.0), 'Clopper and Pearso')
    """

    name: str
    about: str
    content: Mapping[str, Any]
    """The parsed file, for the hash and for storing the policy elsewhere."""
    epsilon: Mapping[Unit, Limit]
    explanations: Mapping[str, Explanation]
    delta: float | None = None
    person_total: bool = False
    least_population: int | None = None
    recall: float | None = None
    recall_by_type: Mapping[str, float] = field(default_factory=dict)
    most_leaked: float | None = None
    stability: float | None = None
    audits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    forbidden: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    identifiers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def sha256(self) -> str:
        """The hash of what the policy says, whatever the layout of its file."""
        text = json.dumps(self.to_json(), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def least_recall(self, kind: str) -> float | None:
        return self.recall_by_type.get(kind, self.recall)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, **self.content}

    @classmethod
    def from_json(cls, data: Any) -> "Policy":
        """Check and read a policy.

        >>> Policy.from_json({"name": "mine", "epsilon": {"user": {"release": 99, "most": 99,
        ...                   "why": "it is large", "source": "me"}}})
        Traceback (most recent call last):
        sottovoce.errors.InvalidInput: Policy mine: Expected epsilon.user.release of at most 8,
        where a guess of 50 % becomes 99.97 %, got 99.
        """
        name = str(data.get("name", "")) if isinstance(data, Mapping) else ""
        try:
            if not isinstance(data, Mapping):
                raise InvalidInput("Expected tables of thresholds.")
            return _read(name or "unnamed", {k: v for k, v in data.items() if k != "name"})
        except InvalidInput as problem:
            raise InvalidInput(f"Policy {name or 'unnamed'}: {problem}") from problem


def policy_of(name: str | Path) -> Policy:
    """A shipped policy by its name, or one from a TOML file."""
    if str(name) in SHIPPED:
        return shipped(str(name))
    path = Path(name)
    if not path.is_file():
        raise InvalidInput(
            f"Expected a policy ({', '.join(SHIPPED)}) or a TOML file, found none at {path}."
        )
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise InvalidInput(f"Expected TOML in {path}, but {problem}.") from problem
    return Policy.from_json({"name": path.stem, **data})


def shipped(name: str) -> Policy:
    """A policy that comes with sottovoce."""
    _validate.one_of("policy", name, SHIPPED)
    text = resources.files("sottovoce.privacy").joinpath(_FOLDER, f"{name}.toml").read_text("utf-8")
    return Policy.from_json({"name": name, **tomllib.loads(text)})


def _read(name: str, data: Mapping[str, Any]) -> Policy:
    parts = {key: _table(key, value) for key, value in data.items() if key != "about"}
    if unknown := sorted(parts.keys() - _KEYS.keys() - {"epsilon"}):
        raise InvalidInput(f"Expected {', '.join(['epsilon', *_KEYS])}, got {unknown[0]!r}.")
    explanations: dict[str, Explanation] = {}
    epsilon = {}
    for unit, given in parts.pop("epsilon", {}).items():
        key = f"epsilon.{unit}"
        explanations[key] = _explained(key, _table(key, given), ("release", "most"))
        epsilon[_validate.choice("a unit of epsilon", unit, Unit)] = _limit(key, given)
    for key, given in parts.items():
        explanations[key] = _explained(key, given, _KEYS[key])
    recall = parts.get("recall", {})
    return Policy(
        name=name,
        about=str(data.get("about", "")),
        content=dict(data),
        epsilon=epsilon,
        explanations=explanations,
        delta=_optional(parts, "delta", "most"),
        person_total=_person(parts.get("person", {})),
        least_population=_whole(parts.get("population", {})),
        recall=_optional(parts, "recall", "least"),
        most_leaked=_optional(parts, "recall", "most_leaked"),
        recall_by_type={
            str(kind): _share(f"recall.types.{kind}", value)
            for kind, value in _table("recall.types", recall.get("types", {})).items()
        },
        stability=_optional(parts, "stability", "least"),
        audits={
            verb: _words(f"audits.{verb}", names)
            for verb, names in parts.get("audits", {}).items()
            if verb not in _EXPLAINED
        },
        forbidden=_words("assumptions.forbidden", parts.get("assumptions", {}).get("forbidden")),
        roles=_words("signatures.roles", parts.get("signatures", {}).get("roles")),
        identifiers={
            str(each): _words(f"identifiers.list.{each}", kinds)
            for each, kinds in _table(
                "identifiers.list", parts.get("identifiers", {}).get("list", {})
            ).items()
        },
        fields={
            each: _words(f"fields.{each}", allowed)
            for each, allowed in parts.get("fields", {}).items()
            if each not in _EXPLAINED
        },
    )


def _explained(key: str, given: Mapping[str, Any], known: tuple[str, ...]) -> Explanation:
    for name in _EXPLAINED:
        if not isinstance(given.get(name), str) or not given[name].strip():
            raise InvalidInput(f"Expected a sentence as {key}.{name}, got {given.get(name)!r}.")
    if unknown := sorted(given.keys() - {*known, *_EXPLAINED}):
        raise InvalidInput(f"Expected {', '.join(known)} in {key}, got {unknown[0]!r}.")
    return Explanation(given["why"], given["source"])


def _limit(key: str, given: Mapping[str, Any]) -> Limit:
    for name in ("release", "most"):
        _validate.not_negative(f"{key}.{name}", _validate.number(f"{key}.{name}", given.get(name)))
    limit = Limit(float(given["release"]), float(given["most"]))
    if limit.release > VACUOUS:
        raise InvalidInput(
            f"Expected {key}.release of at most {VACUOUS:g}, where a guess of 50 % becomes "
            f"99.97 %, got {limit.release:g}."
        )
    if limit.most < limit.release:
        raise InvalidInput(f"Expected {key}.most of at least {key}.release, got {limit.most:g}.")
    return limit


def _optional(parts: Mapping[str, Any], key: str, name: str) -> float | None:
    value = parts.get(key, {}).get(name)
    return None if value is None else _share(f"{key}.{name}", value)


def _share(key: str, value: Any) -> float:
    return _validate.between(key, _validate.number(key, value), 0, 1)


def _whole(given: Mapping[str, Any]) -> int | None:
    if "least" not in given:
        return None
    return _validate.at_least_one(
        "population.least", _validate.whole("population.least", given["least"])
    )


def _person(given: Mapping[str, Any]) -> bool:
    return (
        bool(given)
        and _validate.one_of("person.total", given.get("total", ""), ("required", "optional"))
        == "required"
    )


def _words(key: str, given: Any) -> tuple[str, ...]:
    found = [] if given is None else given
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise InvalidInput(f"Expected a list of words as {key}, got {given!r}.")
    return tuple(found)


def _table(key: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"Expected a table as {key}, got {value!r}.")
    return value
