"""Tokenizers chosen and changed in the browser."""

from dataclasses import replace

import pytest
from amount import FUZZ_ONLY
from browsing import PACK, Choice, SourceRequest, browse, load, notes, open_session, reader_text, tab_of
from made_tokenizers import llama3_like
from paths import CORPUS, TOKENIZER, golden
from textual.widgets import Input

import tokfmt


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """Another tokenizer, in a directory."""
    home = tmp_path_factory.mktemp("llama")
    llama3_like().save(str(home / "tokenizer.json"))
    return home


def test_a_recipe_is_shown_with_the_tokenizer_of_its_sources(tmp_path, other):
    lines = ["tokfmt = 1"]
    for name, made in (("a", TOKENIZER), ("b", TOKENIZER), ("c", other)):
        tokfmt.convert(CORPUS, tmp_path / f"{name}.pbin", tokenizer=str(made), select="0:2", to_eos=1)
        lines.append(f'[[source]]\nname = "{name}"\npath = "{name}.pbin"')
        (tmp_path / f"{name}.toml").write_text("\n".join(lines))
    agreed, differing = (SourceRequest((str(tmp_path / f"{name}.toml"),)) for name in "bc")
    assert open_session(agreed).choice == (str(TOKENIZER), "manifests of the sources")
    assert open_session(replace(differing, allow_loss=frozenset({"tokenizers"}))).choice is None


@pytest.mark.parametrize("neighbor", [0, 5 << 20])
@pytest.mark.parametrize("alike", [True, False])
def test_a_folder_is_shown_with_the_tokenizer_of_its_files(tmp_path, other, neighbor, alike):
    """Also if it is so large that its files are listed later."""
    home = tmp_path / "folder"
    home.mkdir()
    for name, made in (("a", TOKENIZER), ("b", TOKENIZER if alike else other)):
        tokfmt.convert(CORPUS, home / f"{name}.parquet", tokenizer=str(made), select="0:20", to_eos="none")
    (home / "README.md").write_bytes(b" " * neighbor)

    async def steps(app, press):
        named = app.session.choice
        assert (named and named.name) == (str(TOKENIZER) if alike else None)
        assert reader_text(app).split()[0].isdecimal() == (not alike)

    browse([home], steps)


async def choose(app, press, name):
    await press("T")
    app.screen.query_one(Input).value = str(name)
    await press("enter")


@FUZZ_ONLY
def test_the_one_in_use_stays_if_another_cannot_be_loaded(tmp_path):
    (tmp_path / "bad.json").write_text("{}")

    async def steps(app, press):
        tab = tab_of(app)
        before = tab.session.vocabulary
        await choose(app, press, tmp_path / "bad.json")
        assert "bad.json" in str(list(notes(app))[-1].message)
        assert tab.session.vocabulary is before
        assert app.session.choice == Choice(str(TOKENIZER), "--tokenizer")
        assert tab.session.port.unit == "token"

    browse([CORPUS], steps, tokenizer=str(TOKENIZER))


@FUZZ_ONLY
def test_ids_are_shown_with_a_tokenizer_that_is_chosen():
    async def steps(app, press):
        assert reader_text(app).split()[0].isdecimal()
        await choose(app, press, golden("gpt2"))
        first = load(str(golden("gpt2"))).decoder.pieces(tokfmt.open(PACK)[0][:3].tolist())
        text = b"".join(one if isinstance(one, bytes) else one.encode() for one in first).decode()
        assert reader_text(app).replace("\n", "").startswith(text.strip())

    browse([PACK], steps)
