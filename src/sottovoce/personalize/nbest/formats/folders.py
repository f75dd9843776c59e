"""N-best formats that are folders of text files: Kaldi, ESPnet and SRILM."""

import math
from collections.abc import Iterable, Iterator
from pathlib import Path

from sottovoce.corpora.lines import LINE_LIMIT, Problems, open_bytes, text_lines
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import text_output
from sottovoce.personalize.nbest.formats._tables import (
    key_like,
    known,
    number,
    table_of,
    table_text,
)
from sottovoce.personalize.nbest.lists import Hypothesis, NBest

_WORDS, _ACOUSTIC, _NO_LM, _LM_ONLY, _WITH_LM = (
    "words_text", "acwt", "lmwt.nolm", "lmwt.lmonly", "lmwt.withlm",
)  # fmt: skip


def read_kaldi(
    folder: Path | str, problems: Problems, *, acoustic_scale: float = 1.0
) -> Iterator[NBest]:
    """Lists in the order of `words_text`; scores of missing files are unknown.

    Kaldi's text archives are one file per column, keyed by `<utterance>-<rank>`. `words_text` holds
    the words; `acwt`, `lmwt.nolm`, `lmwt.lmonly` and `lmwt.withlm` hold costs, that is negated
    natural logarithms: graph = nolm + lmonly = withlm; total = scale * acoustic + graph.
    """
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


def read_espnet(folder: Path | str, problems: Problems) -> Iterator[NBest]:
    """Lists in the order of `1best_recog/text`; an utterance may have fewer hypotheses.

    ESPnet2 has folders `1best_recog`, `2best_recog`, ... with `text` and `score`, keyed by
    utterance.
    """
    found: dict[str, list[Hypothesis]] = {}
    rank = 1
    while (inner := Path(folder) / f"{rank}best_recog").is_dir():
        texts = table_of(inner / "text", problems)
        scores = table_of(inner / "score", problems) if (inner / "score").is_file() else None
        for place, (utterance, text) in enumerate(texts.items(), 1):
            try:
                score = None if scores is None else number(_of(scores, utterance, inner))
                if rank > 1 and len(found.get(utterance, ())) != rank - 1:
                    raise InvalidInput(
                        f"Expected {utterance!r} in {rank - 1}best_recog too, not found."
                    )
                found.setdefault(utterance, []).append(Hypothesis(text, score=score))
            except InvalidInput as problem:
                problems.reject(place, problem)
        rank += 1
    if rank == 1:
        raise InvalidInput(f"Expected a folder 1best_recog in {folder}, got none.")
    for utterance, hypotheses in found.items():
        yield NBest(utterance, tuple(hypotheses))


def write_espnet(folder: Path | str, lists: Iterable[NBest]) -> None:
    """Write the folders; `score` is written only if every hypothesis of the rank has one."""
    ranks: list[dict[str, Hypothesis]] = []
    for each in lists:
        for place, hypothesis in enumerate(each.hypotheses):
            if place == len(ranks):
                ranks.append({})
            ranks[place][key_like(each.id)] = hypothesis
    for rank, column in enumerate(ranks, 1):
        inner = Path(folder) / f"{rank}best_recog"
        inner.mkdir(parents=True, exist_ok=True)
        with text_output(inner / "text") as stream:
            stream.write(table_text({key: h.text for key, h in column.items()}))
        if all(h.score is not None for h in column.values()):
            with text_output(inner / "score") as stream:
                stream.write(table_text({key: repr(h.score) for key, h in column.items()}))


def _of(scores: dict[str, str], utterance: str, folder: Path) -> str:
    if utterance not in scores:
        raise InvalidInput(f"Expected a score of {utterance!r} in {folder}, got none.")
    return scores[utterance]


_HEADER = "NBestList1.0"
_BYTELOG = 1024 / 10000.5
_SUFFIXES = (".gz", ".nbest", ".score")


def read_srilm(path: Path | str, problems: Problems) -> Iterator[NBest]:
    """The lists of a folder, sorted by name, or the single list of a file.

    There is one file per utterance, optionally compressed. A plain line is `acoustic language count
    word ...` with base-10 logarithms. After the header `NBestList1.0`, lines are `(bytelog) word
    ...`, where log10 = bytelog * 1024 / 10000.5 / ln 10.
    """
    path = Path(path)
    files = sorted(each for each in path.iterdir() if each.is_file()) if path.is_dir() else [path]
    if not files:
        raise InvalidInput(f"Expected N-best files in {path}, got none.")
    for order, file in enumerate(files):
        problems.name = str(file)
        yield NBest(_id(file), tuple(_hypotheses(file, problems)), order=order)


def write_srilm(folder: Path | str, lists: Iterable[NBest]) -> None:
    """One plain file per utterance; acoustic and language scores are required."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for each in lists:
        if Path(each.id).name != each.id:
            raise InvalidInput(f"Expected an id that is a valid file name, got {each.id!r}.")
        with text_output(folder / f"{each.id}.nbest") as stream:
            for h in each.hypotheses:
                am = known(h.am, "am", each.id) / math.log(10)
                lm = known(h.lm, "lm", each.id) / math.log(10)
                stream.write(" ".join([f"{am!r} {lm!r} {len(h.words)}", *h.words]) + "\n")


def _hypotheses(file: Path, problems: Problems) -> Iterator[Hypothesis]:
    bytelogs = False
    with open_bytes(file) as stream:
        for place, line in text_lines(stream, problems, LINE_LIMIT):
            if line.strip() == _HEADER:
                bytelogs = True
                continue
            try:
                yield _with_bytelog(line) if bytelogs else _plain(line)
            except InvalidInput as problem:
                problems.reject(place, problem)


def _plain(line: str) -> Hypothesis:
    fields = line.split()
    if len(fields) < 3:
        raise InvalidInput(f"Expected two scores and a word count, got {line!r:.60}.")
    am, lm = (number(field) * math.log(10) for field in fields[:2])
    return Hypothesis(" ".join(fields[3:]), am=am, lm=lm)


def _with_bytelog(line: str) -> Hypothesis:
    score, closed, words = line.strip().removeprefix("(").partition(")")
    if not closed:
        raise InvalidInput(f"Expected a score in brackets, got {line!r:.60}.")
    # Byte logarithms are scaled natural logarithms, so ln 10 cancels.
    return Hypothesis(words, score=number(score) * _BYTELOG)


def _id(file: Path) -> str:
    name = file.name
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name
