"""What stands beside the data is evidence: every command heeds it, and no guess is made without any."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import registered
from amount import FUZZ_ONLY, examples
from click.testing import CliRunner
from commands import run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from moments import At
from paths import CORPUS, FIXTURES, TOKENIZER

import tokfmt
from tokfmt.cli.main import cli
from tokfmt.errors import (
    ConversionError,
    CorruptError,
    DetectionError,
    FormatError,
    OptionError,
    TokenizerMismatchError,
    TokfmtError,
)

EOS = 999
DOCUMENTS = [[(7 * k + j) % 900 for j in range(5 + k % 9)] for k in range(1200)]
TARGETS = {
    "jsonl": ("o.jsonl", {}),
    "modalities": ("o.pbin", {}),
    "stage1": ("o", {"shard_size": 8192}),
    "hdf5": ("o", {"seq_len": 64, "shard_size": 5120}),
    "flat-tokens": ("o.zarr", {"chunk": 512}),
}
COMMANDS = {
    "convert": ("convert", "{}", "new.jsonl", "--overwrite"),
    "stats": ("stats", "{}"),
    "check": ("check", "{}"),
    "info": ("info", "{}"),
    "diff": ("diff", "{}", "{}"),
    "show": ("show", "{}", "0"),
}


def source(tmp):
    path = tmp / "source.jsonl"
    path.write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in DOCUMENTS))
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A dataset of each format, with its manifest."""
    tmp = tmp_path_factory.mktemp("made")
    found = {}
    for name, (path, _) in TARGETS.items():
        (tmp / name).mkdir()
        destination = tmp / name / path
        tokfmt.convert(source(tmp), destination, to_format=name, eos=EOS, to_options=TARGETS[name][1])
        found[name] = destination
    return found


def copied(made, name, tmp):
    """A copy, manifest and all, and all its files."""
    shutil.copytree(made[name].parent, tmp / "copy")
    path = tmp / "copy" / made[name].name
    return path, list(registered.get(name).files(path))


def said(words, path):
    """Exit code and everything that a command says on stderr, or finds."""
    here = Path.cwd()
    os.chdir(path.parent)
    try:
        done = CliRunner().invoke(cli, [word.format(path.name) for word in words], standalone_mode=False)
    finally:
        os.chdir(here)
    if isinstance(done.exception, TokfmtError):  # `cli.main` words it so
        return done.exception.exit_code, str(done.exception)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.return_value or done.exit_code, done.stderr + (done.stdout if words[0] == "check" else "")


def remove(file, others):
    file.unlink()


