"""Scoring N-best lists with the paper's Transformer: a prefix tree in one pass, against a padded
batch of all hypotheses and against one by one.

    python benchmarks/rescoring.py --data FOLDER

Real lists: SNIPS-tts (up to 20 hypotheses, FOLDER/nbest/snips-tts) and, where flite and
pocketsphinx are installed, 100-best lists recognised on the spot. Interleaved runs, one thread,
process time. The weights are random: speed does not depend on them, and equality of scores is the
harder for it.
"""

import platform
import shutil
import subprocess
import tempfile
import time
import wave
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from helpers.options import options_of, parser_of, tell, without_data, write
from sottovoce.personalize.lm.neural.model import (
    PrefixTree,
    TransformerLM,
    score_one_by_one,
    score_tree,
)
from sottovoce.personalize.lm.vocabulary import UNKNOWN, Vocabulary
from sottovoce.personalize.nbest.formats import read_nbest
from sottovoce.personalize.nbest.formats.beams import from_decoder
from sottovoce.personalize.nbest.lists import NBest

SNIPS = "nbest/snips-tts/test.jsonl"
VOCABULARY = 20_000
LISTS = 20
REPEATS = 3
TARGET = 3.0
SENTENCES = [
    "please find a flight from newark to orlando", "show me the cheapest round trip to boston",
    "play the newest song by the band on my list", "book a table for four near the old bridge",
]  # fmt: skip


def spoken(sentences: list[str], size: int = 100) -> list[NBest]:
    """Sentences said by flite and heard by pocketsphinx."""
    from pocketsphinx import Decoder  # type: ignore[import-untyped, import-not-found, unused-ignore]

    decoder = Decoder(samprate=16000, loglevel="FATAL")
    lists = []
    with tempfile.TemporaryDirectory() as folder:
        for place, sentence in enumerate(sentences):
            voice = ("rms", "awb")[place % 2]
            path = Path(folder, "said.wav")
            subprocess.run(["flite", "-voice", voice, "-t", sentence, "-o", path], check=True)
            with wave.open(str(path)) as sound:
                samples = sound.readframes(sound.getnframes())
            decoder.start_utt()
            decoder.process_raw(samples, full_utt=True)
            decoder.end_utt()
            lists.append(from_decoder(f"spoken-{place}", decoder, size))
    return lists


def sources(data: Path, most: int | None = None) -> dict[str, list[NBest]]:
    """What can be had here; with `most`, so many lists of each at most."""
    found = {}
    if (data / SNIPS).exists():
        snips = list(read_nbest(data / SNIPS))
        snips.sort(key=lambda each: -len(each.hypotheses))
        # As many 20-best lists as there are, and the usual 10-best ones.
        found["SNIPS-tts, 20-best"] = [e for e in snips if len(e.hypotheses) == 20]
        found["SNIPS-tts, 10-best"] = [e for e in snips if len(e.hypotheses) == 10][:LISTS]
    if shutil.which("flite") and find_spec("pocketsphinx"):
        found["flite + pocketsphinx, 100-best"] = spoken(SENTENCES[:most])
    return {name: lists[:most] for name, lists in found.items()}


def model_for(lists: list[NBest]) -> TransformerLM:
    words = sorted({w for each in lists for h in each.hypotheses for w in h.words} - {UNKNOWN})
    filler = [f"#{i}" for i in range(VOCABULARY - 1 - len(words))]
    torch.manual_seed(0)
    return TransformerLM(
        Vocabulary((*words, *filler, UNKNOWN), np.full(VOCABULARY, 1 / VOCABULARY))
    )


