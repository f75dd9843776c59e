"""Build a model from settings, and record where its parts came from.

An adapted encoder (see `pretraining`) comes with public statistics for its readout. For other
encoders they are computed from the built-in synthetic corpora, which are public.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sottovoce.corpora import Utterance
from sottovoce.corpora.synthetic import DOMAINS, generate
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import text_output
from sottovoce.io.run import Run
from sottovoce.nlu.encoders import ENCODERS
from sottovoce.nlu.encoders.adapter import is_adapter, load_adapter, load_encoder
from sottovoce.nlu.encoders.bert import MINILM, Bert
from sottovoce.nlu.encoders.clc import Clc, ClcShape
from sottovoce.nlu.encoders.label_names import name_vectors
from sottovoce.nlu.encoders.tuning import Tuned, Tuning, tune, tuning_of
from sottovoce.nlu.encoders.whitening import Readout
from sottovoce.nlu.encoders.words import Words, WordSource, private_words, words_of_vectors
from sottovoce.nlu.fit.name_start import start_from_names
from sottovoce.nlu.fit.recipes import ModelKind, readout_recipe
from sottovoce.nlu.fit.settings import DP, HASHED, PRIVATE, Settings
from sottovoce.nlu.model import JointModel
from sottovoce.nlu.pretraining.job import fit_readout, has_readout, load_readout
from sottovoce.nlu.schema import Schema
from sottovoce.privacy.ledger import Ledger
from sottovoce.privacy.noise import NoiseSource
from sottovoce.training import Method, Plan, Worker

VOCABULARY = "vocabulary.json"
"""File of the private vocabulary of a run in training: it is released once and reused on resume."""
LEDGER = "ledger.jsonl"
SPARE = 100
"""Hash buckets for out-of-vocabulary words."""
PAPER = "paper"
PUBLIC_UTTERANCES = 400
"""Synthetic utterances per domain for the public statistics."""

PUBLIC_ENCODER = "the encoder {name} was made from public text only"
ENCODER_FILES = frozenset({"tokenizer.json", "vocabulary.json", "words.json"})
OUTSIDE_ENCODER = "nothing private went into the encoder {name} of {module}"
PUBLIC_VECTORS = "the word vectors are public"
PUBLIC_WORDS = "the list of words is public"


@dataclass(frozen=True, kw_only=True)
class Built:
    """A model to train, its training plan, and the assumptions of its guarantee."""

    model: JointModel
    plan: Plan
    assumptions: tuple[str, ...]


def build(
    settings: Settings,
    schema: Schema,
    utterances: Sequence[Utterance],
    owners: Sequence[str],
    plan: Plan,
    folder: Path | None,
) -> Built:
    """The model of `settings`; a private vocabulary is first charged to the folder's ledger."""
    if settings.model not in [str(each) for each in ModelKind]:
        return _registered(settings, schema, plan)
    if settings.model == ModelKind.BERT:
        tuning = tuning_of(settings.filled().tuning or Tuned.FROZEN)
        adapted = is_adapter(settings.encoder)
        if adapted and tuning.kind is Tuned.FROZEN:
            model = _adapted(settings, schema)
            encoder = model.encoder
        else:
            encoder, readout = _bert(settings)
            tune(encoder, tuning)
            # If only the heads are trained, sharing weights between labels counters the noise.
            model = JointModel(schema, encoder, readout, share_names=tuning.kind is Tuned.FROZEN)
        public = () if settings.encoder == PAPER else (PUBLIC_ENCODER.format(name=encoder.source),)
        return Built(model=model, plan=plan, assumptions=public)
    if settings.vectors is not None:
        words, vectors = words_of_vectors(settings.vectors)
        tune_words = plan.method in (Method.SGD, Method.EDP_SGD)
        clc = Clc(words, _shape(settings), vectors=vectors, tune_words=tune_words)
        return Built(model=JointModel(schema, clc), plan=plan, assumptions=(PUBLIC_VECTORS,))
    words, plan = _vocabulary(settings, utterances, owners, plan, folder)
    public = (PUBLIC_WORDS,) if words.source is WordSource.PUBLIC else ()
    clc = Clc(words, _shape(settings))
    return Built(model=JointModel(schema, clc), plan=plan, assumptions=public)


def _registered(settings: Settings, schema: Schema, plan: Plan) -> Built:
    encoder = ENCODERS.get(settings.model).from_settings(settings)
    # Checked before training, because a run folder accepts these files only.
    if unknown := sorted({*encoder.files()} - ENCODER_FILES):
        raise InvalidInput(
            f"Expected the files of the encoder {settings.model} to be among "
            f"{', '.join(sorted(ENCODER_FILES))}, got {unknown[0]!r}."
        )
    module = ENCODERS.origin(settings.model)
    claim = OUTSIDE_ENCODER.format(name=settings.model, module=module)
    assumptions = () if module is None else (claim,)
    return Built(model=JointModel(schema, encoder), plan=plan, assumptions=assumptions)


def _shape(settings: Settings) -> ClcShape:
    sizes = {name: getattr(settings, name) for name in ("hidden", "layers", "word_width")}
    return ClcShape(**{name: size for name, size in sizes.items() if size is not None})


