"""The page of `tokfmt stats --html`, in a real browser: it draws, asks nobody, runs nothing, has light and dark."""

import itertools
import json
import re
import time
from itertools import pairwise
from pathlib import Path

import commands
import pytest
from amount import FUZZ_ONLY
from browsers import CHROMIUM_FLAGS, chromium
from click.testing import CliRunner
from playwright.sync_api import sync_playwright

from tokfmt.cli.main import cli

ROOT = Path(__file__).parents[2]
HOSTILE = "</script><script>window.owned = 1</script><img src=x onerror='window.owned = 2'><b>&amp;${version} \x1b[31m"


def run(*words):
    return commands.run("stats", *words, cwd=ROOT)


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
        self.page.wait_for_selector(".figure .area")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    done = run("fixtures/text/corpus.jsonl", "--tokenizer", "fixtures/tokenizer", "--seq-len", "512", "--html", path)
    assert done.returncode == 0, done.stderr
    return path


def brightness(visit):
    ground = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
    return sum(int(part) for part in ground.removeprefix("rgb(").rstrip(")").split(",")) / 3


@FUZZ_ONLY
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_draws_in_both_themes_without_the_network(browser, report, scheme, tmp_path):
    visit = Visit(browser, report, scheme)
    assert visit.page.locator(".figure").count() == 3  # lengths twice, the other way hidden
    assert visit.page.locator(".figure:visible").count() == 2
    assert visit.page.locator(".linear .bar").count() > 5
    assert visit.page.locator(".share .series").count() == 20
    box = visit.page.locator(".figure:visible .area").first.bounding_box()
    assert box["width"] > 800
    assert box["height"] > 200
    assert [url for url in visit.asked if not url.startswith("file:")] == []
    assert (brightness(visit) > 128) == (scheme == "light")
    fill = visit.page.evaluate("getComputedStyle(document.querySelector('.bar .series')).fill")
    picture = visit.page.screenshot(path=tmp_path / f"{scheme}.png", full_page=True)
    assert len(picture) > 50_000
    visit.page.click(".theme")
    assert (brightness(visit) > 128) != (scheme == "light")
    assert visit.page.evaluate("getComputedStyle(document.querySelector('.bar .series')).fill") != fill
    assert visit.wrong == []
    visit.page.close()


def test_no_script_and_small(report):
    """Nothing in it can run, and its policy would not let it; a style that was added would not count."""
    page = report.read_text()
    assert len(page) < 150_000
    assert "<script" not in page
    assert " style=" not in page
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert re.fullmatch(r"default-src 'none'; style-src 'sha256-[\w+/=]+'", policy)


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
    for way in ("linear", "log"):
        titles = visit.page.locator(f".{way} .bar title").all_text_contents()
        counts = [int(re.search(r": ([\d,]+) sequences", title)[1].replace(",", "")) for title in titles]
        assert counts == shown["lengths"]["histogram"]["counts"]
    heights = [float(bar.get_attribute("height")) for bar in visit.page.locator(".linear .bar .series").all()]
    assert heights[counts.index(max(counts))] == max(heights)
    assert all(
        height == pytest.approx(max(heights) * count / max(counts), abs=1)
        for height, count in zip(heights, counts, strict=True)
    )
    points = visit.page.locator("circle title").all_text_contents()
    frequencies = zip(shown["ids"]["frequencies"]["rank"], shown["ids"]["frequencies"]["count"], strict=True)
    assert points == [f"rank {rank:,}: {count:,} times" for rank, count in frequencies]
    visit.page.close()


def test_log_scale_is_a_switch(browser, report):
    visit = Visit(browser, report)
    assert (visit.page.locator(".linear").is_visible(), visit.page.locator(".log").is_visible()) == (True, False)
    visit.page.click(".switch")
    assert (visit.page.locator(".linear").is_visible(), visit.page.locator(".log").is_visible()) == (False, True)
    visit.page.close()


@pytest.fixture(scope="module")
def awkward(tmp_path_factory):
    """Percentiles that are equal or close, long numbers, a repeated document at a number of seven digits."""
    home = tmp_path_factory.mktemp("awkward")
    lines = [json.dumps({"text": "x" * (9000 + 3 * (k % 10))}) for k in range(400)]
    lines.append(json.dumps({"text": "y " * 600_000}))
    (home / "x.jsonl").write_text("\n".join(lines) + "\n")
    document = json.loads(run(home / "x.jsonl", "--json").stdout)
    assert document["lengths"]["p95"] == document["lengths"]["p99"]
    assert run(home / "x.jsonl", "--html", home / "x.html").returncode == 0
    return home / "x.html"


