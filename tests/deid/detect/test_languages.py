import pickle

import pytest

from sottovoce.deid.detect import detector
from sottovoce.deid.detect.detector import utterance_of
from sottovoce.deid.detect.language.guard import LanguageGuard
from sottovoce.deid.detect.languages import LANGUAGES
from sottovoce.errors import InvalidInput


def found(text: str, language: str) -> list[tuple[str, str]]:
    [spans] = detector("fast", language=language).find([utterance_of(text)])
    return [(text[span.start : span.end], span.type) for span in spans]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("Frau Dr. Schmidt-Koch und Jürgen Weber", ["Schmidt-Koch", "Jürgen Weber"]),
        ("ich wohne in Hamburg, Lindenstraße 12a", ["Hamburg", "Lindenstraße 12a"]),
        ("Termin am Montag um 14:30 Uhr", ["am Montag", "14:30 Uhr"]),
        ("geboren am 3. März 1980", ["3. März 1980"]),
        ("IBAN DE89 3704 0044 0532 0130 00", ["DE89 3704 0044 0532 0130 00"]),
        ("Telefon +49 (0)30 1234567", ["+49 (0)30 1234567"]),
        ("Kannst du bitte das Fenster öffnen", []),
        ("Wir essen in der Halle", []),
    ],
)
def test_german(text: str, values: list[str]) -> None:
    assert [value for value, _ in found(text, "de")] == values


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("La señora García López llamó a Carmen", ["García López", "Carmen"]),
        ("vivo en Sevilla, Calle de Alcalá 45", ["Sevilla", "Calle de Alcalá 45"]),
        ("nos vemos el lunes a las tres y media", ["el lunes", "a las tres y media"]),
        ("nació el 5 de mayo de 1980", ["5 de mayo de 1980"]),
        ("mi DNI es 12345678Z", ["12345678Z"]),
        ("¿Puedes abrir la ventana, por favor?", []),
        ("la paz y la luz del sol", []),
    ],
)
def test_spanish(text: str, values: list[str]) -> None:
    assert [value for value, _ in found(text, "es")] == values


def test_every_language_has_lists_to_draw_surrogates_from() -> None:
    for code in LANGUAGES:
        language = LANGUAGES.get(code)
        if language is not None:
            surrogates = language.surrogates()
            assert min(len(values) for values in surrogates.values()) > 200


def test_other_languages_are_refused_with_a_sentence() -> None:
    with pytest.raises(InvalidInput, match="one of en, de, es, got 'fr'"):
        detector("fast", language="fr")
    with pytest.raises(InvalidInput, match="detector of German"):
        detector("assistant", language="de")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Ich habe gestern mit der Mutter von Anna in Hamburg gegessen.", "German"),
        ("Mi madre y yo vamos a la playa con los niños y con el perro.", "Spanish"),
        ("Je ne sais pas où est la gare, mais vous êtes dans le bon train.", "French"),
        ("Вчера я разговаривал с Анной Петровой в Москве о новой работе.", "script"),
        (
            "昨日、田中さんと東京で新しい仕事について話しました。それから大阪に行って友達に会いました。",
            "script",
        ),
    ],
)
def test_english_models_refuse_other_languages(text: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        detector("fast").find([utterance_of(text)])
    # The twin: patterns know no language, and leave the words alone.
    assert detector("patterns").find([utterance_of("Ich habe die Mutter und der Vater")]) == [[]]


@pytest.mark.parametrize(
    "text",
    [
        "call maria de la cruz",
        "der spiegel",
        "José y María",
        "no se",
        "Beethoven: Ode an die Freude",
        "😀😀😀",
        "",
        "москва",
        "play la la la la",
    ],
)
def test_foreign_names_in_english_are_no_reason_to_refuse(text: str) -> None:
    detector("fast").find([utterance_of(text)])


def test_one_foreign_line_among_many_is_read() -> None:
    guard = LanguageGuard("en")
    guard.read(["the window is open and we have to close it now"] * 20)
    guard.read(["Ich habe gestern mit der Mutter von Anna gegessen."])


def test_a_guard_starts_afresh_in_another_process() -> None:
    guard = LanguageGuard("de")
    assert pickle.loads(pickle.dumps(guard)).language == "de"