def truncate(file, others):
    os.truncate(file, file.stat().st_size // 2)


def grow(file, others):
    file.write_bytes(file.read_bytes() * 2)


def swap(file, others):
    """With one of another size: equal sizes only a checksum tells apart, which `check --deep` takes."""
    other = next((one for one in others if one.stat().st_size != file.stat().st_size), None)
    if other is None:
        file.write_bytes(b"something else")
    else:
        mine, theirs = file.read_bytes(), other.read_bytes()
        file.write_bytes(theirs)
        other.write_bytes(mine[:-1])


@pytest.mark.parametrize("damage", [remove, truncate, grow, swap])
@pytest.mark.parametrize("name", TARGETS)
def test_no_command_passes_over_damage(made, name, damage, tmp_path):
    """Whichever file it is: every command says so, and none but check goes on."""
    _, files = copied(made, name, tmp_path / "first")
    numbers = sorted({0, len(files) // 2, len(files) - 1})
    for number in numbers:
        path, files = copied(made, name, tmp_path / f"{number}")
        damage(files[number], [file for file in files if file != files[number]])
        for words in COMMANDS.values():
            code, told = said(words, path)
            assert (code != 0, bool(told)) == (True, True), (words[0], files[number].name, told)
            assert code != 70, told
        with pytest.raises((FormatError, DetectionError)):
            tokfmt.open(path)


@pytest.fixture(params=["megatron", "olmo"])
def flipped(request, tmp_path):
    """A dataset with a manifest, a pair or a folder, of which one byte changed."""
    source = tmp_path / {"megatron": "x.bin", "olmo": "x"}[request.param]
    (tmp_path / "in.jsonl").write_text('{"input_ids": [5, 6, 7]}\n' * 40)
    tokfmt.convert(tmp_path / "in.jsonl", source, to_format=request.param, eos=0)
    tokfmt.convert(source, tmp_path / "as-it-was.jsonl")
    file = source if source.is_file() else min(source.glob("*.npy"))
    content = bytearray(file.read_bytes())
    content[0] ^= 1
    file.write_bytes(content)
    return source


def test_bytes_that_changed_at_the_same_size_are_not_copied(flipped):
    with pytest.raises(CorruptError, match="contradicts its manifest .* in the checksum") as caught:
        tokfmt.convert(flipped, flipped.with_name("out.jsonl"))
    assert caught.value.path == str(flipped) and caught.value.expected != caught.value.found
    assert "allow-partial" not in str(caught.value)
    assert not list(flipped.parent.glob("out*"))


def test_changed_bytes_are_copied_if_the_manifest_is_ignored(flipped):
    assert tokfmt.convert(flipped, flipped.with_name("out.jsonl"), ignore_manifest=True).sequences == 40
    flipped.with_name(f"{flipped.name}.tokfmt.json").unlink()
    assert tokfmt.convert(flipped, flipped.with_name("more.jsonl")).sequences == 40


def test_undamaged_ones_are_read(made, tmp_path):
    for name in TARGETS:
        path, _ = copied(made, name, tmp_path / name)
        for command, words in COMMANDS.items():
            code, told = said(words, path)
            assert code == 0, (name, command, told)


def test_a_contradicted_manifest_can_be_ignored(made, tmp_path):
    path, _ = copied(made, "modalities", tmp_path)
    place = path.with_name("o.pbin.tokfmt.json")
    content = json.loads(place.read_bytes())
    for change in ({"output": {"bytes": 5, "files": 1}}, {"sequences": 7}, {"tokens": 7}, {"format": "jsonl"}):
        place.write_text(json.dumps({**content, **change}))
        with pytest.raises(CorruptError, match="contradicts its manifest o.pbin.tokfmt.json"):
            tokfmt.open(path)
        dataset = tokfmt.open(path, ignore_manifest=True)
        (note,) = (note for note in dataset.info.notes if note.endswith("; the manifest is ignored"))
        assert note.startswith("the dataset contradicts its manifest o.pbin.tokfmt.json in ")
        assert said(("stats", "{}", "--ignore-manifest"), path)[0] == 0


# separators


def pack(path, documents, **options):
    lines = path.with_suffix(".source.jsonl")
    lines.write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in documents))
    tokfmt.convert(lines, path, to_eos="none", manifest=False, overwrite=True, **options)
    lines.unlink()
    return path


def sequences(dataset):
    return [ids.tolist() for ids in dataset]


@FUZZ_ONLY
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    documents=st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=9), min_size=1, max_size=30),
    ending=st.integers(0, 50),
)
def test_documents_that_merely_end_alike_keep_their_tokens(tmp_path, documents, ending):
    """Fewer than 8, or the ID stands inside one as well: then it is content, or `convert` asks what it is."""
    alike = [[*ids, ending] for ids in documents]
    if len(alike) >= 8:
        alike[0] = [ending, *alike[0]]
    path = pack(tmp_path / "x.pbin", alike)
    dataset = tokfmt.open(path)
    assert sequences(dataset) == alike
    assert "--eos" in " ".join(dataset.info.notes)
    for target in ("o.jsonl", "o.zarr"):
        try:
            tokfmt.convert(path, tmp_path / target, overwrite=True)
        except ConversionError as error:
            assert f"--eos {ending} reads it as the separator, --eos none as content" in str(error)
            tokfmt.convert(path, tmp_path / target, eos="none", overwrite=True)
        assert sequences(tokfmt.open(tmp_path / target)) == alike