@FUZZ_ONLY
@pytest.mark.parametrize("width", [390, 1200])
def test_nothing_is_cut_or_printed_over_another(browser, awkward, width):
    visit = Visit(browser, awkward, width=width)
    labels = visit.page.locator(".linear text.mark")
    assert any(text.startswith("p95, p99 ") for text in labels.all_text_contents())
    boxes = [label.bounding_box() for label in labels.all()]
    for one in boxes:
        assert one["x"] >= 0
        assert one["x"] + one["width"] <= width
    lines = labels.evaluate_all("nodes => nodes.map(node => node.getBBox()).map(box => [box.y, box.y + box.height])")
    for one, other in pairwise(sorted(lines)):  # letters without the halo around them
        assert one[1] <= other[0]
    ticks = [tick.bounding_box() for tick in visit.page.locator(".linear .tick:visible").all()]
    assert len(ticks) >= 3
    for one, other in pairwise(ticks):
        assert one["x"] + one["width"] < other["x"]
    for value in visit.page.locator(".lengths dd").all():  # percentiles: all in sight, each in one line
        box = value.bounding_box()
        assert box["x"] + box["width"] <= width
        assert box["height"] < 30
    for cell in visit.page.locator("td:not(.word)").all():
        assert cell.evaluate("node => getComputedStyle(node).whiteSpace") == "nowrap"
    visit.page.close()


@pytest.mark.parametrize("width", [360, 1200])
def test_large_numbers_fit_in_their_cards(browser, report, width):
    visit = Visit(browser, report, width=width)
    for value in ("7,123,456", "1,234,567,890,123"):
        visit.page.locator(".card .value").nth(1).evaluate("(node, value) => { node.textContent = value }", value)
        for card in visit.page.locator(".card").all():
            assert card.evaluate("node => node.scrollWidth <= node.clientWidth")
        assert visit.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    visit.page.close()


@FUZZ_ONLY
def test_words_in_tables_are_not_columns_of_letters(browser, report, tmp_path):
    out = tmp_path / "several.html"
    source = tmp_path / f"{'n' * 200}.jsonl"
    source.write_text('{"input_ids": [1, 2]}\n')
    done = run("fixtures/modalities/E_D_2byte_gpt2.pbin", source, "--html", out)
    assert done.returncode == 0, done.stderr
    for path, width, words in ((report, 360, "one stream, cut"), (out, 1200, "modalities"), (out, 360, "jsonl")):
        visit = Visit(browser, path, width=width)
        cell = visit.page.locator("td.word", has_text=re.compile(f"^{words}$")).first
        assert cell.bounding_box()["width"] > 80
        visit.page.close()


def test_units_of_text(browser, awkward):
    """Text that nobody tokenised has documents and characters, nowhere sequences or tokens; a mean has one rounding."""
    visit = Visit(browser, awkward)
    words = visit.page.locator("main").inner_text().lower()
    assert "characters" in words
    assert "documents" in words
    assert "tokens" not in words
    assert "sequences" not in words
    mean = visit.page.locator(".lengths div", has_text="mean").locator("dd").inner_text()
    assert f"mean {mean} characters" in words
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


def test_a_page_and_a_plot_are_not_written_under_names_of_others(tmp_path):
    source = ROOT / "fixtures/modalities/D_2byte_gpt2.pbin"
    for option, name in (("--html", "lengths.svg"), ("--html", "page"), ("--plot", "page.html"), ("--plot", "x.png")):
        done = run(source, option, tmp_path / name)
        assert (done.returncode, done.stdout) == (2, "")
        assert name in done.stderr
    assert not list(tmp_path.iterdir())


