"""From speech to personalised text, with flite, pocketsphinx and federated word counts.

    python examples/recognise_and_personalise.py

Six fictional users repeat their own names and places. flite synthesises each sentence, and
pocketsphinx returns up to 20 hypotheses. Word counts are released with noise; then each device
rescores its hypotheses. Weights are tuned on two users and evaluated on the other four: an example,
far too small for a measurement.
"""

import importlib.util
import shutil
import subprocess
import sys
import tempfile
import wave
from pathlib import Path

from sottovoce.personalize import (
    Adaptation,
    Counting,
    NBest,
    Personalisation,
    ReleasePlan,
    Vocabulary,
    clients_of,
    ledger_for,
    rescore,
    run_rounds,
    server_for,
    train_ngram,
    tune_weights,
)
from sottovoce.personalize.nbest.formats.beams import from_decoder
from sottovoce.privacy.facts import Noise

SAID = {
    ("ann", "rms"): [
        "call newark",
        "fly to newark",
        "fly from newark to orlando",
        "ask for newark",
    ],
    ("bob", "awb"): ["drive to burbank", "leave burbank at noon", "is burbank far", "to burbank"],
    ("cat", "slt"): [
        "call doctor brown",
        "ask doctor brown",
        "wait for doctor brown",
        "call brown",
    ],
    ("dan", "rms"): ["ask milo for help", "wait for milo", "call milo", "drive to milo at noon"],
    ("eve", "slt"): ["fly to toledo", "is toledo far", "leave toledo late", "call toledo"],
    ("fay", "awb"): ["call emma", "ask emma for help", "is emma late", "wait for emma at noon"],
}
TUNED_ON = ("ann", "bob")
PUBLIC = [
    "call new york", "call home", "fly from boston to new york", "fly to boston", "is boston far",
    "drive to the bank", "leave the bank at noon", "ask mike for help", "call the doctor",
    "wait for me at noon", "is it late", "leave late", "ask the doctor for help",
    "newark orlando burbank brown milo toledo emma",
]  # fmt: skip


def recognised() -> list[NBest]:
    """Synthesise and recognise every sentence."""
    from pocketsphinx import Decoder  # type: ignore[import-untyped, import-not-found, unused-ignore]

    decoder = Decoder(samprate=16000, loglevel="FATAL")
    lists = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "said.wav")
        for (client, voice), sentences in SAID.items():
            for order, sentence in enumerate(sentences):
                subprocess.run(["flite", "-voice", voice, "-t", sentence, "-o", path], check=True)
                with wave.open(str(path)) as sound:
                    samples = sound.readframes(sound.getnframes())
                decoder.start_utt()
                decoder.process_raw(samples, full_utt=True)
                decoder.end_utt()
                found = from_decoder(f"{client}-{order}", decoder, 20)
                lists.append(NBest(found.id, found.hypotheses, sentence, client, order))
    return lists


if shutil.which("flite") is None or importlib.util.find_spec("pocketsphinx") is None:
    print("Nothing to do: this needs flite (a Debian package) and pocketsphinx (pip install).")
    sys.exit()

lists = recognised()
words = Vocabulary.from_text(PUBLIC, size=200)
background = train_ngram(PUBLIC, words, order=2)

# Federate: one client per user, two rounds, epsilon 4 per utterance.
plan = ReleasePlan(
    counting=Counting(sigma=1.0, nbest=5, max_words=6, distinct=True, integer=True),
    noise=Noise.DISCRETE_LAPLACE,
).calibrated(epsilon=4.0, rounds=2)
ledger = ledger_for(plan)
server = server_for(words, plan, ledger=ledger)
for report in run_rounds(clients_of(lists, words, plan, rounds=2), server, rounds=2):
    print(f"round {report.number}: {report.accepted} of {report.sampled} devices contributed")

# Rescore: tune weights on two users, evaluate on the others.
settings = Personalisation(adaptation=Adaptation(alpha=0.1, beta=0.8))
tuning = [each for each in lists if each.client in TUNED_ON]
others = [each for each in lists if each.client not in TUNED_ON]
tuned = tune_weights(tuning, background, settings, server.q_bar)
outcome = rescore(others, background, settings, tuned, server.q_bar)
rates = outcome.to_json()
print(f"word error rate on {rates['words']} words of {rates['clients']} users:")
for name in ("first_pass", "background", "adapted", "oracle"):
    print(f"  {name.replace('_', ' '):<11}{rates[name]['wer']:6.1f} %")
print(ledger.guarantee(0.0))
