"""The page in a real browser: no errors, no sideways scrolling on a phone, text that can be read.

It needs Playwright and Debian's Chromium; where one of them is missing it is skipped.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.report.runs import audit_of, rescore_result, train_run, write_run

from sottovoce.report import Report, collect

CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
PHONE, DESK = {"width": 360, "height": 740}, {"width": 1200, "height": 900}

# Every piece of text with the contrast of its colour against the first opaque colour behind it.
CONTRAST = """
() => {
  const parse = c => [...c.match(/[\\d.]+/g).map(Number), 1].slice(0, 4);
  const linear = v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = c => {
    const [r, g, b] = c.map(v => linear(v / 255));
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const behind = e => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c[3] === 1) return c;
    }
    return [255, 255, 255, 1];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.data.trim(), e = walker.currentNode.parentElement;
    if (!text || ["TITLE", "DESC"].includes(e.tagName.toUpperCase())) continue;
    const style = getComputedStyle(e);
    const a = light(parse(e.closest("svg") ? style.fill : style.color)), b = light(behind(e));
    found.push([(Math.max(a, b) + .05) / (Math.min(a, b) + .05), text.slice(0, 60)]);
  }
  return found;
}
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    with api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    plain = train_run(noise=None, method="sgd", accuracy=0.95, speed=6000)
    wrong = train_run(noise=90, claimed=0.4, seeded=True)
    wrong["configuration"]["x" * 80] = "y" * 300
    wrong["examples"] = [
        {"before": "call " + "z" * 90, "after": "", "spans_before": [[5, 95, "PER"]]}
    ]
    write_run(folder / "runs" / "plain", plain, audit_of(plain, correct=90))
    write_run(folder / "runs" / ("w" * 60), wrong, audit_of(wrong, correct=99))
    (folder / "runs" / "rescored.run.json").write_text(
        json.dumps({"verb": "rescore", "metrics": rescore_result()})
    )
    stages = collect([folder / "runs"])
    path = folder / "report.html"
    Report(tuple(stages), compared=(stages[1], stages[2])).write(path)
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_it_renders(browser: Any, page_file: Path, size: dict[str, int], scheme: str) -> None:
    context = browser.new_context(viewport=size, color_scheme=scheme)
    tab = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda problem: said.append(str(problem)))
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(page_file.as_uri())
    assert said == []
    assert asked == [page_file.as_uri()]  # nothing but the page itself
    assert tab.evaluate("document.documentElement.scrollWidth") <= size["width"]
    assert tab.locator("svg.chart").count() >= 4
    for chart in tab.locator("svg.chart").all():
        box = chart.bounding_box()
        assert box["width"] > 250
        assert box["height"] > 80
    weak = [(round(ratio, 2), text) for ratio, text in tab.evaluate(CONTRAST) if ratio < 4.5]
    assert weak == []
    assert len(tab.screenshot(full_page=True)) > 10_000
    context.close()


def test_it_prints(browser: Any, page_file: Path) -> None:
    context = browser.new_context(color_scheme="dark")
    tab = context.new_page()
    tab.goto(page_file.as_uri())
    tab.emulate_media(media="print")
    paper = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == "rgb(255, 255, 255)"  # also where the screen is dark
    assert tab.pdf(prefer_css_page_size=True).startswith(b"%PDF")
    context.close()
