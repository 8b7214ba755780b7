"""The site in a real browser: links, search, dark mode, phone width, no request to another host (`make docs-test`)."""

import contextlib
import functools
import http.server
import json
import os
import re
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import commands
import pytest
from paths import ROOT
from registered import own_names

from tokfmt.cli.main import COMMANDS

SITE = Path(os.environ.get("SITE", ROOT / "build" / "site")) / "html"
PAGES = [
    "index.html", "ten-tasks.html", "convert.html", "train.html", "cli/tokfmt-convert.html", "formats/hdf5.html", "findings.html",
    "api.html", "schemas.html", "survives.html",
]  # fmt: skip

CUT = (
    "[...document.querySelectorAll('pre > code')].filter(e => e.scrollWidth > e.clientWidth + 1"
    " && !(innerWidth < 720 && getComputedStyle(e).overflowX === 'auto')).map(e => e.innerText)"
)
"""The blocks of code of which a line does not fit, and which do not scroll on a phone."""

BROKEN = """
[...document.querySelectorAll('.md-typeset :not(pre) > code')].flatMap(code => [...code.childNodes].filter(part => {
  const range = document.createRange();
  range.selectNodeContents(part);
  return part.data && new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1;
}).map(part => part.data))
"""
"""The words of code in a sentence or a table that go over the end of a line, though no `<wbr>` is in them."""

pytestmark = pytest.mark.skipif(not SITE.is_dir(), reason="make docs builds the site")


class Links(HTMLParser):
    """The targets of a page's links, and the ids that links can lead to."""

    def __init__(self, text):
        super().__init__()
        self.targets, self.ids, self.loads = [], set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids |= {found[name] for name in ("id", "name") if found.get(name)}
        if tag == "a" and "href" in found:
            self.targets.append(found["href"])
        if tag in ("script", "img", "iframe") and "src" in found:
            self.loads.append(found["src"])
        if tag == "link" and found.get("rel") in ("stylesheet", "icon", "preload"):
            self.loads.append(found["href"])


@pytest.fixture(scope="module")
def pages():
    found = {path.relative_to(SITE).as_posix(): Links(path.read_text()) for path in SITE.rglob("*.html")}
    assert set(PAGES) <= set(found)
    return found


def test_every_command_format_and_finding_has_a_page(pages):
    assert {f"cli/tokfmt-{name}.html" for name in COMMANDS} <= set(pages)
    assert {f"formats/{name}.html" for name in own_names()} <= set(pages)
    codes = json.loads(commands.run("check", "--explain", "all", "--json").stdout)["codes"]
    assert {code["code"].lower() for code in codes if code["code"].startswith("TF")} <= pages["findings.html"].ids
    listed = re.findall(r"\(([^)]+\.html)\)", (SITE / "llms.txt").read_text())
    assert {*listed} == set(pages) - {"404.html"}


def test_every_link_resolves(pages):
    for page, links in pages.items():
        if page == "404.html":
            continue
        for target in links.targets:
            place = urlsplit(urljoin(f"http://site/{page}", target))
            if place.netloc != "site":
                assert place.scheme in ("https", "mailto") and "127.0.0.1" not in target, (page, target)
                continue
            name = unquote(place.path).lstrip("/") or "index.html"
            assert (SITE / name).exists(), (page, target)
            if place.fragment and name.endswith(".html") and not place.fragment.startswith("__"):
                assert unquote(place.fragment) in pages[name].ids, (page, target)


def test_no_page_loads_from_another_host(pages):
    for page, links in pages.items():
        for target in links.loads:
            assert not urlsplit(target).netloc, (page, target)


@contextlib.contextmanager
def served():
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(quiet, directory=SITE))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def browser():
    from browsers import CHROMIUM_FLAGS, chromium
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_FLAGS)
        yield started
        started.close()


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_ten_pages_in_a_browser(browser, tmp_path):
    """On a screen and on a phone, light and dark: no error, no request to another host, nothing wider than the phone."""
    pictures = Path(os.environ.get("PICTURES", tmp_path))
    with served() as address:
        for width, scheme in ((1280, "light"), (390, "dark")):
            context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
            view, asked, wrong = context.new_page(), [], []
            view.on("request", lambda request: asked.append(request.url))
            view.on("pageerror", lambda error: wrong.append(str(error)))
            view.on("response", lambda response: wrong.append(response.url) if response.status >= 400 else None)
            for name in PAGES:
                view.goto(f"{address}/{name}", wait_until="networkidle")
                assert view.locator("h1").first.is_visible(), name
                assert view.evaluate("document.documentElement.scrollWidth") <= width, (name, width)
                assert not view.evaluate(CUT), (name, width)
                assert not view.evaluate(BROKEN), (name, width)
                view.screenshot(path=pictures / f"{name.replace('/', '-')}-{width}-{scheme}.png")
            assert not wrong
            assert {urlsplit(url).netloc for url in asked if not url.startswith(("data:", "blob:"))} == {
                urlsplit(address).netloc
            }
            background = view.evaluate("getComputedStyle(document.body).backgroundColor")
            light = sum(map(int, re.findall(r"\d+", background)[:3])) > 3 * 128
            assert light == (scheme == "light"), background
            context.close()


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_search_finds_a_finding_and_an_option(browser):
    with served() as address:
        context = browser.new_context(viewport={"width": 1280, "height": 844})
        view = context.new_page()
        for word, page in (("TF107", "findings.html"), ("allow-partial", "convert")):
            view.goto(f"{address}/index.html", wait_until="networkidle")
            view.keyboard.press("/")
            view.keyboard.type(word)
            found = (
                view.locator(f"a[href*='{page}']")
                .filter(has_text=re.compile(re.escape(word.replace("-", "")) + "|" + re.escape(word), re.IGNORECASE))
                .first
            )
            found.wait_for(timeout=20_000)
        context.close()


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("retokenize", "convert.html"), ("merge", "convert.html"), ("loss spike", "train.html"), ("jax", "python.html"),
        ("plot lengths", "inspect.html"), ("split train valid test", "convert.html"), ("nothing lost", "questions.html"),
    ],
)  # fmt: skip
def test_search_finds_guides_first(browser, words, page):
    with served() as address:
        context = browser.new_context(viewport={"width": 1280, "height": 844})
        view = context.new_page()
        view.goto(f"{address}/index.html", wait_until="networkidle")
        view.keyboard.press("/")
        view.keyboard.type(words)
        found = view.locator("a[href*='?h=']")
        found.first.wait_for(timeout=20_000)
        view.wait_for_timeout(500)
        first = [link.get_attribute("href") for link in found.all()[:3]]
        assert any(page in one for one in first), first
        context.close()