def _adapted(settings: Settings, schema: Schema) -> JointModel:
    """A model on the frozen MiniLM with an adapter, whose heads start from the label names."""
    adapter, encoder = load_adapter(settings.encoder), Bert.load()
    slot_types = name_vectors(encoder, schema.slot_types)
    intents = name_vectors(encoder, schema.intents)
    adapter.apply(encoder)
    recipe = readout_recipe(Tuned.FROZEN)
    encoder = encoder.reading(recipe.layers, recipe.summary, source=settings.encoder)
    readout = Readout(encoder.width, encoder.summary_width, recipe.plan)
    statistics = readout.fit(encoder, sorted(adapter.utterances, key=len))
    tune(encoder, Tuning(kind=Tuned.FROZEN))
    model = JointModel(schema, encoder, readout, share_names=True)
    if statistics is not None:
        start_from_names(model, adapter.heads, slot_types, intents, statistics)
    return model


def _bert(settings: Settings) -> tuple[Bert, Readout]:
    """The encoder, and its readout with statistics of public text."""
    tuning = settings.filled().tuning
    recipe = readout_recipe(tuning)
    if tuning == Tuned.FROZEN and has_readout(settings.encoder):
        return load_readout(settings.encoder)
    paper = settings.encoder == PAPER
    encoder = Bert.untrained(MINILM) if paper else load_encoder(settings.encoder)
    synthetic = (
        utterance.tokens
        for domain in DOMAINS
        for utterance in generate(domain, size=PUBLIC_UTTERANCES, seed=0)
    )
    config: Any = encoder.network.config
    layers = _at_depth(recipe.layers, int(config.num_hidden_layers))
    return fit_readout(encoder, synthetic, recipe.plan, layers=layers, summary=recipe.summary)


def _at_depth(layers: Sequence[int], depth: int) -> list[int]:
    """The recipe's layers, scaled to an encoder of another depth.

    >>> _at_depth((1, 3, 5, 6), 6), _at_depth((1, 3, 5, 6), 2), _at_depth((-1,), 4)
    ([1, 3, 5, 6], [1, 2], [-1])
    """
    deepest = max(layers)
    if deepest < 0:
        return list(layers)
    return sorted({max(1, round(layer * depth / deepest)) for layer in layers})


def _vocabulary(
    settings: Settings,
    utterances: Sequence[Utterance],
    owners: Sequence[str],
    plan: Plan,
    folder: Path | None,
) -> tuple[Words, Plan]:
    """The vocabulary of the CLC, and the plan with the remaining budget."""
    match settings.vocabulary:
        case name if name == HASHED or name.startswith(f"{HASHED}-"):
            return _hashed(name), plan
        case name if name == PRIVATE:
            return Words.seen(utterances), plan
        case name if name == DP:
            return _dp_vocabulary(settings, utterances, owners, plan, folder)
        case path:
            try:
                lines = Path(path).read_text(encoding="utf-8").split()
            except (OSError, UnicodeDecodeError) as problem:
                raise InvalidInput(
                    f"Expected the vocabulary hashed, dp, private or a file of words, got {path!r}."
                ) from problem
            if not lines:
                raise InvalidInput(f"Expected words in {path}, found none.")
            return Words(listed=tuple(lines), source=WordSource.PUBLIC, spare=SPARE), plan


def _hashed(name: str) -> Words:
    """Parse hashed or hashed-BUCKETS."""
    if name == HASHED:
        return Words.hashed()
    number = name.removeprefix(f"{HASHED}-")
    if not number.isdecimal():
        raise InvalidInput(f"Expected a number in {HASHED}-NUMBER, got {number!r}.")
    return Words.hashed(int(number))


def _dp_vocabulary(
    settings: Settings,
    utterances: Sequence[Utterance],
    owners: Sequence[str],
    plan: Plan,
    folder: Path | None,
) -> tuple[Words, Plan]:
    """The vocabulary gets a tenth of delta and, by default, a tenth of epsilon."""
    if plan.method is Method.SGD:
        raise InvalidInput(
            "Expected a private method for a private vocabulary, got sgd: choose dp-sgd or edp-sgd."
        )
    if folder is None or not Worker.this().alone:
        raise InvalidInput(
            "Expected a run folder and a single process for a private vocabulary, whose cost is "
            "charged to the ledger of the run."
        )
    share = settings.vocabulary_epsilon
    if share is None:
        if settings.epsilon is None:
            raise InvalidInput("Expected an epsilon for the private vocabulary, got none.")
        share = settings.epsilon / 10
    delta = plan.delta / 10
    if settings.epsilon is not None:
        if share >= settings.epsilon:
            raise InvalidInput(
                f"Expected less than {settings.epsilon:g} for the vocabulary, got {share:g}."
            )
        rest = replace(plan, delta=plan.delta - delta).calibrate(epsilon=settings.epsilon - share)
        plan = replace(rest, delta=plan.delta)
    kept = Run(folder).private(VOCABULARY)
    if kept.exists():
        listed = tuple(json.loads(kept.read_text(encoding="utf-8")))
        return Words(listed=listed, source=WordSource.DP, spare=SPARE), plan
    source = NoiseSource() if settings.seed is None else NoiseSource.seeded(settings.seed)
    with Ledger.open(folder / LEDGER, unit=plan.unit, relation=plan.neighbours) as ledger:
        words = private_words(
            utterances, ledger, epsilon=share, delta=delta, owners=owners, spare=SPARE,
            source=source,
        )  # fmt: skip
    with text_output(kept, mode=0o600) as stream:
        json.dump(list(words.listed), stream, ensure_ascii=False)
    return words, plan
