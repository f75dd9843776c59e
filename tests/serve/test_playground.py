"""The playground in a real browser: typing and moving the slider update the epsilon."""

import re
import shutil
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from tests.serve.conftest import predict

from sottovoce.serve.app import create_app
from sottovoce.serve.settings import Settings

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
OPTIONS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
PATIENCE = 60_000  # milliseconds; a busy machine is no reason to fail


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A service on a free port, with a model that knows two intents."""
    app = create_app(Settings(), predict=predict)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, ws="none"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        thread.join(0.05)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """The page with its first results; console errors fail the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda problem: complaints.append(str(problem)))
    page.on("request", lambda asked: complaints.extend(_foreign(asked.url, address)))
    page.goto(address)
    page.wait_for_selector("body[data-round]")
    yield page
    context.close()
    assert not complaints


def _foreign(url: str, address: str) -> list[str]:
    return [] if url.startswith((address, "data:")) else [url]


def settled(page: Any, change: Any) -> None:
    """Make a change and wait until the page has updated."""
    before = page.get_attribute("body", "data-round")
    change()
    page.wait_for_selector(f"body:not([data-round='{before}'])")


def epsilon(page: Any, strategy: str) -> float:
    shown = page.inner_text(f"[data-strategy={strategy}] .big")
    assert shown.startswith("ε "), shown
    return float(shown.removeprefix("ε "))


def to(page: Any, value: float) -> None:
    """Move the slider and dispatch its input event."""
    page.eval_on_selector(
        "#amount",
        "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input')); }",
        value,
    )


def test_typing_marks_spans_and_the_slider_moves_the_epsilon(page: Any) -> None:
    settled(page, lambda: page.fill("#text", "tell Maria in London 🙂 at half past three"))
    marks = [mark.split("\n")[0] for mark in page.locator("#found mark").all_inner_texts()]
    assert [re.sub(r"[A-Z]{3,}$", "", mark).strip() for mark in marks] == [
        "Maria", "London", "half past three",
    ]  # fmt: skip
    settled(page, lambda: to(page, 0.9))
    high = epsilon(page, "entity")
    assert page.inner_text("[data-strategy=typed] .big") == "no guarantee"
    assert page.inner_text("[data-strategy=typed] .claimed") == "ε 0"
    settled(page, lambda: to(page, 0.99))
    assert 0 < epsilon(page, "entity") < high
    settled(page, lambda: to(page, 1))
    assert epsilon(page, "entity") == epsilon(page, "typed") == 0
    assert "3 private values" in page.inner_text("#status")
    assert page.inner_text("[data-strategy=typed] .released").count("[PER]") == 1
    assert "drawn 4 times" in page.inner_text("#spent")


def test_a_target_epsilon_and_a_keyboard_will_do(page: Any) -> None:
    page.focus("#mode-p")
    settled(page, lambda: page.keyboard.press("ArrowRight"))
    assert page.is_checked("#mode-epsilon")
    assert page.inner_text("[data-strategy=response] .token") == "ε 3"
    page.focus("#amount")
    settled(page, lambda: page.keyboard.press("ArrowLeft"))
    assert page.inner_text("#amount-value") == "ε 2.9"
    assert page.inner_text("[data-strategy=entity] .token") == "ε 2.9"


def test_parses_stand_before_and_after(page: Any) -> None:
    settled(page, lambda: page.fill("#text", "call Maria"))
    settled(page, lambda: to(page, 1))
    assert page.inner_text("#parse-before").startswith("call")
    assert "same intent" in page.inner_text("[data-strategy=entity] .parse")


def test_markup_in_a_text_stays_text(page: Any) -> None:
    settled(page, lambda: page.fill("#text", "<img src=x onerror=alert(1)> call Maria"))
    assert page.locator("#found img, #strategies img").count() == 0
    assert "<img src=x" in page.inner_text("#found")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (360, "light")])
def test_it_fits_and_every_control_has_a_name(
    browser: Any, address: str, width: int, scheme: str
) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme=scheme
    )  # fmt: skip
    page = context.new_page()
    page.goto(address, timeout=PATIENCE)
    page.wait_for_selector("[data-strategy=entity] .big:not(:empty)", timeout=PATIENCE)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    nameless = page.evaluate(
        "[...document.querySelectorAll('input, select, textarea, button')]"
        ".filter((each) => !(each.labels && each.labels.length) && !each.textContent.trim()).length"
    )
    assert nameless == 0
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (colour == "rgb(21, 19, 28)") == (scheme == "dark")
    page.goto(address + "docs", timeout=PATIENCE)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()
