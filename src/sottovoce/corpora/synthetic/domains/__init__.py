"""The three domains. Each is a TOML file with slots, named parts of templates, and intents."""

import tomllib
from functools import cache
from importlib import resources

from sottovoce.corpora.synthetic.schema import Domain, Intent

NAMES = ("communication", "health", "video")


@cache
def domain_of(name: str) -> Domain:
    """One of the domains in `NAMES`."""
    text = resources.files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
    declared = tomllib.loads(text)
    return Domain(
        name=name,
        slots=declared["slots"],
        parts=declared["parts"],
        intents={intent: Intent(**given) for intent, given in declared["intents"].items()},
    )
