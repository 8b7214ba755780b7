"""The site in a real browser: links, search, dark mode, phone width, no request to another host (`make docs-test`)."""

import os
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from paths import ROOT

SITE = Path(os.environ.get("SITE", ROOT / "build" / "site")) / "html"
PAGES = [
    "index.html", "ten-tasks.html", "convert.html", "train.html", "cli/tokfmt-convert.html", "formats/hdf5.html", "findings.html",
    "api.html", "schemas.html", "survives.html",
]  # fmt: skip

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
    from tokfmt import registry
    from tokfmt.cli.main import COMMANDS
    from tokfmt.ops.check.codes import all_codes

    assert {f"cli/tokfmt-{name}.html" for name in COMMANDS} <= set(pages)
    assert {
        f"formats/{one.name}.html" for one in registry.list_formats() if type(one).__module__.startswith("tokfmt.")
    } <= set(pages)
    assert {code.lower() for code in all_codes() if code.startswith("TF")} <= pages["findings.html"].ids
    listed = re.findall(r"\(([^)]+\.html)\)", (SITE / "llms.txt").read_text())
    assert {*listed} == set(pages) - {"404.html"}
