"""Every fixture of every format has exactly one winner, and the corpus of fixtures is here."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest
import registered
from paths import FIXTURES, ROOT, golden

import tokfmt
from tokfmt.core.ragged import Ragged
from tokfmt.errors import AmbiguousFormatError, CorruptError, FormatError, OptionError, TokfmtError, UnknownFormatError
from tokfmt.testing import write

PACKS = sorted(p for p in (FIXTURES / "modalities").glob("**/*.pbin") if "P0" not in p.name)
LINES = sorted((FIXTURES / "jsonl").glob("*.jsonl")) + sorted((FIXTURES / "text").glob("*.jsonl"))
SAMPLES = sorted(p for p in (FIXTURES / "hdf5").iterdir() if p.is_dir()) + sorted((FIXTURES / "hdf5").glob("*/*.h5"))
STORES = sorted((FIXTURES / "flat-tokens").glob("*.zarr"))
BLOCKS = sorted((FIXTURES / "stage1").iterdir()) if (FIXTURES / "stage1").exists() else []
COLUMNS = sorted((FIXTURES / "parquet").rglob("*.parquet"))
ARROWS = [p.parent if (p.parent / "state.json").exists() else p for p in (FIXTURES / "parquet").rglob("*.arrow")]
FOLDERS = [FIXTURES / "parquet" / name for name in ("text/hub", "text/nanochat", "packed", "packed/shards", "tokens")]

CASES = [
    *((p, "modalities") for p in PACKS),
    *((p, "jsonl") for p in LINES),
    *((p, "hdf5") for p in SAMPLES),
    *((p, "flat-tokens") for p in STORES),
    *((p, "stage1") for p in BLOCKS if p.suffix == ".bin" or p.is_dir()),
    *((p, "parquet") for p in (*COLUMNS, *FOLDERS)),
    *((p, "arrow") for p in sorted({*ARROWS, FIXTURES / "parquet" / "dataset_dict"})),
]
CASES += [
    (FIXTURES / home / case["entry"], home)
    for home in (
        "olmo",
        "datatrove",
        "litdata",
        "mds",
        "levanter",
        "array",
        "internevo",
        "litgpt-packed",
        "webdataset",
        "tfrecord",
        "arrayrecord",
    )
    for case in json.loads((FIXTURES / home / "expected.json").read_text())["cases"]
    if "entry" in case and "defect" not in case
    if case["name"] not in ("real_numpy", "merged_total_metadata", "build_nanogpt", "raw_i4")
]
TRAPS = {case["entry"]: case for case in json.loads((FIXTURES / "traps" / "expected.json").read_text())["cases"]}


def test_the_corpus_is_here():
    assert [len(PACKS) >= 40, len(LINES) >= 14, len(SAMPLES) >= 70, len(STORES) >= 11, len(BLOCKS) >= 3] == [True] * 5


def test_imports_of_a_conversion(tmp_path):
    """Only formats that the file can have are imported; no recipes, tokenizers or shuffles."""
    source = write(registered.get("modalities"), tmp_path / "in.pbin", Ragged.of([[1, 2], [3]]), eos_id=50256)
    program = (
        "import sys, tokfmt; tokfmt.convert(*sys.argv[1:], eos=50256); "
        "print(*sorted({'.'.join(name.split('.')[1:3]) for name in sys.modules if name.startswith("
        "('tokfmt.formats.', 'tokfmt.mix', 'tokfmt.text.', 'tokfmt.run.shuffle'))}))"
    )
    command = [sys.executable, "-c", program, str(source), str(tmp_path / "out.pbin")]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    homes = (
        "blocks",
        "cells",
        "files_ahead",
        "flat",
        "index_ends",
        "folders",
        "modalities",
        "pickled_index",
        "row_reader",
        "stage1",
    )
    assert set(ran.stdout.split()) <= {
        "text.decoded",
        "text.ingest",
        "text.long_texts",
        *(f"formats.{home}" for home in homes),
    }


def test_imports_of_show(tmp_path):
    """No module of recipes is imported; only the origin of a sequence needs them."""
    source = write(registered.get("modalities"), tmp_path / "in.pbin", Ragged.of([[1, 2], [3]]), eos_id=50256)
    program = "import sys, tokfmt; tokfmt.show(sys.argv[1], '0'); print('tokfmt.mix' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program, str(source)], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False"]


def test_expected_json_is_json():
    for path in FIXTURES.glob("*/expected.json"):
        assert json.loads(path.read_bytes())


def test_uint16_ids_named_as_stage1(tmp_path):
    """What the file seems to be is said, where its ids are negative as int32."""
    ids = np.minimum(np.random.default_rng(3).zipf(1.2, 40 * 8192), 50_256)
    ids.astype("<u2").tofile(tmp_path / "x.bin")
    with pytest.raises(FormatError, match=r"negative ID at byte \d+: .*x.bin looks like uint16 IDs.*nanogpt"):
        tokfmt.stats(tmp_path / "x.bin", format="stage1")


@pytest.mark.parametrize(
    ("path", "format_"),
    [
        ("llmc/edu_fineweb_train_000001.bin", "llmc"),
        ("llmc/fineweb_val_000000.bin", "llmc"),
        ("modalities/D_2byte_gpt2.pbin", "modalities"),
        ("parquet/int32.parquet", "parquet"),
        ("hdf5/new_shuffled/output_chunk_0.h5", "hdf5"),
        ("jsonl/crlf.jsonl", "jsonl"),
    ],
)
def test_a_format_is_detected_from_content_under_any_name(path, format_, tmp_path):
    copy = tmp_path / "tokens.dat"
    shutil.copy(FIXTURES / path, copy)
    assert tokfmt.check(copy)[0].format == format_


def test_an_llmc_file_of_a_big_endian_machine_is_named_as_such_under_any_name(tmp_path):
    path, header = tmp_path / "tokens.dat", np.zeros(256, ">i4")
    header[:3] = (20240520, 1, 40)
    path.write_bytes(header.tobytes() + np.arange(40, dtype=">u2").tobytes())
    with pytest.raises(FormatError, match="not a token file of llm.c at byte 0.*big-endian"):
        tokfmt.open(path)


def test_a_folder_of_several_datasets_names_one_of_them(tmp_path):
    for name in ("a.pbin", "b.pbin"):
        (tmp_path / name).write_bytes((FIXTURES / "modalities" / "D_2byte_gpt2.pbin").read_bytes())
    with pytest.raises(UnknownFormatError) as caught:
        tokfmt.info(tmp_path)
    assert "such as a.pbin" in caught.value.remedy


def test_a_folder_of_datasets_of_several_formats_names_one_of_them(tmp_path):
    """No format reads all of it, so the choice of a format is not the first remedy."""
    for name in ("hdf5/padded_eos", "megatron/datatrove_00000_tokens.bin", "megatron/datatrove_00000_tokens.idx"):
        path = FIXTURES / name
        for file in path.iterdir() if path.is_dir() else [path]:
            shutil.copy(file, tmp_path)
    with pytest.raises(AmbiguousFormatError) as caught:
        tokfmt.info(tmp_path)
    assert caught.value.candidates == ["hdf5", "megatron"]
    example = re.search(r"Name one of the datasets in it, such as (\S+); with --recursive", str(caught.value))[1]
    assert tokfmt.info(tmp_path / example).sequences > 0
    for one in caught.value.candidates:
        assert f"--from {one}" in str(caught.value)
        assert tokfmt.info(tmp_path, format=one).sequences > 0


@pytest.mark.parametrize(("word", "name"), [("cerebras", "hdf5"), ("seqax", "flat-tokens"), ("parket", "parquet")])
def test_a_format_that_is_called_by_its_owner_is_suggested(word, name):
    with pytest.raises(OptionError) as caught:
        tokfmt.info(FIXTURES, format=word)
    assert str(caught.value).endswith(f"Did you mean {name}?")


@pytest.mark.parametrize(("path", "name"), CASES, ids=lambda v: v if isinstance(v, str) else v.name)
def test_one_winner(path, name):
    claims = registered.claims(path)
    assert registered.detect(path).name == name
    assert sorted(claims.values())[-1:] == [claims[name]]
    assert list(claims.values()).count(claims[name]) == 1


REFUSED = {
    "magic_by_chance.bin": "a .bin without a known header|a bare stream of uint16",
    "suffix.bin": "a .bin without a known header|a bare stream of uint16",
    "other_index": "a directory that no format recognizes",
    "mds_v1": "is an unsupported index: expected version 2, shards, found version 1",
}


@pytest.mark.parametrize("name", TRAPS)
def test_files_that_resemble_another_format(name):
    """Each is read by its own format, with the documents that were written, or refused."""
    case, path = TRAPS[name], FIXTURES / "traps" / name
    if case["detect"] in ("ask", "none"):
        with pytest.raises(TokfmtError, match=REFUSED[name]):
            tokfmt.open(path)
        return
    assert registered.detect(path).name == case["detect"]
    if "doc_lengths" not in case:
        return
    with tokfmt.open(path, eos="none") as dataset:
        documents = [document.tolist() for document in dataset]
    assert [len(document) for document in documents] == case["doc_lengths"]
    stored = np.array([token for document in documents for token in document], "<u4")
    assert hashlib.sha256(stored.tobytes()).hexdigest() == case["tokens_sha256_le_u32"]


def test_content_wins_over_a_name(tmp_path):
    pack = (FIXTURES / "modalities" / "D_2byte_gpt2.pbin").read_bytes()
    for name in ("in.bin", "data", "x.jsonl", "x.h5", "x.zarr", "stage1_block_0000.bin"):
        (tmp_path / name).write_bytes(pack)
        assert registered.detect(tmp_path / name).name == "modalities"


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("x", b"", "is an empty file"),
        ("x.bin", b"", "is an empty file"),
        ("x.log", b"some words\nand more\n", "is plain text, .* --from text .* jq -cR"),
        ("x.bin", bytes(range(256)) * 3, "is a .bin without a known header"),
        ("x.idx", b"\x80\x04]\x94.", "is the index of a text file"),
        ("x.csv", b"a,b\n1,2\n", r"is a table \(CSV\)"),
    ],
)
def test_unrecognized_files(tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UnknownFormatError, match=rf"{name}: {says}"):
        registered.detect(tmp_path / name)


def test_unrecognized_directories(tmp_path):
    with pytest.raises(UnknownFormatError, match="an empty directory"):
        registered.detect(tmp_path)
    (tmp_path / "notes.log").touch()
    with pytest.raises(UnknownFormatError, match="a directory that no format recognizes"):
        registered.detect(tmp_path)


@pytest.mark.parametrize(
    ("name", "format_"),
    [("a.jsonl", "jsonl"), ("a.pbin", "modalities"), ("a.h5", "hdf5"), ("a.zarr", "flat-tokens"), ("a.zarr/", "flat-tokens"),
     ("stage1_block_0007.bin", "stage1")],
)  # fmt: skip
def test_destinations_by_name(name, format_):
    assert registered.for_destination(name).name == format_


def disputed(path):
    """What formats say that were not asked, if any of them claims the file."""
    asked = registered.claims(path)
    every = {format_.name: registered.sniffed(format_, path) for format_ in registered.list_formats()}
    return {name: sure for name, sure in every.items() if sure is not None and asked.get(name) != sure}


def test_signatures_exclude_no_format_that_claims_a_file(tmp_path):
    """All fixtures, also under the names of all formats."""
    files = [path for path in FIXTURES.rglob("*") if path.is_file()]
    assert {str(path): claims for path in files if (claims := disputed(path))} == {}
    patterns = [pattern for format_ in registered.list_formats() for pattern in format_.extensions]
    names = [pattern.replace("*", "x_000001") if "." in pattern[1:] else f"x{pattern}" for pattern in patterns]
    examples = {name: path for path, name in CASES if path.is_file()}
    for name in (*names, "x.bin", "x_val_000000.npy", "x.idx", "x.toml", "x"):
        path = tmp_path / name
        for file in examples.values():
            path.write_bytes(file.read_bytes())
            assert disputed(path) == {}, (file, name)
            path.unlink()


def test_a_format_is_asked_for_the_names_that_it_writes():
    for format_ in registered.list_formats():
        for pattern in format_.extensions:
            name = pattern.replace("*", "x") if "." in pattern[1:] else f"x{pattern}"
            assert format_ in registered.list_formats(lambda signature, name=name: signature.is_named(name))


def test_destinations_without_a_meaning():
    says = r"cannot tell the format of 'out\.bin' from its name\. Use --to NAME, .*; litdata, mds and webdataset have no such name"
    with pytest.raises(OptionError, match=says):
        registered.for_destination("some/out.bin")
    with pytest.raises(OptionError, match=r"no format 'modalites' .*Did you mean modalities\?"):
        registered.get("modalites")


def test_goldens_of_others():
    for name in ("wild_repo_C_lorem_ipsum.pbin", "wild_repo_D_lorem_ipsum.pbin"):
        assert registered.detect(golden("modalities", name)).name == "modalities"


def test_a_directory_of_many_files(tmp_path, monkeypatch):
    """Whatever order the file system lists them in: 6,000 names, and one of them says it."""
    home = tmp_path / "many"
    home.mkdir()
    for number in range(6000):
        (home / f"{number}.txt").touch()
    for name, format_ in (("a.h5", "hdf5"), ("5000a.jsonl", "jsonl"), ("stage1_block_0000.bin", "stage1")):
        (home / name).touch()
        listed = [other for other in os.listdir(home) if other != name]
        for order in ([name, *listed], [*listed, name], sorted([name, *listed], reverse=True)):
            monkeypatch.setattr(os, "listdir", lambda path, order=order: order)
            assert registered.detect(home).name == format_
            monkeypatch.undo()
        (home / name).unlink()


def test_sniffers_never_raise(tmp_path):
    """Any 300 bytes, under any of the names formats look at."""
    import random

    rng = random.Random(5)
    heads = [
        b"",
        b"{",
        b'{"text"',
        b"\x89HDF\r\n\x1a\n",
        b"\x80\x04",
        b"\x0c\0\0\0\0\0\0\0\x02\0\0\0",
        b"PK\x03\x04",
        b"\x1f\x8b\x08",
    ]
    for number in range(120):
        name = rng.choice(
            ["x.bin", "x.pbin", "x.h5", "x.zarr", "x.jsonl", "x.jsonl.gz", "x.zip", "stage1_block_0001.bin"]
        )
        path = tmp_path / f"{number}-{name}"
        path.write_bytes(heads[number % len(heads)] + rng.randbytes(rng.randrange(300)))
        registered.claims(path)


def test_a_source_tree_that_is_not_installed_works(tmp_path):
    """Formats and stores are found without the metadata of a distribution."""
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if "tokfmt" not in path.name:
            (tmp_path / path.name).symlink_to(path)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"}

    def run(*words):
        command = [sys.executable, "-S", *map(str, words)]  # -S: the environment itself has tokfmt
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)

    assert "PackageNotFoundError" in run("-c", "import importlib.metadata as m; m.distribution('tokfmt')").stderr
    listed = run("-m", "tokfmt", "formats", "--json")
    assert {one["name"] for one in json.loads(listed.stdout)["formats"]} == registered.own_names()
    assert run("-m", "tokfmt", "info", FIXTURES / "megatron/gpt2_text_document.bin", "-q").returncode == 0
    assert "s3" in run("-c", "import tokfmt; tokfmt.open('xyz://a/b')").stderr


@pytest.mark.parametrize("folder", ["{}", "split={}/lang=en", "de/{}"])
def test_the_error_of_folders_of_splits_names_options_that_work(folder, tmp_path):
    for split in ("test", "train", "validation"):
        path = tmp_path / "d" / folder.format(split) / "a.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"input_ids": [len(split)]}) + "\n")
    with pytest.raises(UnknownFormatError, match="--recursive --split train,") as caught:
        tokfmt.convert(tmp_path / "d", tmp_path / "o.jsonl")
    example = re.search(r"such as (\S+);", str(caught.value))[1]
    assert tokfmt.info(tmp_path / "d" / example).sequences == 1
    tokfmt.convert(tmp_path / "d", tmp_path / "o.jsonl", recursive=True, split="train")
    assert json.loads((tmp_path / "o.jsonl").read_text())["input_ids"] == [5]


@pytest.mark.parametrize("size", [7, 50, 400])
@pytest.mark.parametrize(("name", "to_format"), [("x.bin", "nanogpt"), ("x.bin", "stage1"), ("x.npy", "olmo")])
def test_a_cut_file_without_a_header_is_what_its_manifest_states(tmp_path, name, to_format, size):
    path = tmp_path / name
    tokfmt.convert(FIXTURES / "modalities" / "D_2byte_gpt2.pbin", path, to_format=to_format, eos=50256, select="0:9")
    with open(path, "r+b") as file:
        file.truncate(size)
    (report,) = tokfmt.check(path)
    assert report.format == to_format
    assert "TF911" in {finding.code for finding in report.findings}
    with pytest.raises(CorruptError, match=r"\.tokfmt\.json"):
        tokfmt.info(path)
    path.unlink()
    with pytest.raises(FormatError, match="no such file"):
        tokfmt.info(path)
