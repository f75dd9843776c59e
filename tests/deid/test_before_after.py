"""The page of lines before and after: made by a command, and nothing private is left in it."""

from docs.generators.before_after import GUARDED, SECTIONS
from docs.generators.pages import ROOT

PAGE = ROOT / "docs" / "reproductions" / "before-after.md"
SECRETS = (
    "Lopez", "Maria ", "Kowalski", "Müller", "schmidt", "1234567", "45.67", "4111 1111", "10.0.0.1",
    "3A:B7", "0532", "nine nine", "john dot", "johnny", "High Street", "0199", "AB123456C", "María",
    "max.muster", "612 345", "ana@correo", "2024-03-01",
)  # fmt: skip


def test_the_page_has_forty_lines_and_their_secrets_only_before() -> None:
    """`tests/test_site.py` checks that the page is the one that the code makes."""
    lines = [line for section in SECTIONS for line in section.lines] + list(GUARDED)
    assert len(lines) >= 40
    text = PAGE.read_text().replace("&#64;", "@")
    rows = [row.split(" | ") for row in text.splitlines() if row.startswith("| ")]
    pairs = [(before, after) for before, after in rows if before != "| before"]
    assert len(pairs) == len(lines)
    for secret in SECRETS:
        assert any(secret.lower() in before.lower() for before, _ in pairs), secret
        assert not any(secret.lower() in after.lower() for _, after in pairs), secret
    assert ("| Can you open the window?", "Can you open the window? |") in pairs
