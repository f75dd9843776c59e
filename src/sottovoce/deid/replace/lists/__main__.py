"""Makes the lists of this folder again: `python -m sottovoce.deid.replace.lists` (needs Faker).

Names, cities, countries and jobs are taken from Faker (MIT licence, https://faker.readthedocs.io),
evenly over its alphabetical lists. Companies and the words of roles are typed in here.
"""

import importlib
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_MOST = 260
_PLACES = {"de": "cities", "es": "states"}
_COMPANIES = (
    "Sony, Nokia, Samsung, Panasonic, Hitachi, Toshiba, Siemens, Bosch, Intel, Oracle, Cisco, "
    "Adobe, Canon, Nikon, Nintendo, Volvo, Toyota, Honda, Ford, Renault, Fiat, Tesla, Boeing, "
    "Airbus, Shell, Nestle, Danone, Unilever, Pfizer, Bayer, Novartis, Ikea, Lego, Adidas, Nike, "
    "Puma, Zara, Gucci, Rolex, Visa, Barclays, Lloyds, Santander, Reuters, Bloomberg, Netflix, "
    "Spotify, Disney, Pixar, Vodafone, Orange, Verizon, Ericsson, Xerox, Kodak, Dell, Lenovo, "
    "Asus, Philips, Whirlpool, Dyson, Target, Walmart, Costco, Tesco, Aldi, Lidl, Starbucks, "
    "Subway, Pepsi, Heineken, Kellogg, Mattel, Hasbro, Marriott, Hilton, Hertz, Expedia, Harvard, "
    "Oxford, Stanford, Yale, Princeton, Unesco, Unicef, Greenpeace, Interpol, Nasa, "
    "Red Cross, General Electric, General Motors, Rolls Royce, Land Rover, Burger King, "
    "Home Depot, Best Buy, Deutsche Bank, Credit Suisse, Goldman Sachs, British Airways, "
    "Air France, Warner Brothers, Discovery Channel, National Geographic, Financial Times, "
    "World Bank, European Commission, United Nations, Amnesty International, Boston University, "
    "Texas Instruments, Western Digital, Electronic Arts, Johnson Controls, Bank of America, "
    "Bank of Scotland, House of Fraser, University of Leeds, University of Toronto, "
    "World Health Organization, American Red Cross, New York Times, Procter and Gamble"
)
_ROLES = (
    "manager, project manager, product manager, office manager, sales manager, marketing manager, "
    "engineer, software engineer, design engineer, network engineer, designer, graphic designer, "
    "fashion designer, web designer, interior designer, product designer, expert, finance expert, "
    "security expert, language expert, director, managing director, art director, sales director, "
    "analyst, data analyst, business analyst, consultant, sales consultant, developer, "
    "web developer, editor, film editor, teacher, music teacher, coach, trainer, nurse, "
    "school nurse, doctor, surgeon, dentist, lawyer, judge, clerk, office clerk, assistant, "
    "shop assistant, research assistant, secretary, receptionist, architect, officer, "
    "press officer, technician, lab technician, scientist, research scientist, accountant, "
    "journalist, photographer, plumber, electrician, librarian, pharmacist, psychologist, "
    "human resources manager, public relations officer, customer service manager, "
    "health and safety officer, senior software engineer, chief executive officer, "
    "user experience designer, computer games developer, social media manager"
)


def main() -> None:
    folder = Path(__file__).parent
    _write(
        folder / "en.txt",
        {
            "last": _from("person", "en_US", "last_names"),
            "country": [name for name in _from("address", "en_US", "countries") if _is_plain(name)],
            "state": _from("address", "en_US", "states"),
            "company": _COMPANIES.split(", "),
            "role": _ROLES.split(", "),
        },
    )
    for language, places in _PLACES.items():
        locale = f"{language}_{language.upper()}"
        _write(
            folder / f"{language}.txt",
            {
                "feminine": _from("person", locale, "first_names_female"),
                "masculine": _from("person", locale, "first_names_male"),
                "last": _from("person", locale, "last_names"),
                "city": _from("address", locale, places),
                "country": _from("address", locale, "countries"),
            },
        )


def _from(topic: str, locale: str, attribute: str) -> list[str]:
    provider: Any = importlib.import_module(f"faker.providers.{topic}.{locale}").Provider
    names = sorted({name for name in getattr(provider, attribute) if _is_plain(name)})
    return names[:: 1 + len(names) // _MOST]


def _is_plain(name: str) -> bool:
    return not {*name} & {*",()."} and len(name.split()) < 4 and len(name) > 1


def _write(path: Path, lists: dict[str, Iterable[str]]) -> None:
    lines = ["# Surrogates by topic; made by `python -m sottovoce.deid.replace.lists`."]
    lines.append("# Names, places and jobs: Faker, MIT licence.")
    for topic, names in lists.items():
        folded = dict.fromkeys(unicodedata.normalize("NFC", name).lower() for name in names)
        lines.append(f"{topic}: {', '.join(folded)}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
