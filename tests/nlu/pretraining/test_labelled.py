"""Adaptation on labelled corpora: it learns, it resumes, and it leaves the word pieces alone."""

from pathlib import Path

import pytest
import torch
from tests.nlu.tiny import UTTERANCES, tiny_bert

from sottovoce.corpora import Utterance
from sottovoce.errors import InvalidInput
from sottovoce.nlu.fit.loop import Progress
from sottovoce.nlu.pretraining import LabelledPlan, LoopOptions, adapt, chosen

TAGGED = (
    Utterance(tokens=("mum", "stop"), slots=("B-person", "O")),
    Utterance(tokens=("play", "mummy"), slots=("O", "B-person")),
)
CORPORA = {"commands": UTTERANCES, "people": TAGGED}
PLAN = LabelledPlan(passes=60, batch_size=4, learning_rate=5e-3, head_rate=5e-2, dropout=0.0)


def test_the_encoder_learns_to_label_all_corpora() -> None:
    torch.manual_seed(0)
    encoder = tiny_bert()
    losses: list[Progress] = []
    pretrained = adapt(encoder, CORPORA, PLAN, LoopOptions(on_step=losses.append))
    assert pretrained.steps == 120
    assert not pretrained.stopped
    assert losses[-1].loss < 0.5 * losses[0].loss
    assert losses[-1].seconds_left == 0


def test_pieces_keep_their_vectors_and_layers_do_not() -> None:
    torch.manual_seed(0)
    encoder = tiny_bert()
    before = {name: x.clone() for name, x in encoder.state_dict().items()}
    adapt(encoder, CORPORA, LabelledPlan(passes=1))
    changed = {name for name, x in encoder.state_dict().items() if not torch.equal(x, before[name])}
    assert "network.embeddings.word_embeddings.weight" not in changed
    assert "network.encoder.layer.0.attention.self.query.weight" in changed


def test_dropout_is_gone_afterwards() -> None:
    encoder = tiny_bert()
    adapt(encoder, CORPORA, LabelledPlan(passes=1, dropout=0.5))
    inputs = encoder.collate([encoder.prepare(["call", "mum"])])
    encoder.train()
    torch.testing.assert_close(encoder(inputs).words, encoder(inputs).words)


def test_a_stopped_adaptation_resumes_to_the_same_weights(tmp_path: Path) -> None:
    plan = LabelledPlan(passes=3, batch_size=2)
    ends = []
    for stop_at in (None, 4):
        torch.manual_seed(0)
        encoder = tiny_bert()
        path, seen = tmp_path / f"{stop_at}.pt", list[int]()
        told = LoopOptions(
            checkpoint=path,
            on_step=lambda moment, seen=seen: seen.append(moment.step),  # type: ignore[misc]
            should_stop=lambda seen=seen, at=stop_at: len(seen) + 1 == at,  # type: ignore[misc]
        )
        first = adapt(encoder, CORPORA, plan, told)
        if stop_at is not None:
            assert first.stopped
            assert first.steps == stop_at
            torch.manual_seed(1)
            encoder = tiny_bert()
            again = adapt(encoder, CORPORA, plan, LoopOptions(checkpoint=path, resume=True))
            assert again.steps > stop_at
        ends.append(encoder.state_dict())
    for name, weight in ends[0].items():
        torch.testing.assert_close(ends[1][name], weight)


def test_a_checkpoint_of_other_settings_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    stop = LoopOptions(checkpoint=path, settings={"seed": 0}, should_stop=lambda: True)
    assert adapt(tiny_bert(), CORPORA, LabelledPlan(passes=2), stop).stopped
    other = LoopOptions(checkpoint=path, settings={"seed": 1}, resume=True)
    with pytest.raises(InvalidInput, match="settings and data"):
        adapt(tiny_bert(), CORPORA, LabelledPlan(passes=2), other)


def test_at_most_the_limit_is_taken_and_nothing_twice() -> None:
    many = [
        Utterance(tokens=("call", f"mum{number % 30}"), slots=("O", "B-who"), intent="call")
        for number in range(60)
    ]
    taken = chosen({"calls": many}, LabelledPlan(limit=20))["calls"]
    assert len(taken) == 20
    assert len({u.tokens for u in taken}) == 20
    assert taken == chosen({"calls": many}, LabelledPlan(limit=20))["calls"]
    assert len(chosen({"calls": many}, LabelledPlan(limit=None))["calls"]) == 30


def test_a_corpus_without_labels_is_refused() -> None:
    bare = [Utterance(tokens=("call",), slots=("O",))]
    with pytest.raises(InvalidInput, match="Expected intents or slots in the corpus bare"):
        adapt(tiny_bert(), {"bare": bare})
    with pytest.raises(InvalidInput, match="at least one labelled corpus"):
        adapt(tiny_bert(), {})


@pytest.mark.parametrize("wrong", [{"passes": 0}, {"learning_rate": 0.0}, {"swapped": 2.0}])
def test_plans_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidInput):
        LabelledPlan(**wrong)  # type: ignore[arg-type]
