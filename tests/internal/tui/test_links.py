"""Places as words: `--at`, the command that a key copies, and the picture that carries it."""

import pytest
from browsing import PACK, browse, tab_of

from tokfmt.browser.data.links import parse_landing
from tokfmt.browser.data.session import Landing
from tokfmt.errors import OptionError


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_places_are_read_from_words():
    assert parse_landing("123") == Landing(123)
    assert parse_landing("123:45") == Landing(123, 45)
    assert parse_landing(" samples:12:0 ") == Landing(12, 0, "samples")
    assert parse_landing("records:7") == Landing(7, 0, "records")
    assert parse_landing("1e6:2k") == Landing(10**6, 2000)
    for wrong in ("", "x", "samples", "samples:", "sample:3", "3:x", "-3", "3:-1", "1:2:3"):
        with pytest.raises(OptionError):
            parse_landing(wrong)


def test_a_place_that_is_not_there():
    async def steps(app, press):
        assert tab_of(app).where == (0, 0)
        assert "there is no document 400 in" in str(list(app._notifications)[-1].message)

    browse([PACK], steps, at=Landing(400))

    async def other(app, press):
        assert tab_of(app).where == (0, 0)
        assert "has no samples" in str(list(app._notifications)[-1].message)

    browse([PACK], other, at=Landing(0, 0, "samples"))
