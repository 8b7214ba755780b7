"""Which tokenizer token IDs are known to be of, and which IDs a tokenizer has. Tokenizers are written as JSON here."""

import json
from pathlib import Path

import numpy as np
import pytest
from amount import FUZZ_ONLY
from click.testing import CliRunner

import tokfmt
from tokfmt.cli.main import cli
from tokfmt.errors import ConversionError, TokenizerMismatchError, TokfmtError

END = "<|end|>"


def tokenizer(home, ids, eos=None):
    """A tokenizer of whole words with these IDs: the token of ID 7 is w7. Returns its directory."""
    home.mkdir()
    vocab = {END if token == eos else f"w{token}": token for token in ids}
    added = {"content": END, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    content = {
        "version": "1.0",
        "added_tokens": [] if eos is None else [{"id": eos, **added, "special": True}],
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": f"w{min(ids)}"},
    }
    (home / "tokenizer.json").write_text(json.dumps(content))
    if eos is not None:
        (home / "tokenizer_config.json").write_text(json.dumps({"eos_token": END}))
    return home


def manifest(path):
    return json.loads(Path(f"{path}.tokfmt.json").read_bytes())


def lines(path, *rows, key="input_ids"):
    path.write_text("".join(json.dumps({key: row}) + "\n" for row in rows))
    return path


def stream(path, *documents, eos, dtype="<u2"):
    """Documents as `.ds` of datatrove, each with its separator, and an index; without a manifest."""
    rows = [[*document, eos] for document in documents]
    np.array([token for row in rows for token in row], dtype).tofile(path)
    np.cumsum([len(row) for row in rows]).astype("<u8").tofile(f"{path}.index")
    return path


def run(*words):
    """Exit code, output, and the errors or notes of a command."""
    done = CliRunner().invoke(cli, [str(word) for word in words], standalone_mode=False)
    if isinstance(done.exception, TokfmtError):
        notes = "".join(getattr(done.exception, "__notes__", ()))
        return done.exception.exit_code, done.stdout, f"{done.exception} {notes}"
    assert done.exception is None, done.exception
    return done.exit_code, done.stdout, done.stderr


def codes(path, **demands):
    (verdict,) = tokfmt.check(path, **demands)
    return {finding.code: finding for finding in verdict.findings}


# which IDs a tokenizer has


@pytest.fixture
def gaps(tmp_path):
    """A tokenizer of ten tokens: 0 to 8, and 20, its end of text."""
    return str(tokenizer(tmp_path / "gaps", [*range(9), 20], eos=20))


def test_the_largest_id_of_a_tokenizer_may_exceed_their_number(tmp_path, gaps):
    text = lines(tmp_path / "x.jsonl", "w1 w8", f"w2 {END} w3", key="text")
    done = tokfmt.convert(
        text, tmp_path / "x.pbin", tokenizer=gaps, special_tokens="parse", allow_loss="embedded-separators"
    )
    assert [ids.tolist() for ids in tokfmt.open(tmp_path / "x.pbin")] == [[1, 8], [2, 20, 3]]
    made = manifest(tmp_path / "x.pbin")["tokenizer"]
    assert (made["vocab_size"], made["gaps"], made["eos_id"], done.tokenizer["name"]) == (10, [[9, 20]], 20, gaps)
    for deep in (False, True):
        assert "TF921" not in codes(tmp_path / "x.pbin", tokenizer=gaps, deep=deep)


@pytest.mark.parametrize("token", [9, 12, 21, 70_000])
def test_an_id_without_a_token_is_found(tmp_path, gaps, token):
    held = stream(tmp_path / "x.ds", [1, 2], [3, token, token, 4], eos=20, dtype="<u4")
    for deep in (False, True):
        found = codes(held, eos=20, tokenizer=gaps, deep=deep)["TF921"]
        assert (found.severity, found.query, found.offset) == ("error", "any:9:20,21:", 16)
        assert f": 2 (first: ID {token:,}, sequence 1, position 1; " in found.message
    ids = tokfmt.stats(held, eos=20, tokenizer=gaps).datasets[0].ids
    assert (ids.vocab_size, ids.beyond, ids.coverage, ids.beyond_query) == (10, 2, 0.4, "any:9:20,21:")
    code, out, _ = run("show", held, "any:9:20,21:", "--eos", 20)
    assert (code, "#0" in out, "#1" in out) == (0, False, True)


def test_a_conversion_refuses_a_largest_id_that_the_tokenizer_lacks(tmp_path, gaps):
    held = lines(tmp_path / "x.jsonl", [1, 21])
    code, _, err = run("convert", held, tmp_path / "o.pbin", "--eos", 20, "--tokenizer", gaps)
    assert code == 4 and "found 21" in err and "IDs below 21 without 9 to 19" in err
    assert not (tmp_path / "o.pbin").exists()
    done = tokfmt.convert(held, tmp_path / "o.pbin", eos=20, tokenizer=gaps, allow_loss="tokenizers")
    assert (list(done.losses), done.tokenizer) == (["tokenizers"], None)


def test_samples_of_a_recipe_hold_only_ids_of_the_tokenizer(tmp_path, gaps):
    held = stream(tmp_path / "x.ds", [1, 2, 3], [4, 12, 5], [6, 20, 7], eos=20)
    view = tokfmt.recipe([held], seq_len=4, to_eos=20, tokenizer=gaps)
    assert view[0]["input_ids"].tolist() == [1, 2, 3, 20]
    with pytest.raises(TokenizerMismatchError, match="found 12 at position 1"):
        view[1]
    assert view[2]["input_ids"].tolist() == [6, 20, 7, 20]


def test_a_manifest_states_which_ids_there_are(tmp_path, gaps):
    text = lines(tmp_path / "x.jsonl", "w1 w8 w2", key="text")
    tokfmt.convert(text, tmp_path / "x.pbin", tokenizer=gaps)
    assert tokfmt.recipe([tmp_path / "x.pbin"], seq_len=4)[0]["input_ids"].tolist() == [1, 8, 2, 20]
    tokfmt.convert(tmp_path / "x.pbin", tmp_path / "y.zarr")
    assert manifest(tmp_path / "y.zarr")["tokenizer"]["gaps"] == [[9, 20]]


@pytest.mark.parametrize("deep", [False, True])
def test_lines_of_ids_are_compared_as_every_format_is(tmp_path, gaps, deep):
    rows = [[1, 2, 3], [4, 12, 5], [1], [6, 7, 70_000]]
    held = lines(tmp_path / "x.jsonl", *rows)
    found = codes(held, tokenizer=gaps, deep=deep)["TF921"]
    assert (found.severity, found.path, found.offset) == ("error", str(held), len('{"input_ids": [1, 2, 3]}\n'))
    assert ": 2 (first: ID 12, sequence 1, position 1; " in found.message
    assert not codes(lines(tmp_path / "y.jsonl", [1, 20], [8]), tokenizer=gaps, deep=deep)


@FUZZ_ONLY
def test_much_is_compared_at_places(tmp_path, gaps):
    """Unless the check is deep: 80 MB, whose last twelfth holds what is not there before."""
    line = json.dumps({"input_ids": [1] * 400}) + "\n"
    held = tmp_path / "x.jsonl"
    held.write_text(line * 60_000 + line.replace("1", "9", 1) * 6_000)
    assert held.stat().st_size > 1 << 26
    found = codes(held, tokenizer=gaps)["TF921"]
    assert "at the places that were read" in found.message and " of those that were read" in found.message


# IDs that wrapped around


@pytest.fixture
def large(tmp_path):
    """A tokenizer with the end of text 151,643, as a large vocabulary has it, and IDs above and below."""
    return str(tokenizer(tmp_path / "large", [*range(9), 20_571, 86_107, 151_643, 151_935], eos=151_643))


@pytest.mark.parametrize("count", [3, 40])
def test_ids_that_wrapped_in_16_bits(tmp_path, large, count):
    """With few documents no separator is inferred, and their ends show the same."""
    held = stream(tmp_path / "x.ds", *([k % 9, 3] for k in range(count)), eos=151_643 % 65_536)
    for deep in (False, True):
        found = codes(held, tokenizer=large, deep=deep)
        assert found.keys() & {"TF921", "TF922", "TF923", "TF925"} == set()
        assert found["TF927"].severity == "error"
        assert "20,571 = 151,643 mod 65,536" in found["TF927"].message and "above 65,535" in found["TF927"].message
    if count == 40:
        with pytest.raises(ConversionError, match="all of 40 .* end with 20571.*20571 = 151643 mod 65536.*--eos 20571"):
            tokfmt.convert(held, tmp_path / "o.pbin", tokenizer=large)
        return
    done = tokfmt.convert(held, tmp_path / "o.pbin", tokenizer=large)
    assert any("20571 = 151643 mod 65536" in note for note in done.notes)


def test_ids_that_wrapped_in_15_bits(tmp_path):
    """As zarr stores hold them that were encoded in 16 bits."""
    gpt2 = str(tokenizer(tmp_path / "gpt2", [*range(9), 40_000, 50_256], eos=50_256))
    held = stream(tmp_path / "x.ds", *([k % 9, 3] for k in range(20)), eos=50_256 % 32_768)
    assert "17,488 = 50,256 mod 32,768" in codes(held, tokenizer=gpt2)["TF927"].message


@pytest.mark.parametrize(("last", "code"), [(86_107, "TF922"), (20_571, "TF927"), (3, "TF927")])
def test_a_larger_id_shows_that_nothing_wrapped(tmp_path, large, last, code):
    held = stream(tmp_path / "x.ds", *[[1, 2]] * 20, [last], eos=20_571, dtype="<u4")
    assert codes(held, tokenizer=large, eos=20_571).keys() & {"TF922", "TF927"} == {code}


@pytest.mark.parametrize(("token", "wrapped"), [(20_571, True), (20_572, False), (151_643, False)])
def test_a_stream_without_a_known_separator(tmp_path, large, token, wrapped):
    """It is one sequence, in which only what is left of the separator occurs."""
    ids = np.array([1, 2, 3, 4, token] * 2000, "<u4")
    ids.astype("<u2" if token < 1 << 16 else "<u4").tofile(tmp_path / "x.npy")
    width = {"width": 2 if token < 1 << 16 else 4}
    for deep in (False, True):
        found = codes(tmp_path / "x.npy", format="olmo", options=width, tokenizer=large, deep=deep)
        assert ("TF927" in found) == wrapped
        if wrapped:
            assert found["TF927"].severity == "warning" and "2,000 of its tokens" in found["TF927"].message


def test_a_short_stream_shows_nothing_of_its_separator(tmp_path, large):
    """One document of 1,000 tokens may lack the separator, and hold any other ID."""
    np.array([1, 2, 3, 4, 20_571] * 200, "<u2").tofile(tmp_path / "x.npy")
    assert "TF927" not in codes(tmp_path / "x.npy", format="olmo", options={"width": 2}, tokenizer=large)


# whose IDs they are


@pytest.fixture
def old(tmp_path):
    return str(tokenizer(tmp_path / "old", range(12), eos=11))


@pytest.fixture
def new(tmp_path):
    return str(tokenizer(tmp_path / "new", [*range(30), 40], eos=40))


def copied(notes):
    return [note for note in notes if "copied, not encoded again" in note]


def test_ids_that_are_copied_are_not_of_the_tokenizer_in_use(tmp_path, old, new):
    """Nor is it named by anything that is made of the copy later; the command of the note encodes them."""
    held = stream(tmp_path / "x.ds", [1, 2, 3], [4, 5], eos=11)
    done = tokfmt.convert(held, tmp_path / "copy.pbin", tokenizer=new)
    (note,) = copied(done.notes)
    assert f"tokfmt convert {held} {tmp_path / 'copy.pbin'} --from-tokenizer OLD --tokenizer {new}" in note
    assert (done.tokenizer, manifest(tmp_path / "copy.pbin")["tokenizer"]) == (None, None)
    again = tokfmt.convert(tmp_path / "copy.pbin", tmp_path / "again.zarr")
    assert (again.tokenizer, copied(again.notes)) == (None, [])
    lines(tmp_path / "e.jsonl", "w1", key="text")
    selections = {"select": "not text:w9"}, {"without": {"with": tmp_path / "e.jsonl", "by": "tokens"}}
    for given in selections:  # the tokenizer is that of the selection
        assert not copied(tokfmt.convert(held, tmp_path / "rest.pbin", tokenizer=new, overwrite=True, **given).notes)
    for words in (["info"], ["show", "0"], ["stats"], ["check", "--deep"]):
        code, out, _ = run(words[0], tmp_path / "copy.pbin", *words[1:])
        assert (code, new in out) == (0, False), words
    shown = CliRunner().invoke(cli, ["show", str(tmp_path / "copy.pbin"), "0", "--text"])
    assert shown.exit_code == 2 and "--tokenizer" in shown.stderr
    assert "TF926" not in codes(tmp_path / "copy.pbin", tokenizer=new)
    done = tokfmt.convert(held, tmp_path / "new.pbin", from_tokenizer=old, tokenizer=new)
    assert (copied(done.notes), done.tokenizer["name"], done.separator["eos_id"]) == ([], new, 40)
    assert [ids.tolist() for ids in tokfmt.open(tmp_path / "new.pbin")] == [[1, 2, 3], [4, 5]]


def test_ids_of_a_manifest_stay_those_of_its_tokenizer(tmp_path, old):
    text = lines(tmp_path / "x.jsonl", "w1 w2", "w3", key="text")
    tokfmt.convert(text, tmp_path / "x.pbin", tokenizer=old)
    for given in ({}, {"tokenizer": old}):
        done = tokfmt.convert(tmp_path / "x.pbin", tmp_path / "y.zarr", overwrite=True, **given)
        assert (copied(done.notes), done.tokenizer["name"]) == ([], old)


def test_with_the_loss_accepted_the_result_names_neither_tokenizer(tmp_path, old, new):
    text = lines(tmp_path / "x.jsonl", "w1 w2", "w3", key="text")
    tokfmt.convert(text, tmp_path / "x.pbin", tokenizer=old)
    code, _, err = run("convert", tmp_path / "x.pbin", tmp_path / "y.pbin", "--tokenizer", new)
    assert code == 4 and "--allow-loss tokenizers" in err and "--from-tokenizer OLD --tokenizer NEW" in err
    done = tokfmt.convert(tmp_path / "x.pbin", tmp_path / "y.pbin", tokenizer=new, allow_loss="tokenizers")
    assert (done.tokenizer, manifest(tmp_path / "y.pbin")["tokenizer"]) == (None, None)
    assert len(copied(done.notes)) == 1
    assert old in done.losses["tokenizers"] and new in done.losses["tokenizers"]


@pytest.mark.parametrize("known", [True, False])
def test_text_and_ids_together(tmp_path, old, known):
    """All IDs are known to be of one tokenizer, or none is named."""
    text = lines(tmp_path / "x.jsonl", "w1 w2", "w3", key="text")
    if known:
        tokfmt.convert(text, tmp_path / "ids.pbin", tokenizer=old)
    ids = tmp_path / "ids.pbin" if known else stream(tmp_path / "ids.ds", [1], eos=11)
    done = tokfmt.convert([text, ids], tmp_path / "o.pbin", tokenizer=old)
    assert (len(copied(done.notes)), done.tokenizer is not None) == (0 if known else 1, known)
    recipe = tmp_path / "mix.toml"
    sources = "".join(f'[[source]]\npath = "{path}"\n' for path in (text, ids))
    recipe.write_text(f'tokfmt = 1\ntokenizer = "{old}"\n{sources}')
    assert (tokfmt.convert(recipe, tmp_path / "mix.pbin").tokenizer is not None) == known
    recipe.write_text(f"tokfmt = 1\nto_eos = 11\n{sources[sources.index('[[', 1) :]}")
    assert (tokfmt.convert(recipe, tmp_path / "of_ids.pbin").tokenizer is not None) == known


def folder(home, *names, count=8):
    """Files of datatrove, each with metadata that name its tokenizer."""
    home.mkdir()
    for number, name in enumerate(names):
        held = stream(home / f"{number:05d}.ds", *[[1, 2]] * count, eos=9)
        Path(f"{held}.metadata").write_text(f"{name}|2\n{3 * count}\n{3 * count} T")
    return home


SEVERAL = ("gpt2", "gpt2", "meta-llama/Meta-Llama-3-8B")


def test_metadata_of_several_tokenizers_are_refused(tmp_path):
    """In one source, and among sources, as manifests of several are."""
    mixed = folder(tmp_path / "mixed", *SEVERAL)
    files = sorted(mixed.glob("*.ds"))
    for sources in (mixed, files, [files[0], files[2]]):
        with pytest.raises(TokenizerMismatchError, match=r"expected gpt2, found meta-llama/Meta-Llama-3-8B"):
            tokfmt.convert(sources, tmp_path / "o.pbin", overwrite=True)
        with pytest.raises(TokenizerMismatchError, match="--allow-loss tokenizers"):
            tokfmt.recipe(sources if isinstance(sources, list) else [sources], seq_len=4)
        done = tokfmt.convert(sources, tmp_path / "o.pbin", allow_loss="tokenizers", overwrite=True)
        assert done.tokenizer is None and "gpt2, meta-llama/Meta-Llama-3-8B" in done.losses["tokenizers"]
    tokfmt.convert(files[:2], tmp_path / "alike.pbin")
    for deep in (False, True):
        assert codes(mixed, deep=deep)["TF928"].severity == "error"
        assert "TF928" not in codes(files[0], deep=deep)
    assert tokfmt.info(mixed).extras["tokenizer"] == "gpt2, meta-llama/Meta-Llama-3-8B"


@pytest.mark.parametrize("name", ["unknown", "Unknown Tokenizer|2"])
def test_metadata_that_name_none_contradict_nothing(tmp_path, name):
    home = folder(tmp_path / "home", "gpt2", name)
    assert tokfmt.convert(home, tmp_path / "o.pbin").sequences == 16
    assert "TF928" not in codes(home)


def test_a_cached_source_of_a_recipe_keeps_its_metadata(tmp_path):
    """Large sources are not opened again, and are refused all the same."""
    homes = [folder(tmp_path / name, name, count=1 << 16) for name in ("gpt2", "llama")]
    for home in homes:
        tokfmt.recipe([home], seq_len=4)
    with pytest.raises(TokenizerMismatchError, match="expected gpt2, found llama"):
        tokfmt.recipe(homes, seq_len=4)


def test_decoded_ids_are_not_copied(tmp_path, old):
    held = stream(tmp_path / "x.ds", [1, 2, 3], eos=11)
    assert not copied(tokfmt.convert(held, tmp_path / "text.jsonl", tokenizer=old).notes)
    empty = stream(tmp_path / "none.ds", eos=11)
    assert not copied(tokfmt.convert(empty, tmp_path / "none.pbin", tokenizer=old, options={"width": 2}).notes)


# tokenizers that do not give back what they take


def given_back(notes):
    return [note for note in notes if "back: " in note]


def test_texts_that_change_are_counted(tmp_path, old):
    """These tokenizers join words with one space, so two spaces do not come back."""
    text = lines(tmp_path / "x.jsonl", "w1 w2", "w3  w4", " w5", "w6", key="text")
    (note,) = given_back(tokfmt.convert(text, tmp_path / "x.pbin", tokenizer=old).notes)
    assert "2 of 4 " in note and "'w3  w4' becomes 'w3 w4'" in note
    alike = lines(tmp_path / "y.jsonl", "w1 w2", "", "w6", key="text")
    assert not given_back(tokfmt.convert(alike, tmp_path / "y.pbin", tokenizer=old).notes)
    many = lines(tmp_path / "z.jsonl", *["w1"] * 200, " w1", key="text")
    assert not given_back(tokfmt.convert(many, tmp_path / "z.pbin", tokenizer=old).notes)  # nobody claims more


@pytest.mark.parametrize("of_lines", [False, True])
def test_ids_that_change_are_counted(tmp_path, old, of_lines):
    """A token of two words is two tokens when its text is encoded."""
    place = Path(old) / "tokenizer.json"
    place.write_text(place.read_text().replace('"w8"', '"w1 w2"'))
    for rows, changed in (([[1, 2], [3, 8, 4], [5], [8]], "2 of 4 documents"), ([[1, 2], [3]], "")):
        held = lines(tmp_path / "x.jsonl", *rows) if of_lines else stream(tmp_path / "x.ds", *rows, eos=10)
        done = tokfmt.convert(held, tmp_path / "y.jsonl", tokenizer=old, eos=10, overwrite=True)
        assert [changed in note for note in given_back(done.notes)] == ([True] if changed else [])
