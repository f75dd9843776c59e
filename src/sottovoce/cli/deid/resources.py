"""What `sottovoce deid run` is given besides text: surrogates, word vectors, keys, evaluations."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sottovoce.corpora import Reader
from sottovoce.deid import Materials, Vault, read_surrogates
from sottovoce.deid.detect import Combination, Evaluation
from sottovoce.deid.replace.corpus_surrogates import counted_surrogates, private_surrogates
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource

FROM_CORPUS = ("same-corpus", "dp-histogram")


def materials(
    options: Mapping[str, Any],
    readers: Sequence[Reader],
    found: Combination,
    noise: NoiseSource,
    vault: Vault | None,
) -> Materials:
    named = options["surrogates"]
    surrogates = {}
    if named in FROM_CORPUS:
        reader = readers[0]
        if len(readers) > 1 or str(reader.path) == "-":
            raise InvalidInput(f"Expected one file to read twice for {named}, got something else.")
        if named == "same-corpus":
            surrogates = counted_surrogates(reader, found)
        else:
            surrogates = private_surrogates(
                reader,
                found,
                epsilon=options["histogram_epsilon"],
                delta=options["histogram_delta"],
                source=noise,
            )
    elif named:
        if any(Path(named).exists() and _is_same(named, reader) for reader in readers):
            raise InvalidInput(
                "Expected a public list of surrogates, got the corpus itself; to draw from its own "
                f"values, name {' or '.join(FROM_CORPUS)}."
            )
        surrogates = read_surrogates(named)
    vectors = None
    if options["vectors"]:
        from sottovoce.corpora.wordvectors import read_word_vectors

        vectors = read_word_vectors(options["vectors"])
    return Materials(
        surrogates=surrogates,
        vectors=vectors,
        vault=vault,
        like_for_like=options["like_for_like"],
    )


def _is_same(named: str, reader: Reader) -> bool:
    path = Path(reader.path)
    return path.exists() and path.samefile(named)


def vault_of(options: Mapping[str, Any]) -> Vault | None:
    reversible = options["vault_file"] is not None
    if options["key_file"] is None:
        if reversible:
            raise InvalidInput(
                "Expected --key with --vault, got none: nobody could open the vault."
            )
        return Vault.fresh(within=options["within"])
    key = Path(options["key_file"]).read_bytes()
    return Vault(key, within=options["within"], reversible=reversible)


def evaluation_of(path: str | None) -> Evaluation | None:
    if path is None:
        return None
    try:
        return Evaluation.from_json(json.loads(Path(path).read_text(encoding="utf-8")))
    except ValueError as problem:
        raise InvalidInput(f"{path}: {problem}") from problem
