"""Places as words: `--at`, the command that a key copies, and the last place."""

import shlex

import pytest
from amount import FUZZ_ONLY, first
from browsing import EVERY, HDF5, PACK, Spot, browse, notes, tab_of
from click.testing import CliRunner
from paths import CORPUS, FIXTURES, TOKENIZER

from tokfmt.browser.data.spots import last_place, parse_spot, remember_place
from tokfmt.cli.main import cli
from tokfmt.errors import OptionError


@pytest.mark.parametrize(
    ("path", "keys", "tokenizer"),
    first(
        3,
        [
            (PACK, (), None),
            (HDF5, ("v",), None),
            (CORPUS, (), str(TOKENIZER)),
            (CORPUS, (), None),
            (FIXTURES / "recipe" / "mix.toml", (), None),
            *((path, (), None) for path in EVERY[1:]),
        ],
    ),
    ids=str,
)
def test_the_copied_command_leads_to_the_same_place(path, keys, tokenizer):
    copied = []

    async def copies(app, press):
        await press(*keys, "down", "down", "down", "enter", "right", "right", "y")
        copied.append((app.clipboard, tab_of(app).where, app.session.shown))
        assert tab_of(app).where == (3, 2)

    browse([path], copies, tokenizer=tokenizer)
    ((command, where, view),) = copied
    words = shlex.split(command)
    assert words[:2] == ["tokfmt", "browse"]
    at = parse_spot(words[words.index("--at") + 1])
    assert ("--tokenizer" in words) == (tokenizer is not None)

    async def arrives(app, press):
        assert (tab_of(app).where, app.session.shown) == (where, view)
        assert tab_of(app).list.row == where[0]

    browse([words[2]], arrives, tokenizer=tokenizer, at=at)


def test_the_place_is_remembered_for_a_dataset_and_a_split():
    """The browser begins where it was left; the beginning is forgotten."""
    left = []

    async def leaves(app, press):
        await press("down", "down", "enter", "right")
        left.append(app.session)

    browse([PACK], leaves)
    remember_place(left[0])

    async def other(app, press):
        assert last_place(app.session) is None

    async def same(app, press):
        place = last_place(app.session)
        assert place.where == left[0].where != (0, 0)
        app.session.split = "validation"
        assert last_place(app.session) is None
        await press("home", "tab", "home")
        remember_place(app.session)

    browse([HDF5], other)
    browse([PACK], same)
    browse([PACK], other)


@FUZZ_ONLY
def test_the_command_line_takes_a_place(tmp_path):
    out = tmp_path / "out.svg"
    done = CliRunner().invoke(cli, ["browse", str(PACK), "--at", "17:3", "--screenshot", str(out)])
    assert done.exit_code == 0, done.output
    assert "document&#160;17&#160;" in out.read_text()
    for words in ("seven", "things:3"):
        done = CliRunner().invoke(cli, ["browse", str(PACK), "--at", words, "--screenshot", str(out)])
        assert done.exit_code == 2
        assert "Error: Invalid value for '--at'" in done.output.splitlines()[-1]
    done = CliRunner().invoke(cli, ["browse", str(PACK), "--at", "17"])  # no terminal: the preview is of that place
    assert "#17" in done.output


@FUZZ_ONLY
def test_places_are_read_from_words():
    assert parse_spot("123") == Spot((123, 0))
    assert parse_spot("123:45") == Spot((123, 45))
    assert parse_spot(" samples:12:0 ") == Spot((12, 0), "samples")
    assert parse_spot("records:7") == Spot((7, 0), "records")
    assert parse_spot("1e6:2k") == Spot((10**6, 2000))
    for wrong in ("", "x", "samples", "samples:", "sample:3", "3:x", "-3", "3:-1", "1:2:3"):
        with pytest.raises(OptionError):
            parse_spot(wrong)


@FUZZ_ONLY
def test_a_place_that_is_not_there():
    async def steps(app, press):
        assert tab_of(app).where == (0, 0)
        assert "there is no document 400 in" in str(list(notes(app))[-1].message)

    browse([PACK], steps, at=Spot((400, 0)))

    async def other(app, press):
        assert tab_of(app).where == (0, 0)
        assert "has no samples" in str(list(notes(app))[-1].message)

    browse([PACK], other, at=Spot((0, 0), "samples"))