def test_inferred_separator_is_noted(tmp_path):
    documents = [[k, k + 1, 77] for k in range(8)]
    dataset = tokfmt.open(pack(tmp_path / "x.pbin", documents))
    assert sequences(dataset) == [ids[:-1] for ids in documents]
    assert dataset.info.inferred == (
        "separator 77 inferred: each of 8 sequences ends with it, and none has it inside. --eos ID overrides it",
    )
    assert "separator 77 inferred" in said(("convert", "{}", "o.zarr"), tmp_path / "x.pbin")[1]


def test_facts_go_before_guesses(tmp_path):
    """--eos, then the manifest, then the tokenizer, then the format's convention."""
    documents = [[1, 2], [3], [4, 5]]
    lines = tmp_path / "x.jsonl"
    lines.write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in documents))
    tokfmt.convert(lines, tmp_path / "o", to_format="stage1", eos=7)
    known = {"eos_id": 7, "source": "manifest of o"}
    found = tokfmt.open(tmp_path / "o").origin[0].separator
    assert (found.eos_id, found.source) == tuple(known.values())
    assert tokfmt.open(tmp_path / "o", eos=7).origin[0].separator.source == "--eos"
    with pytest.raises(OptionError, match="--eos 3 contradicts the manifest, which states 7"):
        tokfmt.open(tmp_path / "o", eos=3)
    given = tokfmt.open(tmp_path / "o", tokenizer=str(TOKENIZER))  # whose end of text is another
    assert sequences(given) == documents
    (tmp_path / "o.tokfmt.json").unlink()
    assert tokfmt.open(tmp_path / "o").origin[0].separator.source == "stage1 convention"
    alone = tokfmt.open(tmp_path / "o", tokenizer=str(TOKENIZER))
    assert alone.info.eos_id == 4095


def test_separator_argument_is_checked_and_reported(tmp_path):
    path = pack(tmp_path / "x.pbin", [[1, 9], [2, 9]])
    for wrong in ("foo", -1, 1.5, True):
        with pytest.raises(OptionError, match="^eos: expected a whole number of at least 0 or none, found "):
            tokfmt.open(path, eos=wrong)
    with pytest.raises(OptionError, match="no sequence ends with it: all 2 that were looked at end with 9") as refused:
        tokfmt.open(path, eos=5)
    assert "--eos 9 reads it" in str(refused.value)


def test_separators_are_not_doubled(tmp_path):
    lines = tmp_path / "x.jsonl"
    lines.write_text('{"input_ids": [1, 2, 9]}\n{"input_ids": [3, 9]}\n')
    done = tokfmt.convert(lines, tmp_path / "o.pbin", eos=9, verify=True)
    assert (done.separators["kept"], done.separators["added"]) == (2, 0)
    assert sequences(tokfmt.open(tmp_path / "o.pbin")) == [[1, 2], [3]]
    lines.write_text('{"input_ids": [1, 2, 9]}\n{"input_ids": [3]}\n')
    done = tokfmt.convert(lines, tmp_path / "o.pbin", eos=9, verify=True, overwrite=True)
    assert (done.separators["kept"], done.separators["added"]) == (1, 1)
    assert any("1 of 2 sequences end with the separator 9" in note for note in done.notes)
    assert sequences(tokfmt.open(tmp_path / "o.pbin")) == [[1, 2], [3]]
    assert (done.separators["kept"], done.separators["added"]) == (1, 1)


# tokenizers


@pytest.fixture
def two(tmp_path):
    """Packs of two tokenizers."""
    other = tmp_path / "other"
    shutil.copytree(TOKENIZER, other)
    text = (other / "tokenizer.json").read_text()
    (other / "tokenizer.json").write_text(text + "\n")
    tokfmt.convert(CORPUS, tmp_path / "a.pbin", tokenizer=str(TOKENIZER))
    tokfmt.convert(CORPUS, tmp_path / "b.pbin", tokenizer=str(other))
    return tmp_path / "a.pbin", tmp_path / "b.pbin", other


