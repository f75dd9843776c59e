"""Options that several `sottovoce deid` commands share, and the objects they stand for."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from sottovoce.corpora import Reader
from sottovoce.deid import MAPPINGS, LabelMap, Resources, Vault, mapping, read_labels
from sottovoce.deid.detect import Combination, Evaluation
from sottovoce.deid.replace.sources import SourceRequest, surrogates_from
from sottovoce.deid.replace.strategies import Fit
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource

Command = Callable[..., Any]


def labels_option(command: Command) -> Command:
    """Add the option `--labels`, for `chosen_labels`."""
    return click.option(
        "--labels",
        default="standard",
        show_default=True,
        help=f"Mapping from labels to types: {', '.join(MAPPINGS)}, or a JSON file.",
    )(command)


def chosen_labels(name: str) -> LabelMap:
    """A built-in mapping, or one from a file."""
    return mapping(name) if name in MAPPINGS else read_labels(name)


def resources(
    options: Mapping[str, Any],
    readers: Sequence[Reader],
    found: Combination,
    noise: NoiseSource,
    vault: Vault | None,
    *,
    language: str,
) -> Resources:
    named = options["surrogates"]
    if named and any(Path(named).exists() and _is_same(named, reader) for reader in readers):
        raise InvalidInput(
            "Expected a public list of surrogates, got the corpus itself: to draw from its own "
            "values, use same-corpus or dp-histogram."
        )
    twice = len(readers) == 1 and str(readers[0].path) != "-"
    request = SourceRequest(
        utterances=readers[0] if twice else None,
        detector=found,
        epsilon=options["histogram_epsilon"],
        delta=options["histogram_delta"],
        noise=noise,
    )
    surrogates = surrogates_from(named, request) if named else {}
    vectors = None
    if options["vectors"]:
        from sottovoce.corpora.wordvectors import read_word_vectors

        vectors = read_word_vectors(options["vectors"])
    return Resources(
        surrogates=surrogates,
        vectors=vectors,
        vault=vault,
        fit=Fit(options["fit"]),
        language=language,
    )


def _is_same(named: str, reader: Reader) -> bool:
    path = Path(reader.path)
    return path.exists() and path.samefile(named)


def vault_of(options: Mapping[str, Any]) -> Vault | None:
    reversible = options["vault_file"] is not None
    if options["key_file"] is None:
        if reversible:
            raise InvalidInput(
                "Expected --key with --vault, got none: without the key the vault cannot be opened."
            )
        return Vault.fresh(within=options["within"])
    key = read_key(options["key_file"])
    if reversible and Path(options["vault_file"]).exists():
        found = Vault.load(options["vault_file"], key)
        if found.within != options["within"]:
            raise InvalidInput(
                f"Expected --within {found.within}, as in the vault, got {options['within']}."
            )
        return found
    return Vault(key, within=options["within"], reversible=reversible)


def read_key(path: str) -> bytes:
    """The key in a file; Vault checks its length."""
    return Path(path).read_bytes()


def evaluation_of(path: str | None) -> Evaluation | None:
    if path is None:
        return None
    try:
        return Evaluation.from_json(json.loads(Path(path).read_text(encoding="utf-8")))
    except ValueError as problem:
        raise InvalidInput(f"{path}: {problem}") from problem
