"""From speech to personal text: flite speaks, pocketsphinx listens, counts are federated."""

import math
import shutil
import subprocess
import wave
from pathlib import Path

import pytest

from sottovoce.personalize.adaptation import Adaptation
from sottovoce.personalize.counting import Counting
from sottovoce.personalize.federation import clients_of, ledger_for, server_for
from sottovoce.personalize.formats.pocketsphinx import from_decoder
from sottovoce.personalize.nbest import NBest
from sottovoce.personalize.ngram.training import train_ngram
from sottovoce.personalize.plan import ReleasePlan
from sottovoce.personalize.rescoring import rescore, total, tune_weights
from sottovoce.personalize.rounds import run_rounds
from sottovoce.personalize.stream import Personalisation
from sottovoce.personalize.vocabulary import Vocabulary
from sottovoce.privacy.facts import Noise
from sottovoce.privacy.noise import NoiseSource

# Made-up users who return to their own names and places.
SAID = {
    ("ann", "rms"): ["call newark", "fly from newark to orlando"],
    ("bob", "awb"): ["drive to burbank", "leave burbank at noon"],
    ("eve", "kal16"): ["ask milo for help", "wait for milo"],
}
PUBLIC = [
    "call new york", "call home", "flight from boston to new york", "book the hotel in boston",
    "drive to the bank", "leave the bank at noon", "ask mike for help", "tell me hello",
    "wait for me", "is it late", "newark orlando burbank milo mill",
]  # fmt: skip


def heard(folder: Path) -> list[NBest]:
    """Every sentence spoken and recognised, with up to 20 hypotheses."""
    pocketsphinx = pytest.importorskip("pocketsphinx", reason="pocketsphinx is not installed")
    if shutil.which("flite") is None:
        pytest.skip("flite is not installed (Debian package flite)")
    decoder = pocketsphinx.Decoder(samprate=16000, loglevel="FATAL")
    lists = []
    for (client, voice), sentences in SAID.items():
        for order, sentence in enumerate(sentences):
            path = folder / "said.wav"
            subprocess.run(["flite", "-voice", voice, "-t", sentence, "-o", path], check=True)
            with wave.open(str(path)) as sound:
                samples = sound.readframes(sound.getnframes())
            decoder.start_utt()
            decoder.process_raw(samples, full_utt=True)
            decoder.end_utt()
            found = from_decoder(f"{client}-{order}", decoder, 20)
            lists.append(NBest(found.id, found.hypotheses, sentence, client, order))
    return lists


def test_speech_is_recognised_federated_and_rescored(tmp_path: Path) -> None:
    lists = heard(tmp_path)
    assert all(each.hypotheses for each in lists)
    words = Vocabulary.from_text(PUBLIC, size=200)
    model = train_ngram(PUBLIC, words, 2)
    plan = ReleasePlan(
        counting=Counting(sigma=1.0, nbest=20, max_words=10, distinct=True, integer=True),
        noise=Noise.DISCRETE_LAPLACE,
    ).calibrated(epsilon=4.0, rounds=2)
    ledger = ledger_for(plan)
    server = server_for(words, plan, ledger=ledger, source=NoiseSource.seeded(1))
    list(run_rounds(clients_of(lists, words, plan, rounds=2), server, rounds=2))
    assert ledger.guarantee(0.0).epsilon <= 4.0
    settings = Personalisation(adaptation=Adaptation(alpha=0.1, beta=0.8))
    # Six utterances are an example, not a measurement: tuned and evaluated on the same ones.
    tuned = tune_weights(lists, model, settings, server.q_bar)
    outcome = rescore(lists, model, settings, tuned, server.q_bar)
    rates = outcome.to_json()
    print({name: rates[name]["wer"] for name in ("first_pass", "background", "adapted", "oracle")})
    assert math.isfinite(total(outcome.adapted).rate)
    assert total(outcome.oracle).count <= total(outcome.adapted).count
    assert total(outcome.adapted).count <= total(outcome.background).count
    assert set(outcome.texts) == {each.id for each in lists}