def manifest(path):
    return json.loads(Path(f"{path}.tokfmt.json").read_bytes())


def test_sources_of_two_tokenizers(two, tmp_path):
    a, b, other = two
    with pytest.raises(TokenizerMismatchError, match="--allow-loss tokenizers"):
        tokfmt.convert([a, b], tmp_path / "o.pbin")
    with pytest.raises(TokenizerMismatchError, match=r"a\.pbin: was made with another tokenizer"):
        tokfmt.convert([CORPUS, a], tmp_path / "o.pbin", tokenizer=str(other))
    tokfmt.convert([a, b], tmp_path / "o.pbin", allow_loss=["tokenizers"])
    assert (manifest(tmp_path / "o.pbin")["tokenizer"], list(manifest(tmp_path / "o.pbin")["losses"])) == (
        None, ["tokenizers"],
    )  # fmt: skip
    for words in (("stats", "{}"), ("show", "{}")):
        assert said((*words, "--tokenizer", str(other)), a)[0] == 4


def test_the_tokenizer_stays_known_through_every_hop_and_link(two, tmp_path):
    made_with = manifest(two[0])["tokenizer"]
    at = two[0]
    for number, name in enumerate(("o.zarr", "o.h5", "o.jsonl", "p.pbin")):
        link = tmp_path / f"link-{number}{at.suffix}"
        link.symlink_to(at)
        at = tmp_path / name
        tokfmt.convert(link, at, seq_len=64 if name == "o.h5" else None, allow_loss=["empty-sequences"])
        assert (manifest(at)["tokenizer"], manifest(at)["eos_id"]) == (made_with, 4095)
    assert at.read_bytes() == two[0].read_bytes()


def test_ids_beyond_the_vocabulary(tmp_path):
    lines = tmp_path / "x.jsonl"
    lines.write_text('{"input_ids": [1, 2, 5000]}\n')
    with pytest.raises(TokenizerMismatchError, match="expected IDs below 4,096"):
        tokfmt.convert(lines, tmp_path / "o.pbin", tokenizer=str(TOKENIZER))
    assert not (tmp_path / "o.pbin").exists()
    tokfmt.convert(lines, tmp_path / "o.pbin", tokenizer=str(TOKENIZER), allow_loss=["tokenizers"])
    assert manifest(tmp_path / "o.pbin")["tokenizer"] is None


# directories


LINE = '{"input_ids": [1, 2]}\n'
STRANGERS = ("b.json", "c.dat", "f.csv", "thesis.tex", "sub/part-3.jsonl", "sub/deeper/x.bin", "g.pbin")
CACHES = (
    "x_text_document_train_indexmap_100ns_32sl_1234s_doc_idx.npy", f"index-cache/{'0a' * 16}_shuffle_idx.npy",
    f"cache/GPTDataset_indices/{'0a' * 16}-GPTDataset-train-document_index.npy", f"{'0a' * 16}.dsc",
    f"{'0a' * 16}-BlendedDataset-train-dataset_sample_index.npy", f"{'0a' * 16}-GPTDataset-valid-description.txt",
)  # fmt: skip
"""What Megatron-LM and Megatron-DeepSpeed leave beside the data of a run."""
HARMLESS = (
    ".hidden",
    ".git/HEAD",
    "README.md",
    "LICENSE",
    "MD5SUMS",
    "sha256sums.txt",
    "x.tokfmt.json",
    "y.idx",
    *CACHES,
)


