"""Semantic error rates of the default private recipe, by corpus, number of utterances and epsilon.

    python benchmarks/nlu.py --corpora nlu/atis --sizes 500 1500 4478
    python benchmarks/nlu.py --corpora nlu/snips --encoder no-snips.adapter

Every cell is what `sottovoce train DATA --epsilon E --public-labels` trains, on the first of the
utterances in a fixed random order; vectors are computed once for all cells of a corpus. An adapter
must not have been made from the corpus it is measured on: the option --without of
`python -m sottovoce.nlu.pretraining.shipping` makes another one. Cells that are already in the
output are not computed again. Latency is measured at the end: one utterance, and batches of 64, in
process CPU time of one thread.
"""

import json
import random
import time
from pathlib import Path
from typing import Any

import torch

from helpers.machine import cpu_name, versions
from helpers.options import options_of, parser_of, tell, without_data, write
from sottovoce.corpora import Utterance
from sottovoce.corpora.splits import load_parts
from sottovoce.nlu.encoders.adapter import ADAPTED
from sottovoce.nlu.fit.data import Encodings
from sottovoce.nlu.fit.factory import build
from sottovoce.nlu.fit.loop import fit
from sottovoce.nlu.fit.settings import Settings
from sottovoce.nlu.model import JointModel
from sottovoce.nlu.runs.experiment import evaluate
from sottovoce.nlu.schema import Schema
from sottovoce.training import Method

QUICK: dict[str, Any] = {"sizes": [200], "epsilons": [3.0], "limit": 50, "epochs": 1}


def name_of(corpus: str, encoder: str, size: int, epsilon: float) -> str:
    return f"{corpus} {Path(encoder).name} {size} {epsilon:g}"


def measure(corpus: str, given: Any, cells: dict[str, Any]) -> JointModel | None:
    """Fill in the missing cells of a corpus; the last model, for its latency."""
    parts = load_parts(given.data / corpus)
    train = list(parts.train)
    random.Random(0).shuffle(train)
    sizes = sorted({min(size, len(train)) for size in given.sizes or [len(train)]})
    wanted = {
        name_of(corpus, given.encoder, size, epsilon): (size, epsilon)
        for size in sizes
        for epsilon in given.epsilons
    }
    if all(name in cells for name in wanted):
        return None
    schema = Schema.of(parts.train, declared=True)
    settings = Settings(method=Method.DP_SGD, epsilon=3, encoder=given.encoder, epochs=given.epochs)
    train = train[: sizes[-1]]
    owners = [str(number) for number in range(len(train))]
    model = build(settings, schema, train, owners, settings.plan(len(train)), None).model
    start = {name: x.clone() for name, x in model.state_dict().items() if "encoder." not in name}
    encodings = Encodings(model, train)
    tested = {part: list(getattr(parts, part))[: given.limit] for part in ("valid", "test")}
    for name, (size, epsilon) in wanted.items():
        if name in cells:
            continue
        model.load_state_dict(start, strict=False)
        settings = Settings(
            method=Method.DP_SGD, epsilon=epsilon, encoder=given.encoder, epochs=given.epochs
        )
        begun = time.process_time()
        fitted = fit(model, encodings, settings.plan(size), settings.optimisation(), owners=size)
        cells[name] = {
            "corpus": corpus, "encoder": Path(given.encoder).name,
            "size": size, "epsilon": epsilon, "guarantee": fitted.guarantee.epsilon,
            "labels": len(schema.intents) + len(schema.slot_types),
            "training seconds": time.process_time() - begun,
            **{part: evaluate(model, utterances) for part, utterances in tested.items()},
        }  # fmt: skip
        print(name, {part: round(100 * cells[name][part]["ser"]["value"], 2) for part in tested})
        write(given.output, {"processor": cpu_name(), **versions("torch"), "cells": cells})
    return model


def latency(model: JointModel, utterances: list[Utterance]) -> dict[str, float]:
    """Milliseconds of process CPU time: one utterance alone, and each in batches of 64."""
    tokens = [utterance.tokens for utterance in utterances[:192]]
    model.predict(tokens[:1])
    begun = time.process_time()
    for each in tokens[:40]:
        model.predict([each])
    alone = (time.process_time() - begun) / len(tokens[:40])
    begun = time.process_time()
    model.predict(tokens)
    return {"alone": 1000 * alone, "batch": 1000 * (time.process_time() - begun) / len(tokens)}


def main() -> None:
    torch.set_num_threads(1)
    parser = parser_of(__file__, __doc__, data="the corpora")
    parser.add_argument("--corpora", nargs="+", default=["nlu/atis"])
    parser.add_argument("--encoder", default=ADAPTED, help="encoder or adapter file")
    parser.add_argument("--sizes", nargs="+", type=int, help="training utterances (default: all)")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[3.0, 8.0, 1.0])
    parser.add_argument("--limit", type=int, default=1000, help="utterances to test on, at most")
    parser.add_argument("--epochs", type=int, help="passes (default: of the recipe)")
    given = options_of(parser, quick=QUICK)
    if missing := [name for name in given.corpora if not (given.data / name).is_dir()]:
        without_data(given, missing[0])
    cells: dict[str, Any] = {}
    if given.output.exists():
        cells = json.loads(given.output.read_text(encoding="utf-8"))["cells"]
    for corpus in given.corpora:
        model = measure(corpus, given, cells)
        if model is not None:
            found = latency(model, list(load_parts(given.data / corpus).valid))
            print(corpus, {name: f"{ms:.1f} ms" for name, ms in found.items()})
    tell(given.output)


if __name__ == "__main__":
    main()
