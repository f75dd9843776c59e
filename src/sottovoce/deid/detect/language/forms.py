"""Dates, times, amounts and addresses as they are written in German and Spanish."""

import re

from sottovoce.deid.detect.forms import Form


def _form(kind: str, name: str, expression: str, *, as_written: bool = False) -> Form:
    return Form(kind, name, re.compile(rf"(?<!\w)(?:{expression})(?!\w)"), as_written=as_written)


_MONATE = (
    "januar|jänner|februar|märz|april|mai|juni|juli|august|september|oktober|november|dezember|"
    "jan|feb|mrz|apr|jun|jul|aug|sep|sept|okt|nov|dez"
)
_TAGE = "montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonnabend|sonntag"
_ZAHLEN = "eins|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf"
GERMAN: tuple[Form, ...] = (
    _form("DATE", "date", rf"\d{{1,2}}\. ?(?:{_MONATE})\.?(?: \d{{4}})?"),
    _form("DATE", "date", r"\d{1,2}\.\d{1,2}\.(?:\d{4}|\d\d)?"),
    _form("DATE", "month", rf"(?:{_MONATE}) (?:19|20)\d\d"),
    _form("DATE", "weekday", rf"(?:nächsten |letzten |diesen |am )?(?:{_TAGE})"),
    _form("DATE", "day", "heute|gestern|vorgestern|übermorgen|morgen (?:früh|abend)"),
    _form("TIME", "time", r"\d{1,2}(?:[:.]\d\d)? ?uhr(?: \d\d)?"),
    _form("TIME", "time", rf"(?:halb|viertel (?:vor|nach)|kurz (?:vor|nach)) (?:{_ZAHLEN})"),
    _form("TIME", "time", rf"(?:{_ZAHLEN}) uhr(?: (?:{_ZAHLEN}|zwanzig|dreißig))?"),
    _form("MONEY", "amount", r"\d[\d.]{0,20}(?:,\d\d)? ?(?:€|euro|eur|cent|franken|chf)"),
    _form(
        "ADDRESS",
        "street",
        r"[A-ZÄÖÜ][\w.-]{0,40}(?:straße|strasse|str\.|weg|allee|platz|gasse|ring|damm|ufer) "
        r"\d{1,4} ?[a-z]?(?:,? \d{5} [A-ZÄÖÜ][\w-]{1,40})?",
        as_written=True,
    ),
    _form(
        "ADDRESS",
        "street",
        r"(?:Am|An der|Im|In der|Auf dem|Unter den) [A-ZÄÖÜ][\w-]{1,40} \d{1,4} ?[a-z]?",
        as_written=True,
    ),
    _form("LOC", "postcode and place", r"\d{5} [A-ZÄÖÜ][\w-]{1,40}", as_written=True),
    _form("ID", "age", r"\d{1,3} jahre alt|\d{1,3}-jährige[rnsm]?"),
)
_MESES = (
    "enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|setiembre|octubre|noviembre|"
    "diciembre"
)
_DIAS = "lunes|martes|miércoles|jueves|viernes|sábado|domingo"
_NUMEROS = "una|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|once|doce"
SPANISH: tuple[Form, ...] = (
    _form("DATE", "date", rf"\d{{1,2}} de (?:{_MESES})(?: del? \d{{4}})?"),
    _form("DATE", "month", rf"(?:{_MESES}) del? (?:19|20)\d\d"),
    _form("DATE", "weekday", rf"(?:(?:el|este|próximo|pasado) )?(?:{_DIAS})(?: pasado| próximo)?"),
    _form("DATE", "day", "hoy|ayer|anteayer|pasado mañana|mañana por la (?:mañana|tarde|noche)"),
    _form("TIME", "time", r"(?:a )?las? \d{1,2}(?:[:.]\d\d)?(?: de la (?:mañana|tarde|noche))?"),
    _form(
        "TIME",
        "time",
        rf"(?:a )?las? (?:{_NUMEROS})(?: (?:y (?:media|cuarto|{_NUMEROS})|menos cuarto|en punto))?",
    ),
    _form("TIME", "time", "mediodía|medianoche"),
    _form("MONEY", "amount", r"\d[\d.]{0,20}(?:,\d\d)? ?(?:€|euros?|céntimos|pesos|dólares)"),
    _form(
        "ADDRESS",
        "street",
        r"(?:Calle|C/|Avenida|Avda\.?|Av\.?|Plaza|Paseo|Camino|Ronda|calle|avenida|plaza) ?"
        r"(?:(?:de|del|la|las|los|el|San|Santa) ){0,3}[A-ZÁÉÍÓÚÑ][\w.-]{0,40}"
        r"(?: [A-ZÁÉÍÓÚÑ][\w.-]{0,40}){0,2}(?:,? (?:n[ºo.]{1,2} ?)?\d{1,4})?"
        r"(?:, \d{5} [A-ZÁÉÍÓÚÑ][\w-]{1,40})?",
        as_written=True,
    ),
    _form("LOC", "postcode and place", r"\d{5} [A-ZÁÉÍÓÚÑ][\w-]{1,40}", as_written=True),
    _form("ID", "age", r"\d{1,3} años"),
)