def test_the_plot_of_lengths_is_one_svg_with_every_count(tmp_path):
    """A viewer of SVG alone can show it: it is XML, every class has a style, and text is dark on white."""
    from xml.etree import ElementTree as ET

    source, out = ROOT / "fixtures/modalities/D_2byte_gpt2.pbin", tmp_path / "lengths.svg"
    page = tmp_path / "page.html"
    for paths in ([source], [source, ROOT / "fixtures/modalities/E_D_2byte_gpt2.pbin"]):
        assert run(*paths, "--plot", out, "--html", page, "-q").returncode == 0  # the older ones are replaced
        report = json.loads(run(*paths, "--json").stdout)
        one = report.get("total", report)
        tree = ET.parse(out)
        space = "{http://www.w3.org/2000/svg}"
        assert tree.getroot().tag == f"{space}svg"
        texts = [text.text for text in tree.iter(f"{space}text")]
        assert any(f"{one['sequences']:,} sequences" in text for text in texts)
        assert {"length in tokens", "number of sequences"} <= set(texts)
        bars = [title.text for title in tree.iter(f"{space}title") if "tokens:" in title.text]
        counts = [int(bar.split(": ")[1].split()[0].replace(",", "")) for bar in bars]
        assert counts == one["lengths"]["histogram"]["counts"]
    assert b"<svg" not in (tmp_path / "page.html").read_bytes()[:64]
    out.write_text("<svg>mine</svg>")
    assert run(source, "--plot", out).returncode == 4
    assert out.read_text() == "<svg>mine</svg>"


def test_nothing_but_a_page_is_replaced(tmp_path):
    """Whatever else stands there is kept, and refused before any work."""
    source = ROOT / "fixtures/modalities/D_2byte_gpt2.pbin"
    data, web, empty, folder = (tmp_path / f"{name}.html" for name in ("train", "index", "empty", "folder"))
    data.write_bytes(source.read_bytes())
    web.write_text("<!doctype html><title>mine</title>")
    folder.mkdir()
    for place in (data, web, folder):
        done = run(tmp_path / "nothing.pbin", "--html", place)
        assert (done.returncode, done.stdout) == (4, ""), done.stderr
        assert f"{place}: is not replaced: it is " in done.stderr
    assert (data.read_bytes(), web.read_text()) == (source.read_bytes(), "<!doctype html><title>mine</title>")
    empty.touch()
    source = tmp_path / "private.pbin"
    source.write_bytes(data.read_bytes())
    source.chmod(0o600)
    for place in (empty, empty, tmp_path / "new.html"):
        done = run(source, "--html", place, "-q")
        assert done.returncode == 0, done.stderr
        assert b"tokfmt stats" in place.read_bytes()[:64]
    assert (tmp_path / "new.html").stat().st_mode & 0o777 == 0o600


@FUZZ_ONLY
def test_page_shows_the_preparation_of_a_mix(browser, tmp_path):
    mix, page = tmp_path / "mix.ds", tmp_path / "page.html"
    recipe = "fixtures/recipe/prepare.toml"
    done = commands.run("convert", recipe, mix, "--json", cwd=ROOT, check=0)
    first = json.loads(done.stdout)["prepared"][0]
    assert run(mix, "--html", page).returncode == 0
    visit = Visit(browser, page)
    rows = visit.page.locator(".prepared tbody tr")
    assert rows.first.inner_text().split("\t")[:2] == [first["source"], f"{first['documents']:,}"]
    told = visit.page.locator(".prepared").inner_text()
    assert (
        all(f"{rule}\t{part['documents']:,}" in told for rule, part in first["rejected"].items()) and first["rejected"]
    )
    assert f"kept for a quota of {first['quota']:,}" in told and f"{first['tokens']:,}" in told
    assert not visit.wrong
    visit.page.close()
    manifest = tmp_path / "mix.ds.tokfmt.json"
    for wrong in ("x", [{"source": HOSTILE}], [{**first, "tokens": "many"}], [{**first, "rejected": {"a.b": 3}}]):
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "prepared": wrong}))
        assert run(mix, "--html", page).returncode == 0
        assert 'class="prepared"' not in page.read_text()
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "prepared": [{**first, "source": HOSTILE}]}))
    assert run(mix, "--html", page).returncode == 0
    visit = Visit(browser, page)
    assert visit.page.evaluate("window.owned") is None and not visit.wrong
    visit.page.close()


def test_check_for_the_page_reports_progress(tmp_path, monkeypatch):
    seconds = itertools.count(0, 20)
    monkeypatch.setattr(time, "monotonic", lambda: float(next(seconds)))
    packs = [str(ROOT / "fixtures" / "modalities" / name) for name in ("D_2byte_gpt2.pbin", "E_D_2byte_gpt2.pbin")]
    done = CliRunner().invoke(cli, ["stats", *packs, "--eos", "50256", "--html", str(tmp_path / "page.html")])
    assert done.exit_code == 0
    for share in (50, 100):
        assert f"checking: {share} % of 2 datasets" in done.stderr
