"""Errors on names: contacts and titles of the built-in domains, spoken by flite, heard by
pocketsphinx, and rescored with and without the user's own lists.

    python benchmarks/spoken_names.py

Every user has a list of contacts, actors or titles: those that the user talks about, among as many
of other users. The background is an n-gram of other sentences of the same domains, in which all
values are drawn anew. A third of the users tune the weights, the others are measured once. Needs
flite (a Debian package) and pocketsphinx.
"""

import platform
import random
import shutil
import subprocess
import tempfile
import wave
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from helpers.options import options_of, parser_of, tell, without_data, write
from sottovoce.corpora import Utterance
from sottovoce.corpora.synthetic import generate
from sottovoce.personalize.lm.ngram.training import train_ngram
from sottovoce.personalize.lm.vocabulary import Vocabulary
from sottovoce.personalize.nbest.formats.beams import from_decoder
from sottovoce.personalize.nbest.lists import NBest
from sottovoce.personalize.rescoring.personal import BiasList
from sottovoce.personalize.rescoring.run import split_clients
from sottovoce.personalize.rescoring.trusting import Sources, rescore_personal, tune_trust

DOMAINS = ("communication", "video")
KINDS = ("contact", "actor", "title", "director")
VOICES = ("rms", "awb", "slt", "kal16")
PUBLIC, SIZE = 20_000, 20


def values_of(utterance: Utterance) -> list[str]:
    """The names in an utterance."""
    found: list[list[str]] = []
    for token, label in zip(utterance.tokens, utterance.slots, strict=True):
        kind = label.partition("-")[2]
        if kind in KINDS:
            if label.startswith("B-"):
                found.append([])
            if found:
                found[-1].append(token)
    return [" ".join(words) for words in found]


def said(users: int, each: int) -> list[Utterance]:
    """`each` sentences with names of every user."""
    kept: dict[str, list[Utterance]] = defaultdict(list)
    for domain in DOMAINS:
        for utterance in generate(domain, size=users * each * 8, users=users, seed=1):
            mine = kept[f"{domain} {utterance.user}"]
            if len(mine) < each and values_of(utterance):
                mine.append(utterance)
    return [utterance for mine in kept.values() for utterance in mine]


def heard(utterances: list[Utterance]) -> list[NBest]:
    from pocketsphinx import Decoder  # type: ignore[import-untyped, import-not-found, unused-ignore]

    decoder = Decoder(samprate=16000, loglevel="FATAL")
    lists = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "said.wav")
        for order, each in enumerate(utterances):
            client = f"{each.id.partition('-')[0]} {each.user}"
            voice = VOICES[sum(client.encode()) % len(VOICES)]
            text = " ".join(each.tokens)
            subprocess.run(["flite", "-voice", voice, "-t", text, "-o", path], check=True)
            with wave.open(str(path)) as sound:
                samples = sound.readframes(sound.getnframes())
            decoder.start_utt()
            decoder.process_raw(samples, full_utt=True)
            decoder.end_utt()
            found = from_decoder(each.id, decoder, SIZE)
            lists.append(NBest(each.id, found.hypotheses, text, client, order))
    return lists


def own_lists(utterances: list[Utterance]) -> dict[str, BiasList]:
    """The list of every user, with as many names of others."""
    names: dict[str, set[str]] = defaultdict(set)
    for each in utterances:
        names[f"{each.id.partition('-')[0]} {each.user}"].update(values_of(each))
    rng = random.Random(0)
    everybody = sorted(set().union(*names.values()))
    return {
        client: BiasList([*sorted(mine), *rng.sample(everybody, min(len(mine), len(everybody)))])
        for client, mine in names.items()
    }


def main() -> None:
    parser = parser_of(__file__, __doc__)
    parser.add_argument("--users", type=int, default=12, help="users of each domain")
    parser.add_argument("--each", type=int, default=15, help="sentences of each user")
    given = options_of(parser, quick={"users": 3, "each": 2})
    if shutil.which("flite") is None or find_spec("pocketsphinx") is None:
        without_data(given, "flite and pocketsphinx")
    utterances = said(given.users, given.each)
    lists = heard(utterances)
    public = [
        " ".join(each.tokens)
        for domain in DOMAINS
        for each in generate(domain, size=PUBLIC // 2, seed=99)
    ]
    model = train_ngram(public, Vocabulary.from_text(public, 5000), 3)
    dev, rest = split_clients(lists, 1 / 3)
    found: dict[str, Any] = {"machine": platform.machine(), "utterances": len(rest)}
    biased = Sources(own_bias=own_lists(utterances))
    listed = set().union(*(bias.words for bias in biased.own_bias.values()))
    for name, sources in (("history", Sources()), ("history and lists", biased)):
        trust = tune_trust(dev, model, sources)
        outcome = rescore_personal(rest, model, trust, sources, listed)
        row = outcome.to_json()
        names = row["rare_words"]
        found[name] = {
            "wer": {part: row[part]["wer"] for part in ("first_pass", "background", "adapted")},
            "change": row["change_from_background"],
            "names": names,
            "names_change": round(
                100 * (names["adapted_errors"] / max(names["background_errors"], 1) - 1), 1
            ),
            "classes": trust.classes,
        }
        print(name, found[name])
    write(given.output, found, indent=1)
    tell(given.output)


if __name__ == "__main__":
    main()
