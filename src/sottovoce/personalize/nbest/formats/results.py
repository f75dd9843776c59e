"""JSON results of recognisers and services: Whisper, Vosk, sherpa-onnx, AWS, Google, Azure.

Each is read from one JSON file, from JSON lines, or from a folder of JSON files. An utterance is
named by its own id if it has one, else by its file, else by its position. A result that covers
several utterances (segments, phrases) yields one list for each of them.

Confidences become scores as ln(confidence). If one alternative has no score, none gets one: scores
that are known for some hypotheses only cannot be compared.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sottovoce.corpora.lines import Problems, open_bytes
from sottovoce.errors import InvalidInput
from sottovoce.personalize.nbest.lists import Hypothesis, NBest

Scored = tuple[str, float | None]
_IDS = ("id", "Id", "utterance_id", "utt", "key", "audio_filepath", "audio", "filename", "jobName")
_TEXTS = ("text", "transcript", "lexical", "Lexical", "display", "Display")


def reader(
    lists_of: Callable[[str, Any], Iterable[NBest]],
) -> Callable[[Path | str, Problems], Iterator[NBest]]:
    """A reader that turns every JSON value of a source into lists."""

    def read(path: Path | str, problems: Problems) -> Iterator[NBest]:
        problems.unit = "entry"
        for place, (name, value) in enumerate(_values(Path(path)), 1):
            try:
                yield from lists_of(_id(value) or name, value)
            except (InvalidInput, LookupError, TypeError, ValueError, AttributeError) as problem:
                problems.reject(place, f"Expected a result of the recogniser, but {problem!r}.")

    return read


def _values(path: Path) -> Iterator[tuple[str, Any]]:
    """Every JSON value with a default name."""
    if path.is_dir():
        for file in sorted(path.glob("*.json")):
            for place, value in enumerate(_parsed(file), 1):
                yield file.stem if place == 1 else f"{file.stem}-{place}", value
        return
    values = _parsed(path)
    if len(values) == 1 and not isinstance(values[0], list):
        yield path.name.split(".")[0], values[0]
        return
    # One list may hold all utterances, or the alternatives of a single one.
    if len(values) == 1 and not (values[0] and _is_alternative(values[0][0])):
        values = values[0]
    for place, value in enumerate(values, 1):
        yield f"utterance-{place}", value


def _parsed(path: Path) -> list[Any]:
    """The values of a JSON file or of JSON lines."""
    with open_bytes(path) as stream:
        text = stream.read()
    try:
        return [json.loads(text)]
    except (ValueError, RecursionError):
        pass
    try:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError) as problem:
        raise InvalidInput(f"Expected JSON in {path}, got {problem}.") from problem


def _is_alternative(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("text"), str) and _id(value) is None


def _id(value: Any) -> str | None:
    if isinstance(value, dict):
        for key in _IDS:
            # Whisper numbers its segments from 0: those are no names.
            if isinstance(value.get(key), str) and value[key]:
                return str(value[key])
    return None


def _list(
    name: str,
    alternatives: Iterable[Scored],
    about: Mapping[str, Any] | None = None,
    order: float | None = None,
) -> NBest:
    found = list(alternatives)
    known = all(score is not None for _, score in found)
    about = about or {}
    client = next((about[key] for key in ("client", "speaker") if about.get(key) is not None), None)
    reference = about.get("reference")
    return NBest(
        name,
        tuple(Hypothesis(text, score=score if known else None) for text, score in found),
        None if reference is None else str(reference),
        None if client is None else str(client),
        order if order is not None else _number(about.get("order")),
    )


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _text(value: Mapping[str, Any]) -> str:
    for key in _TEXTS:
        if isinstance(value.get(key), str):
            return str(value[key])
    raise InvalidInput(f"Expected a text, got {str(dict(value))[:60]}")


def _log(confidence: Any) -> float | None:
    """ln of a confidence; services leave it out, or send 0, where they have none."""
    value = _number(confidence)
    return None if value is None or not 0 < value <= 1 else math.log(value)


def _segments_score(segments: Sequence[Mapping[str, Any]]) -> float | None:
    """The summed log probability of Whisper's segments."""
    total = 0.0
    for segment in segments:
        if segment.get("avg_logprob") is None:
            return None
        # The mean is over the tokens and the end of the segment.
        total += float(segment["avg_logprob"]) * (len(segment.get("tokens") or ()) + 1)
    return total


def _whisper_alternative(value: Any) -> Scored:
    """openai-whisper's result, or the list of segments of faster-whisper."""
    if isinstance(value, str):
        return value, None
    segments = value if isinstance(value, list) else value.get("segments")
    if segments:
        joined = " ".join(_text(segment).strip() for segment in segments)
        return joined, _segments_score(segments)
    return _text(value), _number(value.get("score", value.get("avg_logprob")))


def whisper(name: str, value: Any) -> Iterator[NBest]:
    """Several decodings of one utterance: a list of results, or `alternatives` of an object.

    >>> decoded = [{"text": "call mum", "avg_logprob": -0.2}, {"text": "call mom"}]
    >>> [h.text for h in next(whisper("u1", decoded)).hypotheses]
    ['call mum', 'call mom']
    """
    if isinstance(value, list):
        yield _list(name, map(_whisper_alternative, value))
        return
    several = next((value[key] for key in ("alternatives", "nbest") if key in value), [value])
    yield _list(name, map(_whisper_alternative, several), value)


