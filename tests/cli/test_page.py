"""The page of `tokfmt stats --html`, in a real browser: it draws, asks nobody, runs no text, has light and dark."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from browsers import CHROMIUM_FLAGS, chromium
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[2]
HOSTILE = "</script><script>window.owned = 1</script><img src=x onerror='window.owned = 2'><b>&amp;${version} \x1b[31m"


def run(*words):
    return subprocess.run(
        [sys.executable, "-m", "tokfmt", "stats", *map(str, words)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def browser():
    path = chromium()
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=CHROMIUM_FLAGS)
        yield started
        started.close()


class Visit:
    """A page that was opened, and everything that went wrong on it."""

    def __init__(self, browser, path, scheme="light", width=1200):
        self.page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.wrong, self.asked = [], []
        self.page.on("console", lambda message: self.wrong.append(message.text))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("#figure-0 .main-svg")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    done = run("fixtures/text/corpus.jsonl", "--tokenizer", "fixtures/tokenizer", "--seq-len", "512", "--html", path)
    assert done.returncode == 0, done.stderr
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_draws_in_both_themes_and_asks_nobody(browser, report, scheme, tmp_path):
    visit = Visit(browser, report, scheme)
    figures = visit.page.locator(".figure").count()
    assert figures == 4
    assert visit.page.locator(".figure .plot-container").count() == figures
    assert visit.page.locator("#figure-0 .bars .point").count() > 5
    assert visit.wrong == []
    assert [url for url in visit.asked if not url.startswith(("file:", "data:", "blob:"))] == []
    ground = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(int(part) for part in ground.removeprefix("rgb(").rstrip(")").split(",")) / 3
    assert (brightness > 128) == (scheme == "light")
    picture = visit.page.screenshot(path=tmp_path / f"{scheme}.png", full_page=True)
    assert len(picture) > 50_000
    visit.page.click("#theme")
    assert visit.page.evaluate("document.documentElement.dataset.theme") != scheme
    visit.page.close()


def test_numbers_on_the_page_are_those_of_the_json(browser, report):
    visit = Visit(browser, report)
    shown = json.loads(
        run("fixtures/text/corpus.jsonl", "--tokenizer", "fixtures/tokenizer", "--seq-len", "512", "--json").stdout
    )
    assert json.loads(visit.page.locator("#report").text_content()) == shown
    cards = dict(
        zip(
            visit.page.locator(".card .name").all_inner_texts(),
            visit.page.locator(".card .value").all_inner_texts(),
            strict=True,
        )
    )
    assert cards["tokens"] == f"{shown['tokens']:,}"
    assert cards["sequences"] == f"{shown['sequences']:,}"
    bars = visit.page.evaluate("document.getElementById('figure-0').data[0].y")
    assert bars == shown["lengths"]["histogram"]["counts"]
    visit.page.close()


def test_log_scale_is_a_switch(browser, report):
    visit = Visit(browser, report)
    kind = "document.getElementById('figure-0')._fullLayout.yaxis.type"
    assert visit.page.evaluate(kind) == "linear"
    visit.page.click(".switch")
    assert visit.page.evaluate(kind) == "log"
    visit.page.close()


def test_text_from_a_file_is_text(browser, tmp_path):
    records = [{"text": f"{HOSTILE} {k % 3}"} for k in range(12)]
    source = tmp_path / "<img src=x onerror=alert(1)>.jsonl"
    source.write_text("".join(json.dumps(record) + "\n" for record in records))
    out = tmp_path / "hostile.html"
    done = run(source, "--tokenizer", "fixtures/tokenizer", "--html", out)
    assert done.returncode == 0, done.stderr
    visit = Visit(browser, out)
    assert visit.page.evaluate("window.owned") is None
    assert visit.page.locator("img").count() == 0
    assert visit.page.locator("h1").inner_text() == str(source)
    assert visit.wrong == []
    visit.page.close()


def test_narrow_screens_do_not_scroll_sideways(browser, report):
    visit = Visit(browser, report, width=390)
    assert visit.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    visit.page.close()


def test_several_datasets_and_findings(browser, tmp_path):
    out = tmp_path / "several.html"
    done = run("fixtures/modalities/E_D_2byte_gpt2.pbin", "fixtures/modalities/D_2byte_gpt2.pbin", "--html", out)
    assert done.returncode == 0, done.stderr
    visit = Visit(browser, out)
    assert visit.page.locator("article").count() == 3
    assert "TF107" in visit.page.locator("#dataset-0").inner_text()
    assert "no findings" in visit.page.locator("#dataset-1").inner_text()
    visit.page.close()


def test_the_page_is_whole_or_absent(tmp_path):
    out = tmp_path / "absent.html"
    assert run("fixtures/bad/nothing-here", "--html", out).returncode == 3
    assert list(tmp_path.iterdir()) == []