@pytest.mark.parametrize("stranger", STRANGERS)
def test_a_directory_is_read_whole_or_not_at_all(stranger, tmp_path):
    home = tmp_path / "home"
    for name in ("part-1.jsonl", "part-2.jsonl", *HARMLESS, stranger):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(LINE if name.endswith("jsonl") else "x")
    (home / "nothing").mkdir()
    with pytest.raises(FormatError, match=f"holds another file, {stranger}.*--allow-loss other-files"):
        tokfmt.open(home)
    for words in (("stats", "{}"), ("show", "{}"), ("diff", "{}", "{}"), ("convert", "{}", "o.zarr")):
        assert said(words, home)[0] == 3
        assert said((*words, "--allow-loss", "other-files"), home)[0] == 0
    found = said(("check", "{}"), home)[1]
    assert "TF915" in found and "convert, stats, show and diff refuse it" in " ".join(found.split())
    assert said(("info", "{}"), home)[0] == 0
    assert stranger in manifest(tmp_path / "o.zarr")["losses"]["other-files"]
    (home / stranger).unlink()
    assert len(tokfmt.open(home)) == 2


def test_commands_of_one_dataset_refuse_several(tmp_path):
    """With `--recursive` and patterns, show and `check --against` read all datasets or none."""
    home = tmp_path / "home"
    for name in ("a.jsonl", "x/b.jsonl"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(json.dumps({"input_ids": [len(name), 1]}) + "\n")
    whole = tmp_path / "whole.pbin"
    tokfmt.convert(home, whole, recursive=True, eos=50)
    for words in (
        ("check", whole, "--deep", "--against", home, "--recursive"),
        ("show", home, "--recursive"),
        ("show", home, "--recursive", "--samples"),
        ("show", tmp_path / "[hw]*"),
    ):
        said = CliRunner().invoke(cli, [*map(str, words)])
        assert isinstance(said.exception, OptionError), words
        assert "names 2 datasets" in str(said.exception)
        assert said.stdout == ""


@pytest.mark.parametrize("name", ["stage1", "hdf5", "flat-tokens"])
def test_a_dataset_is_the_same_from_within(made, name, tmp_path, monkeypatch):
    """Its manifest stands in the directory above, and is heeded."""
    path, files = copied(made, name, tmp_path)
    monkeypatch.chdir(path)
    for command, words in COMMANDS.items():
        words = [word.format(".").replace("new.jsonl", str(tmp_path / "new.jsonl")) for word in words]
        done = CliRunner().invoke(cli, words, standalone_mode=False)
        assert (done.exception, done.exit_code) == (None, 0), (command, done.exception, done.output)
    remove(files[0], files)
    assert isinstance(CliRunner().invoke(cli, ["stats", "."], standalone_mode=False).exception, TokfmtError)


@pytest.mark.parametrize("path", ["{}/a", "a", ".", "{}/zeros.bin", "zeros.bin"])
def test_notes_name_their_source_once(path, tmp_path, monkeypatch):
    """As it was given, however short that is: `.` and `a` stand in many a sentence."""
    home = tmp_path / "home" / "a"
    home.parent.mkdir()
    tokfmt.convert(source(tmp_path), home, to_format="stage1", eos=EOS, to_options={"shard_size": 8192})
    np.zeros(8192 * 4, "<i4").tofile(home.parent / "zeros.bin")
    monkeypatch.chdir(home if path == "." else home.parent)
    given = path.format(home.parent)
    done = tokfmt.convert(given, "../p.zarr", eos="none", format="stage1")
    assert done.notes
    for note in done.notes:
        assert note.startswith((f"{given}: ", f"{given} ")), note
        assert (Path(given).name or "home") not in note.removeprefix(given).split()[0]


def test_check_reveals_nothing_about_files_outside_the_directory(tmp_path):
    """A foreign manifest names another user's file; neither its size nor its existence is reported."""
    shutil.copy(FIXTURES / "modalities" / "D_2byte_gpt2.pbin", tmp_path / "x.pbin")
    tokfmt.convert(tmp_path / "x.pbin", tmp_path / "o.pbin", eos=50256)
    place = tmp_path / "o.pbin.tokfmt.json"
    content = json.loads(place.read_bytes())
    outside = [str(CORPUS), "/", "/etc", str(tmp_path.parent)]
    content["sources"] = [{"path": path, "bytes": 1, "files": 1} for path in outside]
    place.write_text(json.dumps(content))
    code, told = said(("check", "{}"), tmp_path / "o.pbin")
    assert (code, "TF914" in told) == (0, False)
    assert np.array_equal(tokfmt.open(tmp_path / "o.pbin")[0], tokfmt.open(tmp_path / "x.pbin", eos=50256)[0])


@pytest.mark.parametrize("name", TARGETS)
def test_every_file_of_a_source_is_watched(made, name, tmp_path):
    """A file that changes while a dataset is converted ends the conversion, whichever it is."""
    shutil.copytree(made[name].parent, tmp_path / "copy")
    path = tmp_path / "copy" / made[name].name
    files = [Path(file.text) for file in registered.get(name).files(path)]
    assert files
    for file in files:
        old, status = file.read_bytes(), file.stat()
        late = At("checksums", lambda file=file, old=old: file.write_bytes(old + b"\n"))
        with pytest.raises(TokfmtError, match="changed while it was being read"):
            tokfmt.convert(path, tmp_path / "o.arrow", eos=EOS, progress=late)
        assert not (tmp_path / "o.arrow").exists()
        file.write_bytes(old)
        os.utime(file, ns=(status.st_mtime_ns, status.st_mtime_ns))
    assert tokfmt.convert(path, tmp_path / "o.arrow", eos=EOS).sequences


def test_an_index_that_appears_is_a_change(tmp_path):
    path = source(tmp_path)
    late = At("verifying", lambda: path.with_suffix(".idx").write_bytes(b"x"))
    with pytest.raises(TokfmtError, match=r"source\.idx"):
        tokfmt.convert(path, tmp_path / "o.pbin", eos=EOS, verify=True, progress=late)


def test_directories_below(tmp_path):
    for name in ("a.jsonl", "x/part-10.jsonl", "x/part-2.jsonl", "y/z/c.jsonl"):
        (tmp_path / "home" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "home" / name).write_text(json.dumps({"input_ids": [len(name), 1]}) + "\n")
    (tmp_path / "home" / "y" / "README").touch()
    done = tokfmt.convert(tmp_path / "home", tmp_path / "o.pbin", recursive=True, eos=50)
    assert (done.sequences, [Path(one["path"]).name for one in done.sources]) == (4, ["home", "x", "z"])
    assert [ids[0] for ids in tokfmt.open(tmp_path / "o.pbin")] == [7, 14, 15, 11]


def test_invalid_paths_are_refused(tmp_path, monkeypatch):
    with pytest.raises(OptionError, match="a path is empty"):
        tokfmt.open("")
    for address in ("ftp://h/x.jsonl", "oci://b/x"):
        with pytest.raises(OptionError, match="the scheme [a-z]+ is not read"):
            tokfmt.open(address)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jsonl").write_text('{"input_ids": [1, 2]}\n')
    (tmp_path / "a.jsonl.tokfmt.json").write_text("{}")
    stated = json.loads(run("stats", "a.*", "--ignore-manifest", "--json", check=0).stdout)
    assert stated["path"] == "a.jsonl"


def test_selections_are_cut_off_as_slices_are(tmp_path):
    numbers, path = list(range(42)), tmp_path / "x.jsonl"
    path.write_text("".join(f'{{"input_ids": [{number}]}}\n' for number in numbers))
    for text in ("0:1000", "-3:", ":1e6", "40:99", "-99:2", "50:60", ":"):
        a, _, b = text.partition(":")
        expected = numbers[int(float(a)) if a else None : int(float(b)) if b else None]
        assert [one.ids for one in tokfmt.show(path, text).shown] == [[number] for number in expected]
    for text, why in (("5:2", "ends before it begins"), (" 42", "sequence 42 is not one of the 42 sequences")):
        with pytest.raises(OptionError, match=why):
            list(tokfmt.show(path, text).shown)
