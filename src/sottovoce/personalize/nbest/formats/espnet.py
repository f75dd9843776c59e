"""ESPnet2's folders `1best_recog`, `2best_recog`, ...: `text` and `score`, keyed by utterance."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from sottovoce.corpora.lines import Problems
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import text_output
from sottovoce.personalize.nbest.formats._tables import key_like, number, table_of, table_text
from sottovoce.personalize.nbest.lists import Hypothesis, NBest


def read_espnet(folder: Path | str, problems: Problems) -> Iterator[NBest]:
    """Lists in the order of `1best_recog/text`; an utterance may have fewer hypotheses."""
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
