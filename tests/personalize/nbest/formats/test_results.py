"""JSON results of recognisers and services, in the shapes that their documentation shows."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from sottovoce.errors import InvalidInput
from sottovoce.personalize.nbest.formats import read_nbest, write_nbest
from sottovoce.personalize.nbest.lists import NBest

SEGMENT = {
    "id": 0,
    "seek": 0,
    "start": 0.0,
    "end": 2.0,
    "tokens": [50364, 1, 2],
    "temperature": 0.0,
}


def whisper(text: str, mean: float) -> dict[str, Any]:
    """What `model.transcribe` returns."""
    segment = {**SEGMENT, "text": f" {text}", "avg_logprob": mean}
    return {"text": f" {text}", "segments": [segment], "language": "en"}


AWS = {
    "jobName": "call-7",
    "results": {
        "transcripts": [{"transcript": "call mum"}],
        "segments": [
            {
                "start_time": "0.5",
                "end_time": "1.5",
                "alternatives": [
                    {
                        "transcript": f"call {name}",
                        "items": [
                            {"type": "pronunciation", "content": "call", "confidence": "0.9"},
                            {"type": "pronunciation", "content": name, "confidence": confidence},
                            {"type": "punctuation", "content": "."},
                        ],
                    }
                    for name, confidence in (("mum", "0.8"), ("mom", "0.1"))
                ],
            }
        ],
    },
    "status": "COMPLETED",
}
GOOGLE = {
    "results": [
        {
            "alternatives": [
                {"transcript": "call mum", "confidence": 0.9},
                {"transcript": "call mom"},
            ],
            "resultEndTime": "1.5s",
        },
        {"resultEndTime": "2s"},
    ]
}
AZURE = {
    "Id": "a1",
    "RecognitionStatus": "Success",
    "Offset": 300000,
    "DisplayText": "Call mum.",
    "NBest": [
        {"Confidence": 0.8, "Lexical": "call mum", "ITN": "call mum", "Display": "Call mum."},
        {"Confidence": 0.4, "Lexical": "call mom", "ITN": "call mom", "Display": "Call mom."},
    ],
}
BATCH = {
    "source": "x.wav",
    "recognizedPhrases": [
        {"speaker": 2, "nBest": [{"confidence": 0.8, "lexical": "call mum"},
                                 {"confidence": 0.4, "lexical": "call mom"}]},
    ],
}  # fmt: skip
VOSK = {
    "alternatives": [
        {"confidence": 205.5, "text": "call mum", "result": []},
        {"confidence": 204.25, "text": "call mom"},
    ]
}
SHERPA = {"nbest": [{"text": "call mum", "tokens": ["call"], "ys_log_probs": [-0.5]},
                    {"text": "call mom", "ys_log_probs": [-0.5, -0.25]}]}  # fmt: skip
LN = math.log
CASES: dict[str, tuple[str, Any, list[float | None]]] = {
    "openai-whisper": (
        "whisper",
        [whisper("call mum", -0.25), whisper("call mom", -0.5)],
        [-1, -2],
    ),
    "faster-whisper": (
        "whisper",
        {"id": "u", "alternatives": [[{**SEGMENT, "text": t, "avg_logprob": s}]
                                     for t, s in (("call mum", -0.25), ("call mom", -0.5))]},
        [-1, -2],
    ),
    "transformers": (
        "transformers",
        {"id": "u", "texts": ["call mum", "call mom"], "sequences_scores": [-0.25, -0.5]},
        [-0.25, -0.5],
    ),
    "vosk": ("vosk", VOSK, [205.5, 204.25]),
    "sherpa-onnx": ("sherpa-onnx", SHERPA, [-0.5, -0.75]),
    "aws": ("aws", AWS, [LN(0.9) + LN(0.8), LN(0.9) + LN(0.1)]),
    "google": ("google", GOOGLE, [None, None]),
    "azure": ("azure", AZURE, [LN(0.8), LN(0.4)]),
    "azure batch": ("azure", BATCH, [LN(0.8), LN(0.4)]),
}  # fmt: skip


def texts(each: NBest) -> list[str]:
    return [h.text for h in each.hypotheses]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kind", ["file", "folder", "lines"])
def test_shapes(tmp_path: Path, name: str, kind: str) -> None:
    format, value, scores = CASES[name]
    path = tmp_path / "heard.json"
    if kind == "folder":
        path.mkdir()
        (path / "one.json").write_text(json.dumps(value))
    else:
        path.write_text(json.dumps(value) + ("\n" + json.dumps(value) if kind == "lines" else ""))
    try:
        found = list(read_nbest(path, format, on_error="lenient"))
    except InvalidInput as problem:
        pytest.fail(str(problem))
    assert all(texts(each) == ["call mum", "call mom"] for each in found)
    assert [h.score for h in found[0].hypotheses] == pytest.approx(scores)


def test_names_speakers_and_times(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    for value, format, expected in (
        (AWS, "aws", ("call-7-1", None, 0.5)),
        (AZURE, "azure", ("a1", None, 300000.0)),
        (BATCH, "azure", ("result-1", "2", 1)),
        (GOOGLE, "google", ("result-1", None, 1)),
        (
            {**VOSK, "id": "u9", "client": "ann", "reference": "call mum"},
            "vosk",
            ("u9", "ann", None),
        ),
    ):
        path.write_text(json.dumps(value))
        (found,) = read_nbest(path, format)
        assert (found.id, found.client, found.order) == expected


@pytest.mark.parametrize("format", ["transformers", "vosk", "aws", "google", "azure"])
@pytest.mark.parametrize("text", ["", "3", "[]", '{"a": 1}', "{", '{"results": 3}', '["x", 1]'])
def test_other_json_is_one_sentence(tmp_path: Path, format: str, text: str) -> None:
    path = tmp_path / "heard.json"
    path.write_text(text)
    with pytest.raises(InvalidInput, match="Expected"):
        list(read_nbest(path, format))


def test_icefall(tmp_path: Path) -> None:
    (tmp_path / "recogs-test.txt").write_text(
        "ann-1:\tref=['call', 'mum']\n"
        "ann-1:\thyp=['call', 'mom']\n"
        "ann-1:\thyp=['call', 'mum']\t-2.5\n"
    )
    (found,) = read_nbest(tmp_path, "icefall")
    assert (found.id, found.reference, texts(found)) == (
        "ann-1",
        "call mum",
        ["call mom", "call mum"],
    )
    assert found.hypotheses[1].score == -2.5
    (tmp_path / "recogs-test.txt").write_text("ann-1:\thyp=__import__('os')\n")
    # Text is text: nothing is executed.
    assert texts(next(iter(read_nbest(tmp_path, "icefall")))) == ["__import__('os')"]
    (tmp_path / "recogs-test.txt").write_text("ann-1:\thyp=[print(1)]\n")
    with pytest.raises(InvalidInput, match="a list of words"):
        list(read_nbest(tmp_path, "icefall"))


def test_results_are_read_only(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="can be written"):
        write_nbest(tmp_path / "x", [], "vosk")
