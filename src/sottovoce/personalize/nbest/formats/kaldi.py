"""Kaldi's text archives: a folder with one file per column, keyed by `<utterance>-<rank>`.

`words_text` holds the words; `acwt`, `lmwt.nolm`, `lmwt.lmonly` and `lmwt.withlm` hold costs, that
is negated natural logarithms. graph = nolm + lmonly = withlm; total = scale * acoustic + graph.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from sottovoce.corpora.lines import Problems
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import text_output
from sottovoce.personalize.nbest.formats._tables import key_like, number, table_of, table_text
from sottovoce.personalize.nbest.lists import Hypothesis, NBest

_WORDS, _ACOUSTIC, _NO_LM, _LM_ONLY, _WITH_LM = (
    "words_text", "acwt", "lmwt.nolm", "lmwt.lmonly", "lmwt.withlm",
)  # fmt: skip


def read_kaldi(
    folder: Path | str, problems: Problems, *, acoustic_scale: float = 1.0
) -> Iterator[NBest]:
    """Lists in the order of `words_text`; scores of missing files are unknown."""
    folder = Path(folder)
    columns = {
        name: table_of(folder / name, problems)
        for name in (_WORDS, _ACOUSTIC, _NO_LM, _LM_ONLY, _WITH_LM)
        if name == _WORDS or (folder / name).is_file()
    }
    ranked: dict[str, dict[int, Hypothesis]] = {}
    for place, (key, words) in enumerate(columns[_WORDS].items(), 1):
        try:
            utterance, rank = split_key(key)
            costs = {name: _cost(table, key) for name, table in columns.items() if name != _WORDS}
            ranked.setdefault(utterance, {})[rank] = _scored(words, costs, acoustic_scale)
        except InvalidInput as problem:
            problems.reject(place, problem)
    for utterance, ranks in ranked.items():
        yield NBest(utterance, tuple(ranks[rank] for rank in sorted(ranks)))


def write_kaldi(folder: Path | str, lists: Iterable[NBest], *, acoustic_scale: float = 1.0) -> None:
    """Write the folder; a score column is written only if every hypothesis has that score."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    words: dict[str, str] = {}
    hypotheses: dict[str, Hypothesis] = {}
    for each in lists:
        for rank, hypothesis in enumerate(each.hypotheses, 1):
            key = f"{key_like(each.id)}-{rank}"
            words[key], hypotheses[key] = hypothesis.text, hypothesis
    tables = {_WORDS: words}
    every = hypotheses.values()
    if all(h.am is not None for h in every):
        tables[_ACOUSTIC] = {key: repr(-(h.am or 0.0)) for key, h in hypotheses.items()}
    if all(h.lm is not None and h.score is not None for h in every):
        graph = {
            key: -(h.score or 0.0) + acoustic_scale * (h.am or 0.0) for key, h in hypotheses.items()
        }
        tables[_LM_ONLY] = {key: repr(-(h.lm or 0.0)) for key, h in hypotheses.items()}
        tables[_NO_LM] = {
            key: repr(cost + (hypotheses[key].lm or 0.0)) for key, cost in graph.items()
        }
        tables[_WITH_LM] = {key: repr(cost) for key, cost in graph.items()}
    for name, table in tables.items():
        with text_output(folder / name) as stream:
            stream.write(table_text(table))


def split_key(key: str) -> tuple[str, int]:
    """The utterance and its rank; the last dash separates them.

    >>> split_key("ann-2024-3")
    ('ann-2024', 3)
    """
    utterance, dash, rank = key.rpartition("-")
    if not (dash and utterance and rank.isascii() and rank.isdigit() and int(rank) >= 1):
        raise InvalidInput(f"Expected a key such as utterance-1, got {key!r}.")
    return utterance, int(rank)


def _cost(table: dict[str, str], key: str) -> float:
    if key not in table:
        raise InvalidInput(f"Expected a cost for {key!r} in every score file, got none.")
    return number(table[key])


def _scored(words: str, costs: dict[str, float], acoustic_scale: float) -> Hypothesis:
    acoustic, without, only, with_lm = (
        costs.get(name) for name in (_ACOUSTIC, _NO_LM, _LM_ONLY, _WITH_LM)
    )
    if only is None and with_lm is not None and without is not None:
        only = with_lm - without
    if with_lm is None and without is not None and only is not None:
        with_lm = without + only
    total = None
    if acoustic is not None and with_lm is not None:
        total = acoustic_scale * acoustic + with_lm
    am, lm, score = (None if cost is None else -cost for cost in (acoustic, only, total))
    return Hypothesis(words, am, lm, score)
