"""The interface of background language models, and their storage in folders.

A folder holds `lm.json` (kind and sizes), `vocabulary.json` and the model: an ARPA file with its
compiled form (see `ngram.files`), the compiled form alone, or the weights of a Transformer. ARPA
files, KenLM models and Hugging Face folders can be loaded too. No format can execute code on
loading.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any, Protocol

from sottovoce._model_folders import bounded
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import output, text_output
from sottovoce.personalize.lm.ngram.files import (
    as_written,
    read_arpa,
    read_compiled,
    write_arpa,
    write_compiled,
)
from sottovoce.personalize.lm.ngram.model import NGramModel
from sottovoce.personalize.lm.vocabulary import Vector, Vocabulary

if TYPE_CHECKING:
    from sottovoce.personalize.lm.neural.model import TransformerLM

ABOUT, WORDS, ARPA, WEIGHTS = "lm.json", "vocabulary.json", "model.arpa.gz", "weights.pt"
COMPILED, HUGGING_FACE = "model.ngram", "config.json"


class LanguageModel(Protocol):
    """Scores sentences, optionally adapted by factors over its vocabulary."""

    @property
    def vocabulary(self) -> Vocabulary: ...

    def score(
        self,
        sentences: Sequence[Sequence[str]],
        log_factors: Vector | None = None,
        *,
        normalise: bool = True,
    ) -> list[float]: ...


def save_ngram(folder: Path | str, model: NGramModel) -> None:
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_arpa(folder / ARPA, model)
    write_compiled(folder / COMPILED, as_written(model), arpa=folder / ARPA)
    model.vocabulary.save(folder / WORDS)
    _about(folder, {"kind": "ngram", "order": len(model.orders)})


def compile_ngram(folder: Path | str, model: NGramModel) -> None:
    """Write the model for devices: compiled, without an ARPA file."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / ABOUT).exists():
        raise InvalidInput(f"Expected a folder without a model, got one in {folder}: name another.")
    write_compiled(folder / COMPILED, model)
    model.vocabulary.save(folder / WORDS)
    _about(folder, {"kind": "ngram", "order": len(model.orders)})


def save_transformer(folder: Path | str, model: "TransformerLM") -> None:
    import torch

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with output(folder / WEIGHTS) as stream:
        torch.save(model.state_dict(), stream)
    model.vocabulary.save(folder / WORDS)
    _about(folder, {"kind": "transformer", "shape": model.shape.to_json()})


def load_lm(
    path: Path | str, vocabulary: Vocabulary | None = None, *, kenlm: bool = False
) -> LanguageModel:
    """Load a model from its folder, an ARPA file, a KenLM binary or a Hugging Face folder.

    The last two have no unigram distribution, so they need a public `vocabulary`, or a
    `vocabulary.json` in the folder. With `kenlm`, KenLM scores an ARPA file.
    """
    path = Path(path)
    if path.is_file():
        return _load_file(path, vocabulary, kenlm=kenlm)
    adapted = (path / "adapter_config.json").is_file()
    if not (path / ABOUT).is_file() and (adapted or (path / HUGGING_FACE).is_file()):
        from sottovoce.personalize.lm.neural.huggingface import HuggingFaceLM

        if vocabulary is None and (path / WORDS).is_file():
            vocabulary = Vocabulary.load(path / WORDS)
        return HuggingFaceLM.load(path, _needed(vocabulary, path))
    if not (path / ABOUT).is_file():
        raise InvalidInput(f"Expected an ARPA file or a folder with {ABOUT}, got {path}.")
    if vocabulary is not None or kenlm:
        raise InvalidInput(
            f"Expected neither a vocabulary nor KenLM for {path}, got one: the model has its own."
        )
    try:
        about = json.loads((path / ABOUT).read_bytes())
        kind = about["kind"]
    except (ValueError, TypeError, KeyError) as problem:
        raise InvalidInput(f"Expected {path / ABOUT} to name a kind: {problem!r}.") from problem
    if kind == "ngram":
        return replace(_load_ngram(path), background=Vocabulary.load(path / WORDS))
    if kind == "transformer":
        return _load_transformer(path, about)
    raise InvalidInput(f"Expected the kind ngram or transformer in {path}, got {kind!r}.")


def _load_ngram(folder: Path) -> NGramModel:
    """The compiled model, unless it does not match the ARPA file next to it."""
    arpa, compiled = folder / ARPA, folder / COMPILED
    found = None
    if compiled.is_file():
        found = read_compiled(compiled, arpa=arpa if arpa.is_file() else None)
    return found if found is not None else read_arpa(arpa)


def _load_file(path: Path, vocabulary: Vocabulary | None, *, kenlm: bool) -> LanguageModel:
    from sottovoce.personalize.lm.ngram.files import KenLM, is_binary

    if is_binary(path):
        return KenLM(path, _needed(vocabulary, path))
    if kenlm:
        return KenLM(path, vocabulary or read_arpa(path).vocabulary)
    if vocabulary is not None:
        raise InvalidInput(f"Expected no vocabulary for {path}, got one: an ARPA file has its own.")
    return read_arpa(path)


def _needed(vocabulary: Vocabulary | None, path: Path) -> Vocabulary:
    if vocabulary is None:
        raise InvalidInput(
            f"Expected a public vocabulary with u(w) for {path}, got none: pass a {WORDS} of "
            "`sottovoce lm train`."
        )
    return vocabulary


def _load_transformer(folder: Path, about: dict[str, Any]) -> LanguageModel:
    import torch

    from sottovoce.personalize.lm.neural.model import TransformerLM, TransformerShape

    try:
        shape = TransformerShape(**about["shape"])
        state = torch.load(folder / WEIGHTS, weights_only=True)
        with bounded(sum(x.numel() for x in state.values()), folder):
            model = TransformerLM(Vocabulary.load(folder / WORDS), shape)
        model.load_state_dict(state)
    except (
        KeyError,
        TypeError,
        AttributeError,
        RuntimeError,
        EOFError,
        OSError,
        UnpicklingError,
    ) as problem:
        raise InvalidInput(f"Expected a Transformer in {folder}: {problem}") from problem
    model.eval()
    return model


def _about(folder: Path, about: dict[str, Any]) -> None:
    with text_output(folder / ABOUT) as stream:
        json.dump(about, stream, indent=2)
