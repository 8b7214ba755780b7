"""The browser on a bucket: the screens of local files, and a screen that goes on while the server does not answer."""

import shutil
import threading

import pytest
from browsing import browse, browse_folder, reader_text, tab_of
from paths import FIXTURES

from tokfmt.base.resources import Recent
from tokfmt.browser.data.rows import Viewport
from tokfmt.browser.data.session import open_session
from tokfmt.browser.data.state import recall, remember, state_file
from tokfmt.browser.datasets import CatalogList
from tokfmt.browser.widgets.frame import TopBar
from tokfmt.files.place import Url
from tokfmt.plugin import TokenReader
from tokfmt.source.request import SourceRequest
from tokfmt.stores import account

NAMES = ["modalities/D_2byte_gpt2.pbin", "stage1/blocks", "flat-tokens/multi_chunk.zarr", "hdf5/padded_eos", "jsonl/corpus.jsonl"]  # fmt: skip


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    for variable in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / "home"))


@pytest.fixture
def dataset(request, fresh, bucket):
    """A dataset in the bucket and in the fixtures."""
    name = request.param
    shutil.copytree(FIXTURES / name.partition("/")[0], bucket / name.partition("/")[0])
    return f"s3://bkt/{name}", FIXTURES / name


@pytest.mark.parametrize("dataset", NAMES[:1], indirect=True)
def test_the_first_line_counts_what_was_fetched(dataset):
    async def steps(app, press):
        await press("down")
        app.say()
        found = account.so_far()
        assert f"{sum(found.requests.values())} requests" in str(app.query_one(TopBar).query_one("#loading").content)

    browse(dataset[:1], steps)


def test_a_bucket_is_read_as_far_as_the_screen_shows(fresh, bucket):
    (bucket / "data").mkdir()
    for k in range(300):
        shutil.copy(FIXTURES / "modalities" / "D_2byte_gpt2.pbin", bucket / "data" / f"{k:03}.pbin")

    async def steps(app, press):
        shown = app.screen.query_one(CatalogList)
        assert len(shown.catalog.found) < 200
        assert sum(one.looked for one in shown.catalog.found) <= 16

    browse_folder("s3://bkt/data", steps, size=(120, 16))


def test_facts_about_an_address_are_kept_without_its_signature(home):
    address = Url.parse("https://host/x.pbin?X-Amz-Signature=planted")
    remember(address, tokenizer="gpt2")
    assert recall(Url.parse("https://host/x.pbin"))["tokenizer"] == "gpt2"
    assert "planted" not in state_file().read_text()


class Stalling(TokenReader):
    """A reader of which some reads wait until they are let go."""

    def __init__(self, reader):
        self.reader, self.info = reader, reader.info
        self.stalls, self.asked, self.let_go = False, threading.Event(), threading.Event()

    def offsets(self, first, last):
        return self.reader.offsets(first, last)

    def tokens(self, start, stop):
        if self.stalls:
            self.asked.set()
            self.let_go.wait(60)
        return self.reader.tokens(start, stop)

    def close(self):
        self.reader.close()


@pytest.mark.parametrize("dataset", NAMES[:1], indirect=True)
def test_keys_are_handled_while_a_store_does_not_answer(dataset, monkeypatch):
    """The cursor moves, the tab changes, Esc leaves the read alone, and the browser ends: none waits for the read."""
    session = open_session(SourceRequest((dataset[0],)))
    reader = Stalling(session.view.reader)
    port = Viewport(reader)
    session.opened = session.opened._replace(views=(session.view._replace(port=port),))
    monkeypatch.setattr(account, "waiting", lambda: 7.2 if reader.stalls else 0.0)

    async def steps(app, press):
        reader.stalls = True
        port._windows = Recent(1024)  # the first screen holds all of a small dataset
        pilot = press.pilot
        for key in ("end", "up", "up"):
            await pilot.press(key)
        assert reader.asked.wait(30)
        await pilot.press("home")
        app.say()
        assert "bkt answers slowly: waiting 7 s" in str(app.query_one(TopBar).query_one("#loading").content)
        await pilot.press("escape")
        reader.stalls = False
        await press("end")
        assert tab_of(app).reader.row == port.count - 1
        assert reader_text(app).strip(), "another thread reads, while the first still waits"

    browse(dataset[:1], steps, session=session)
    assert not reader.let_go.is_set(), "the browser ended while a read waited"
    reader.let_go.set()