def transformers(name: str, value: Any) -> Iterator[NBest]:
    """`generate(num_return_sequences=N)`: decoded texts and `sequences_scores` of one utterance.

    >>> given = {"texts": ["call mum", "call mom"], "sequences_scores": [-0.1, -0.4]}
    >>> next(transformers("u1", given)).best
    Hypothesis(text='call mum', am=None, lm=None, score=-0.1)
    """
    texts = next((value[key] for key in ("texts", "sequences", "text") if key in value), None)
    if not isinstance(texts, list):
        raise InvalidInput(f"Expected a list of texts, got {value!r:.60}.")
    scores = value.get("sequences_scores", value.get("scores"))
    if scores is not None and len(scores) != len(texts):
        raise InvalidInput(f"Expected {len(texts)} scores, got {len(scores)}.")
    given = [None] * len(texts) if scores is None else [float(score) for score in scores]
    yield _list(name, zip(map(str, texts), given, strict=True), value)


def vosk(name: str, value: Any) -> Iterator[NBest]:
    """Vosk with `SetMaxAlternatives`; its confidence is a score of the lattice.

    >>> heard = {"alternatives": [{"confidence": 205.3, "text": "call mum"}]}
    >>> next(vosk("u1", heard)).best
    Hypothesis(text='call mum', am=None, lm=None, score=205.3)
    """
    several = value.get("alternatives", [value])
    yield _list(name, ((_text(each), _number(each.get("confidence"))) for each in several), value)


def sherpa_onnx(name: str, value: Any) -> Iterator[NBest]:
    """sherpa-onnx: one result or several of them, scored by the sum of `ys_log_probs`.

    >>> heard = {"nbest": [{"text": "CALL MUM", "ys_log_probs": [-0.5, -0.25]}]}
    >>> next(sherpa_onnx("u1", heard)).best.score
    -0.75
    """
    if isinstance(value, list):
        value = {"nbest": value}
    several = next((value[key] for key in ("nbest", "hypotheses") if key in value), [value])

    def alternative(each: Mapping[str, Any]) -> Scored:
        steps = each.get("ys_log_probs", each.get("ys_probs"))
        if steps:
            return _text(each), math.fsum(map(float, steps))
        return _text(each), _number(each.get("score", each.get("log_prob")))

    yield _list(name, map(alternative, several), value)


def aws(name: str, value: Any) -> Iterator[NBest]:
    """Amazon Transcribe with `ShowAlternatives`: one list for every segment.

    >>> part = {"transcript": "call mum", "items": [{"alternatives": [{"confidence": "0.5"}]}]}
    >>> job = {"jobName": "j", "results": {"segments": [{"alternatives": [part]}]}}
    >>> next(aws("j", job)).id
    'j-1'
    """

    def alternative(each: Mapping[str, Any]) -> Scored:
        total = 0.0
        for item in each.get("items", ()):
            # Punctuation has no confidence of its own.
            if item.get("type", "pronunciation") == "pronunciation":
                inner = (item.get("alternatives") or [item])[0]
                score = _log(inner.get("confidence"))
                if score is None:
                    return _text(each), None
                total += score
        return _text(each), total if each.get("items") else None

    results = value["results"]
    segments = results.get("segments") or [{"alternatives": results["transcripts"]}]
    for place, segment in enumerate(segments, 1):
        about = {"speaker": segment.get("speaker_label")}
        order = _number(segment.get("start_time", place))
        yield _list(f"{name}-{place}", map(alternative, segment["alternatives"]), about, order)


def google(name: str, value: Any) -> Iterator[NBest]:
    """Google Cloud Speech: one list for every result with alternatives.

    >>> heard = {"results": [{"alternatives": [{"transcript": "call mum", "confidence": 0.5}]}]}
    >>> next(google("u1", heard)).id
    'u1-1'
    """
    for place, result in enumerate(value["results"], 1):
        if alternatives := result.get("alternatives"):
            rows = ((_text(each), _log(each.get("confidence"))) for each in alternatives)
            yield _list(f"{name}-{place}", rows, None, place)


def azure(name: str, value: Any) -> Iterator[NBest]:
    """Azure Speech: the detailed format, or the phrases of a batch transcription.

    >>> heard = {"NBest": [{"Confidence": 0.5, "Lexical": "call mum", "Display": "Call mum."}]}
    >>> next(azure("u1", heard)).best.text
    'call mum'
    """

    def rows(several: Iterable[Mapping[str, Any]]) -> Iterator[Scored]:
        for each in several:
            lexical = each.get("Lexical", each.get("lexical"))
            text = lexical if isinstance(lexical, str) else _text(each)
            yield text, _log(each.get("Confidence", each.get("confidence")))

    if "recognizedPhrases" in value:
        for place, phrase in enumerate(value["recognizedPhrases"], 1):
            yield _list(f"{name}-{place}", rows(phrase.get("nBest", ())), phrase, place)
    else:
        yield _list(name, rows(value["NBest"]), value, _number(value.get("Offset")))
