"""What heads should read of an adapted encoder, kept beside its weights.

Means and directions are taken from the public text the encoder was adapted on, once, so a private
training that starts from the folder needs no public text of its own.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from sottovoce.errors import InvalidInput
from sottovoce.io.staging import find, settle
from sottovoce.nlu.encoders.bert import Bert, Summary
from sottovoce.nlu.encoders.whitening import Readout, ReadoutPlan

READOUT, WEIGHTS = "readout.json", "readout.safetensors"


def learn_reading(
    encoder: Bert,
    public: Iterable[Sequence[str]],
    plan: ReadoutPlan,
    *,
    layers: Sequence[int],
    summary: Summary,
) -> tuple[Bert, Readout]:
    """The encoder read at `layers`, and a readout with the statistics of public utterances."""
    read = Bert(
        encoder.network, encoder.pieces, layers=layers, summary=summary, source=encoder.source
    )
    readout = Readout(read.width, read.summary_width, plan)
    readout.learn(read, public)
    return read, readout


def reading_files(encoder: Bert, readout: Readout) -> dict[str, bytes]:
    """What `load_reading` needs, as files."""
    from safetensors.torch import save

    data = {
        "layers": list(encoder.layers),
        "summary": encoder.summary,
        "pooling": encoder.pooling,
        "readout": readout.to_json(),
    }
    return {
        READOUT: json.dumps(data, indent=2).encode(),
        WEIGHTS: save(dict(readout.state_dict())),
    }


def has_reading(folder: str | Path) -> bool:
    """Whether an encoder's folder says how it wants to be read."""
    return find(folder, READOUT).is_file() and find(folder, WEIGHTS).is_file()


def load_reading(folder: str | Path) -> tuple[Bert, Readout]:
    """The encoder of a folder, and its readout with public statistics."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    if not has_reading(folder):
        raise InvalidInput(f"Expected {READOUT} and {WEIGHTS} in {folder}, found none.")
    settle(folder)
    try:
        data = json.loads(find(folder, READOUT).read_text(encoding="utf-8"))
        readout = Readout.from_json(data["readout"])
        readout.load_state_dict(load(find(folder, WEIGHTS).read_bytes()))
        layers, summary, pooling = data["layers"], data["summary"], data["pooling"]
    except (ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as problem:
        raise InvalidInput(
            f"Expected the statistics of an adapted encoder in {folder}, but they cannot be read."
        ) from problem
    encoder = Bert.load(folder, layers=layers, summary=summary, pooling=pooling)
    if readout.sizes != (encoder.width, encoder.summary_width):
        raise InvalidInput(
            f"Expected statistics for widths {encoder.width} and {encoder.summary_width} in "
            f"{folder}, got some for {readout.sizes[0]} and {readout.sizes[1]}."
        )
    return encoder, readout