@torch.no_grad()
def score_padded(model: TransformerLM, sentences: list[tuple[str, ...]]) -> list[float]:
    """All hypotheses in one batch, padded to the longest: what most toolkits do."""
    model.eval()
    rows = [[model.boundary, *model.encode(sentence)] for sentence in sentences]
    longest = max(map(len, rows))
    ids = torch.full((len(rows), longest), model.boundary)
    targets = torch.full((len(rows), longest), -1)
    for place, row in enumerate(rows):
        ids[place, : len(row)] = torch.tensor(row)
        targets[place, : len(row)] = torch.tensor([*row[1:], model.boundary])
    positions = torch.arange(longest).expand(len(rows), -1)
    scores = model.logits(model.states(ids, positions)).log_softmax(dim=-1)
    found = scores.gather(2, targets.clamp(min=0)[..., None])[..., 0].double()
    totals: list[float] = found.masked_fill(targets < 0, 0.0).sum(dim=1).tolist()
    return totals


def race(lists: list[NBest], repeats: int) -> dict[str, Any]:
    model = model_for(lists)
    factors = np.random.default_rng(0).normal(size=VOCABULARY)
    seconds: dict[str, list[float]] = {
        name: [] for name in ("tree", "padded batch", "one by one", "tree, adapted")
    }
    worst = 0.0
    for _ in range(repeats):
        spent = dict.fromkeys(seconds, 0.0)
        for each in lists:
            sentences = [h.words for h in each.hypotheses]
            start = time.process_time()
            together = score_tree(model, sentences)
            spent["tree"] += time.process_time() - start
            start = time.process_time()
            padded = score_padded(model, sentences)
            spent["padded batch"] += time.process_time() - start
            start = time.process_time()
            alone = score_one_by_one(model, sentences)
            spent["one by one"] += time.process_time() - start
            start = time.process_time()
            score_tree(model, sentences, factors)
            spent["tree, adapted"] += time.process_time() - start
            for other in (alone, padded):
                worst = max(worst, float(np.abs(np.subtract(together, other)).max()))
        for name, value in spent.items():
            seconds[name].append(value)
    median = {name: float(np.median(values)) for name, values in seconds.items()}
    nodes = [
        len(PrefixTree.of([model.encode(h.words) for h in e.hypotheses], model.boundary).words)
        for e in lists
    ]
    return {
        "lists": len(lists),
        "hypotheses": sum(len(each.hypotheses) for each in lists),
        "words": sum(len(h.words) + 1 for each in lists for h in each.hypotheses),
        "nodes": sum(nodes),
        "milliseconds_a_list": {n: round(1000 * s / len(lists), 2) for n, s in median.items()},
        "speed_up_over_padding": round(median["padded batch"] / median["tree"], 2),
        "speed_up": round(median["one by one"] / median["tree"], 2),
        "speed_up_adapted": round(median["one by one"] / median["tree, adapted"], 2),
        "largest_difference": worst,
    }


def main() -> None:
    parser = parser_of(__file__, __doc__, data="N-best lists of SNIPS")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="runs of every list")
    parser.add_argument("--lists", type=int, help="the most lists of a kind (default: all)")
    given = options_of(parser, quick={"repeats": 1, "lists": 1})
    torch.set_num_threads(1)
    found = sources(given.data, given.lists)
    if not found:
        without_data(given, f"{SNIPS} (flite and pocketsphinx would do as well)")
    if not (given.data / SNIPS).exists():
        print(f"Without SNIPS: {given.data / SNIPS} does not exist.")
    results = {name: race(lists, given.repeats) for name, lists in found.items()}
    table = Table(title="Prefix tree in one pass against a padded batch and one by one")
    for heading in (
        "lists",
        "hypotheses",
        "words / nodes",
        "ms a list",
        "padded",
        "speed-up",
        "difference",
    ):
        table.add_column(heading)
    for name, row in results.items():
        table.add_row(
            name,
            str(row["hypotheses"]),
            f"{row['words']} / {row['nodes']}",
            str(row["milliseconds_a_list"]["tree"]),
            f"{row['speed_up_over_padding']}x",
            f"{row['speed_up']}x (target {TARGET}x)",
            f"{row['largest_difference']:.1e}",
        )
    Console().print(table)
    report = {"machine": platform.machine(), "torch": torch.__version__, "results": results}
    write(given.output, report, indent=1)
    tell(given.output)


if __name__ == "__main__":
    main()
