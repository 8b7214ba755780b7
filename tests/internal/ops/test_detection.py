"""Every fixture of every format has exactly one winner, and the corpus of fixtures is here."""

import hashlib
import json
import os

import numpy as np
import pytest
from click.testing import CliRunner
from paths import FIXTURES, golden

import tokfmt
from tokfmt import registry
from tokfmt.cli.main import cli
from tokfmt.core.errors import OptionError, TokfmtError, UnknownFormatError
from tokfmt.core.format import look
from tokfmt.ops.source.request import SourceRequest
from tokfmt.tui.session import open_session

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
    for home in ("olmo", "datatrove", "litdata", "mds", "levanter")
    for case in json.loads((FIXTURES / home / "expected.json").read_text())["cases"]
    if "entry" in case and case["name"] not in ("real_numpy", "merged_total_metadata")
]
TRAPS = {case["entry"]: case for case in json.loads((FIXTURES / "traps" / "expected.json").read_text())["cases"]}


@pytest.mark.parametrize(("path", "name"), CASES, ids=lambda v: v if isinstance(v, str) else v.name)
def test_one_winner(path, name):
    claims = registry.candidates(look(path))
    assert registry.detect(path).name == name
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
    assert registry.detect(path).name == case["detect"]
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
        assert registry.detect(tmp_path / name).name == "modalities"


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("x", b"", "is an empty file"),
        ("x.bin", b"", "is an empty file"),
        ("x.log", b"some words\nand more\n", "is plain text, .* --from text .* jq -cR"),
        ("x.bin", bytes(range(256)) * 3, "is a .bin without a known header"),
        ("x.idx", b"\x80\x04]\x94.", "is the index of a text file"),
        ("x.npy", b"\x93NUMPY\x01\x00v\x00{'descr': '<u2'}", r"is a numpy array \(.npy\)"),
        ("x.csv", b"a,b\n1,2\n", r"is a table \(CSV\)"),
    ],
)
def test_unrecognized_files(tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UnknownFormatError, match=rf"{name}: {says}"):
        registry.detect(tmp_path / name)


def test_unrecognized_directories(tmp_path):
    with pytest.raises(UnknownFormatError, match="an empty directory"):
        registry.detect(tmp_path)
    (tmp_path / "notes.log").touch()
    with pytest.raises(UnknownFormatError, match="a directory that no format recognizes"):
        registry.detect(tmp_path)


@pytest.mark.parametrize(
    ("name", "format_"),
    [("a.jsonl", "jsonl"), ("a.pbin", "modalities"), ("a.h5", "hdf5"), ("a.zarr", "flat-tokens"), ("a.zarr/", "flat-tokens"),
     ("stage1_block_0007.bin", "stage1")],
)  # fmt: skip
def test_destinations_by_name(name, format_):
    assert registry.for_destination(name).name == format_


def disputed(path):
    """What formats say that were not asked, if any of them claims the file."""
    probe, asked = look(path), registry.candidates(look(path))
    every = {format_.name: format_.sniff(probe) for format_ in registry.list_formats()}
    return {name: sure for name, sure in every.items() if sure is not None and asked.get(name) != sure}


def test_signatures_exclude_no_format_that_claims_a_file(tmp_path):
    """All fixtures, also under the names of all formats."""
    files = [path for path in FIXTURES.rglob("*") if path.is_file()]
    assert {str(path): claims for path in files if (claims := disputed(path))} == {}
    patterns = [pattern for format_ in registry.list_formats() for pattern in format_.extensions]
    names = [pattern.replace("*", "x_000001") if "." in pattern[1:] else f"x{pattern}" for pattern in patterns]
    examples = {name: path for path, name in CASES if path.is_file()}
    for name in (*names, "x.bin", "x_val_000000.npy", "x.idx", "x.toml", "x"):
        path = tmp_path / name
        for file in examples.values():
            path.write_bytes(file.read_bytes())
            assert disputed(path) == {}, (file, name)
            path.unlink()


def test_a_format_is_asked_for_the_names_that_it_writes():
    for format_ in registry.list_formats():
        for pattern in format_.extensions:
            name = pattern.replace("*", "x") if "." in pattern[1:] else f"x{pattern}"
            assert format_ in registry.list_formats(lambda signature, name=name: signature.is_named(name))


def test_destinations_without_a_meaning():
    says = r"cannot tell the format of 'out\.bin' from its name\. Use --to NAME, .*; litdata and mds have no such name"
    with pytest.raises(OptionError, match=says):
        registry.for_destination("some/out.bin")
    with pytest.raises(OptionError, match=r"no format 'modalites' .*Did you mean modalities\?"):
        registry.get("modalites")


def test_goldens_of_others():
    for name in ("wild_repo_C_lorem_ipsum.pbin", "wild_repo_D_lorem_ipsum.pbin"):
        assert registry.detect(golden("modalities", name)).name == "modalities"


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
            assert registry.detect(home).name == format_
            assert look(home).entries == tuple(sorted(order))
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
        registry.candidates(look(path))


PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"
TEXT = FIXTURES / "text" / "corpus.jsonl"
TOKENIZER = str(FIXTURES / "tokenizer")
ONCE = {
    "open": lambda home: tokfmt.open(PACK).close(),
    "convert": lambda home: tokfmt.convert([PACK, TEXT], home / "o.zarr", tokenizer=TOKENIZER, eos=50256),
    "verify": lambda home: tokfmt.convert(TEXT, home / "o.jsonl", verify=True),
    "stats": lambda home: tokfmt.stats([PACK, TEXT], tokenizer=TOKENIZER),
    "diff": lambda home: tokfmt.diff(PACK, TEXT, tokenizer=TOKENIZER),
    "check": lambda home: list(tokfmt.check(PACK, deep=True, against=TEXT, tokenizer=TOKENIZER)),
    "show": lambda home: tokfmt.show(PACK, "0"),
    "show text": lambda home: CliRunner().invoke(cli, ["show", str(TEXT), "text:the"]),
    "samples": lambda home: CliRunner().invoke(cli, ["show", str(FIXTURES / "hdf5" / "padded_eos"), "--samples"]),
    "mix": lambda home: CliRunner().invoke(cli, ["show", mix(home), "0"]),
    "browse": lambda home: open_session(SourceRequest((str(PACK),))),
}


def mix(home):
    """A recipe of a pack."""
    (home / "mix.toml").write_text(f'tokfmt = 1\nseq_len = 64\n[[source]]\nname = "a"\npath = "{PACK}"\neos = 50256\n')
    return str(home / "mix.toml")


@pytest.mark.parametrize("command", ONCE)
def test_the_format_of_a_path_is_detected_once(command, tmp_path, monkeypatch):
    """Each time all formats would look at the file."""
    seen, asked = [], registry.candidates
    monkeypatch.setattr(registry, "candidates", lambda probe: seen.append(probe.path) or asked(probe))
    ONCE[command](tmp_path)
    assert seen
    assert command != "mix" or PACK in seen
    assert sorted(seen) == sorted(set(seen))
