"""Built-in synthetic corpora of three assistant domains, generated from templates and word lists.

They replace private data that cannot be shared: all content is invented, and the label sets are
declared in advance (`schema`). `Samples` generates utterances from a custom grammar.

>>> for utterance in generate("communication", size=3, seed=1):
...     print(utterance.intent, utterance.user, utterance.text, sep=": ")
call: u00000: call everyone in frankfurt trip no wait cherry road neighbors
read_messages: u00002: show new messages from the day before yesterday
read_messages: u00000: read my chats
"""

from sottovoce._validate import one_of
from sottovoce.corpora.synthetic.carriers import schema_of
from sottovoce.corpora.synthetic.domains import NAMES
from sottovoce.corpora.synthetic.lexicon import LEXICONS, lexicon
from sottovoce.corpora.synthetic.samples import GRAMMAR, Samples
from sottovoce.corpora.synthetic.schema import DomainSchema, SlotType
from sottovoce.corpora.synthetic.stream import generate, write_jsonl

DOMAINS: tuple[str, ...] = NAMES


def schema(domain: str) -> DomainSchema:
    """The declared intents and slot types of a domain.

    >>> communication = schema("communication")
    >>> len(communication.intents), len(communication.slot_types)
    (18, 19)
    """
    one_of("domain", domain, NAMES)
    return schema_of(domain)


__all__ = [
    "DOMAINS",
    "GRAMMAR",
    "LEXICONS",
    "DomainSchema",
    "Samples",
    "SlotType",
    "generate",
    "lexicon",
    "schema",
    "write_jsonl",
]
