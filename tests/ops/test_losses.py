"""A law of `--allow-loss`: each word reports what it leaves out, in the result, in `--json` and in the manifest.

A case is a small damaged input of one format, written with other code, and the facts that the loss has to name: the
file, a number and a byte offset, as far as the loss is one of bytes in a file.
"""

import gzip
import json
import struct
from dataclasses import dataclass, field
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from paths import CORPUS, FIXTURES, TOKENIZER

import tokfmt
from tokfmt.cli.main import cli
from tokfmt.core.losses import LOSSES

EOS = 9


@dataclass
class Case:
    """A conversion that loses something.

    Attributes:
        sources: The names of the sources that `build` wrote.
        facts: Words that the loss has to contain.
        to: The name of the destination.
        words: Further words of the command line.
    """

    sources: list[str]
    facts: list[str]
    to: str = "out.jsonl"
    words: list[str] = field(default_factory=lambda: ["--eos", str(EOS)])


CASES = {}


def case(word, name):
    """Register a builder: given a directory, it writes the input and returns the `Case`."""

    def registered(build):
        CASES[word, name] = build
        return build

    return registered


def ids(*values):
    return np.array(values, "<u2").tobytes()


# What ends too early or too late


@case("tail", "nanogpt, an odd byte")
def _(home):
    (home / "train.bin").write_bytes(ids(1, 2, EOS, 3, 4, EOS) + b"\7")
    return Case(["train.bin"], ["train.bin", "1 byte", "byte 12 "])


@case("tail", "nanogpt, zeros")
def _(home):
    (home / "train.bin").write_bytes(ids(*[1, 2, EOS] * 200) + bytes(200))
    return Case(["train.bin"], ["train.bin", "100 zeros", "byte 1,200 "])


@case("tail", "nanogpt in a recipe")
def _(home):
    (home / "train.bin").write_bytes(ids(1, 2, EOS, 3, 4, EOS) + b"\7")
    (home / "mix.toml").write_text(f'tokfmt = 1\nto_eos = {EOS}\n[[source]]\npath = "train.bin"\n')
    return Case(["mix.toml"], ["train.bin", "1 byte", "byte 12 "], words=[])


def llmc(path, tokens, stated):
    head = np.zeros(256, "<i4")
    head[:3] = 20240520, 1, stated
    path.write_bytes(head.tobytes() + ids(*tokens))


@case("tail", "llmc, longer")
def _(home):
    llmc(home / "x_train_000001.bin", [50256, 1, 2, 50256, 3], 3)
    return Case(["x_train_000001.bin"], ["x_train_000001.bin", "4 bytes", "byte 1,030 "], words=[])


@case("tail", "llmc, shorter")
def _(home):
    llmc(home / "x_train_000001.bin", [50256, 1, 2, 50256, 3], 7)
    return Case(["x_train_000001.bin"], ["x_train_000001.bin", "4 bytes", "byte 1,034 "], words=[])


def megatron(prefix, lengths, tokens, modes=b""):
    lengths = np.array(lengths, "<i4")
    pointers = (2 * (np.cumsum(lengths) - lengths)).astype("<i8")
    head = struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, 8, len(lengths), len(lengths) + 1)
    columns = lengths.tobytes() + pointers.tobytes() + np.arange(len(lengths) + 1, dtype="<i8").tobytes()
    Path(f"{prefix}.idx").write_bytes(head + columns + modes)
    Path(f"{prefix}.bin").write_bytes(ids(*tokens))


@case("tail", "megatron")
def _(home):
    megatron(home / "x_document", [3, 3], [1, 2, EOS, 3, 4, EOS, 5])
    return Case(["x_document.bin"], ["x_document.bin", "2 bytes", "byte 12 "])


@case("modes", "megatron")
def _(home):
    megatron(home / "x_document", [3, 3], [1, 2, EOS, 3, 4, EOS], bytes(2))
    return Case(["x_document.bin"], ["x_document.idx", "2 sequences", "byte 82 "])


@case("tail", "datatrove, with an index")
def _(home):
    (home / "x.ds").write_bytes(ids(1, 2, EOS, 3))
    (home / "x.ds.index").write_bytes(np.array([3], "<u8").tobytes())
    (home / "x.ds.metadata").write_text("gpt2|2\n3\n3 T")
    return Case(["x.ds"], ["x.ds", "2 bytes", "byte 6 "])


@case("tail", "datatrove, without an index")
def _(home):
    (home / "x.ds").write_bytes(ids(1, 2, EOS) + b"\7")
    return Case(["x.ds"], ["x.ds", "1 byte", "byte 6 "], words=["--eos", str(EOS), "--from-opt", "width=2"])


def olmo(path, tokens, *rows):
    path.write_bytes(ids(*tokens))
    lines = "".join(f"{a},{b},id,src,0\n" for a, b in rows)
    path.with_suffix(".csv.gz").write_bytes(gzip.compress(lines.encode()))


@case("tail", "olmo, zeros after the last row")
def _(home):
    olmo(home / "part-0.npy", [1, 2, EOS, 3, EOS, 0, 0], (0, 3), (3, 5))
    return Case(["part-0.npy"], ["part-0.npy", "4 bytes", "byte 10 "], words=["--eos", "9", "--from-opt", "width=2"])


@case("gaps", "olmo, between rows")
def _(home):
    olmo(home / "part-0.npy", [1, 2, EOS, 7, 7, 3, EOS], (0, 3), (5, 7))
    return Case(["part-0.npy"], ["part-0", "2 tokens", "byte 6 "])


@case("gaps", "olmo, after the last row")
def _(home):
    olmo(home / "part-0.npy", [1, 2, EOS, 3, EOS, 7], (0, 3), (3, 5))
    return Case(["part-0.npy"], ["part-0.npy", "2 bytes", "byte 10 "], words=["--eos", "9", "--from-opt", "width=2"])


@case("tail", "stage1, inside a token")
def _(home):
    tokens = np.tile(np.array([1, 2, 50256], "<i4"), 8192)
    (home / "stage1_block_0.bin").write_bytes(tokens.tobytes() + b"\7\0\0")
    return Case(["stage1_block_0.bin"], ["stage1_block_0.bin", "3 bytes", "byte 98,304 "], words=[])


@case("tail", "stage1, a partial sample")
def _(home):
    (home / "stage1_block_0.bin").write_bytes(np.tile(np.array([1, 2, 50256], "<i4"), 3).tobytes())
    words = ["--from-opt", "view=samples", "--from-opt", "seq_len=4"]
    return Case(["stage1_block_0.bin"], ["stage1_block_0.bin", "1 token", "byte 36"], words=words)


@case("tail", "modalities, a stream")
def _(home):
    (home / "x.pbin").write_bytes(np.array([1, 2, EOS, 3, EOS], ">u4").tobytes() + b"\7\7")
    return Case(["x.pbin"], ["x.pbin", "2 bytes", "byte 20 "], words=["--eos", "9", "--from-opt", "layout=P0"])


def arrow(path, kind, cut):
    schema = pa.schema({"input_ids": pa.list_(pa.int32())})
    with kind(path, schema) as out:
        for rows in ([[1, 2], [3]], [[4], [5], [6, 7, 8]]):
            out.write_batch(pa.record_batch([pa.array(rows, schema.field(0).type)], schema))
    path.write_bytes(path.read_bytes()[:-cut])


@case("tail", "arrow, a cut stream in the middle of a dataset")
def _(home):
    arrow(home / "data-00000-of-00002.arrow", pa.ipc.new_stream, 20)
    arrow(home / "data-00001-of-00002.arrow", pa.ipc.new_stream, 8)
    with pa.OSFile(str(home / "data-00001-of-00002.arrow"), "ab") as out:
        out.write(b"\xff\xff\xff\xff\0\0\0\0")
    names = [{"filename": f"data-0000{k}-of-00002.arrow"} for k in range(2)]
    (home / "state.json").write_text(json.dumps({"_data_files": names}))
    return Case(["."], ["data-00000-of-00002.arrow", "3 rows", "byte ", " bytes"])


@case("tail", "arrow, a file without its footer")
def _(home):
    arrow(home / "x.arrow", pa.ipc.new_file, 10)
    return Case(["x.arrow"], ["x.arrow", "bytes", "byte "], words=[])


# What rows and records lack


@case("null-rows", "parquet, IDs")
def _(home):
    pq.write_table(pa.table({"input_ids": [[1], None, [2], None]}), home / "x.parquet")
    return Case(["x.parquet"], ["x.parquet", "2 rows", "byte 4"], words=[])


@case("null-rows", "parquet, text")
def _(home):
    pq.write_table(pa.table({"text": ["a", None, "b"]}), home / "x.parquet")
    return Case(["x.parquet"], ["x.parquet", "1 row", "byte 4"], words=[])


@case("null-rows", "arrow")
def _(home):
    table = pa.table({"input_ids": pa.array([[1], None], pa.list_(pa.int32()))})
    with pa.ipc.new_stream(home / "x.arrow", table.schema) as out:
        out.write_table(table)
    return Case(["x.arrow"], ["x.arrow", "1 row", "byte "], words=[])


@case("invalid-lines", "jsonl, to tokens")
def _(home):
    (home / "x.jsonl").write_text('{"input_ids": [1]}\n{"input_ids": [2,\n{"input_ids": [3]}\n')
    return Case(["x.jsonl"], ["x.jsonl", "1 invalid line", "line 2", "byte "], "out.pbin")


@case("invalid-lines", "jsonl, copied")
def _(home):
    (home / "x.jsonl").write_text('{"text": "a"}\n{"text": \n{"text": "c"}\n')
    return Case(["x.jsonl"], ["x.jsonl", "1 invalid line", "line 2", "byte "], words=[])


@case("fields", "jsonl")
def _(home):
    (home / "x.jsonl").write_text('{"input_ids": [1]}\n{"input_ids": [2], "z": 1}\n')
    return Case(["x.jsonl"], ["x.jsonl", "1 record", "line 2", "byte 19"], "out.pbin")


@case("invalid-utf8", "IDs that are no text")
def _(home):
    corpus = [json.loads(line)["text"] for line in CORPUS.read_text("utf-8").splitlines()[:3]]
    (home / "t.jsonl").write_text("".join(json.dumps({"text": one}) + "\n" for one in corpus))
    tokfmt.convert(home / "t.jsonl", home / "t.ids.jsonl", tokenizer=str(TOKENIZER))
    rows = [json.loads(line)["input_ids"] for line in (home / "t.ids.jsonl").read_text().splitlines()]
    vocabulary = json.loads((TOKENIZER / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]
    rows[1].append(vocabulary["\u00c3"])  # The byte C3 alone, in the alphabet of byte-level vocabularies.
    (home / "x.jsonl").write_text("".join(json.dumps({"input_ids": row}) + "\n" for row in rows))
    words = ["--tokenizer", str(TOKENIZER)]
    return Case(["x.jsonl"], ["1 sequence", "sequence 1"], "out.jsonl", words)


# What a source has beside its tokens


@case("order", "hdf5")
def _(home):
    return Case([str(FIXTURES / "hdf5" / "shuffled")], ["shuffled", "sample"], "out.pbin", ["--eos", "50256"])


@case("splits", "nanogpt")
def _(home):
    for name in ("train", "val"):
        (home / f"{name}.bin").write_bytes(ids(1, 2, EOS))
    return Case(["."], ["val"], words=["--from", "nanogpt", "--eos", "9"])


@case("other-files", "nanogpt")
def _(home):
    (home / "train.bin").write_bytes(ids(1, 2, EOS))
    (home / "more.bin.bak").write_bytes(b"x")
    return Case(["."], ["more.bin.bak"], words=["--from", "nanogpt", "--eos", "9"])


@case("tokenizers", "two tokenizers")
def _(home):
    for name in ("a", "b"):
        tokfmt.convert(CORPUS, home / f"{name}.pbin", tokenizer=str(TOKENIZER), select="0:5")
    path = home / "b.pbin.tokfmt.json"
    content = json.loads(path.read_text())
    content["tokenizer"]["digest"] = "xxh3:" + "0" * 32
    path.write_text(json.dumps(content))
    return Case(["a.pbin", "b.pbin"], ["2 tokenizers", "xxh3:000"], "out.ds", [])


def datatrove(home, documents, masks):
    (home / "x.ds").write_bytes(ids(*(token for one in documents for token in one)))
    (home / "x.ds.index").write_bytes(np.cumsum([len(one) for one in documents], dtype="<u8").tobytes())
    (home / "x.ds.metadata").write_text("gpt2|2\n0\n0 T")
    (home / "x.ds.loss").write_bytes(bytes(flag for one in masks for flag in one))
    total = sum(map(len, documents))
    (home / "x.ds.metadata").write_text(f"gpt2|2\n{total}\n{total} T")
    return ["x.ds"]


MASKED = [[1, 2, EOS], [3, EOS]], [[1, 0, 1], [1, 0]]


@case("loss-mask", "datatrove")
def _(home):
    return Case(datatrove(home, *MASKED), ["1 file"], "out.pbin")


@case("loss-mask", "datatrove in a recipe")
def _(home):
    datatrove(home, *MASKED)
    (home / "mix.toml").write_text(f'tokfmt = 1\nto_eos = {EOS}\n[[source]]\npath = "x.ds"\n')
    return Case(["mix.toml"], ["x.ds", "1 file"], words=[])


@case("masked-separators", "datatrove")
def _(home):
    words = ["--eos", str(EOS), "--to-opt", "pack_size=9"]
    return Case(datatrove(home, *MASKED), ["1 sequence", "sequence 1"], "out.parquet", words)


@case("last-labels", "hdf5")
def _(home):
    rows = np.arange(1, 13).reshape(3, 4)
    with h5py.File(home / "x.h5", "w") as file:
        file.attrs["n_examples"] = 3
        file["data"] = np.stack([rows, np.ones_like(rows), rows + 1], axis=1).astype("<i4")
    words = ["--eos", "99", "--from-opt", "view=samples", "--from-opt", "mask=loss"]
    return Case(["x.h5"], ["3 samples", "sample 0"], "out.ds", words)


@case("inner-boundaries", "megatron, sentences")
def _(home):
    megatron(home / "x_sentence", [2, 2, 1], [1, 2, 3, EOS, EOS])
    raw = bytearray((home / "x_sentence.idx").read_bytes())
    raw[26:34] = (3).to_bytes(8, "little")
    (home / "x_sentence.idx").write_bytes(raw[:70] + np.array([0, 2, 3], "<i8").tobytes())
    return Case(["x_sentence.bin"], ["x_sentence.idx", "3 sequences", "2 documents", "byte 70 "])


# What a destination cannot store


@case("empty-sequences", "to stage1")
def _(home):
    (home / "x.jsonl").write_text('{"input_ids": [1]}\n{"input_ids": []}\n')
    return Case(["x.jsonl"], ["1 empty sequence", "sequence 1"], "stage1_block_0.bin")


@case("embedded-separators", "to nanogpt")
def _(home):
    (home / "x.jsonl").write_text('{"input_ids": [1]}\n{"input_ids": [2, 9, 3]}\n')
    return Case(["x.jsonl"], ["1 separator", "sequence 1", "position 2"], "train_out/train.bin")


@case("leads", "to stage1")
def _(home):
    (home / "x.jsonl").write_text('{"input_ids": [5, 1]}\n{"input_ids": [5, 2]}\n')
    return Case(["x.jsonl"], ["lead 5"], "stage1_block_0.bin", ["--eos", "9", "--bos", "5"])


@pytest.mark.parametrize(("word", "name"), CASES)
def test_a_loss_is_reported_in_the_result_in_json_and_in_the_manifest(word, name, tmp_path, monkeypatch):
    home = tmp_path / "source"
    home.mkdir()
    monkeypatch.chdir(home)
    made = CASES[word, name](home)
    target = tmp_path / made.to
    target.parent.mkdir(exist_ok=True)
    command = ["convert", *made.sources, str(target), *made.words]
    refused = CliRunner().invoke(cli, command)
    assert refused.exit_code != 0
    assert word in f"{refused.exception} {getattr(refused.exception, '__notes__', '')}"
    done = CliRunner().invoke(cli, [*command, "--allow-loss", word, "--json"])
    assert done.exit_code == 0, (done.exception, done.stderr)
    lost = json.loads(done.stdout)["losses"]
    assert word in lost
    assert not [fact for fact in made.facts if fact not in lost[word]], lost[word]
    (manifest,) = [path for path in target.parent.glob("*.tokfmt.json") if path.parent != home]
    assert json.loads(manifest.read_text())["losses"] == lost
    printed = CliRunner().invoke(cli, [*command, "--allow-loss", word, "--overwrite"])
    assert f"lost {word}: {lost[word]}" in f"{printed.stdout}{printed.stderr}"
    assert not [line for line in printed.stderr.splitlines() if line.startswith("note") and lost[word] in line]


def test_every_word_has_a_case():
    assert {word for word, _ in CASES} == set(LOSSES)


def test_every_word_is_explained():
    for word, text in LOSSES.items():
        done = CliRunner().invoke(cli, ["check", "--explain", word])
        title, _, rest = text.partition(". ")
        assert " ".join(done.stdout.split()) == f"{word} (--allow-loss): {title} {rest}"


@pytest.mark.parametrize("name", ["nanogpt, an odd byte", "llmc, longer", "megatron", "olmo, zeros after the last row"])
def test_other_commands_report_it_as_a_note(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = CASES["tail", name](tmp_path)
    for command in (["info"], ["stats"], ["show", "--limit", "1"]):
        words = [*command[:1], *made.sources, *command[1:], *made.words, "--allow-loss", "tail"]
        done = CliRunner().invoke(cli, words)
        assert done.exit_code == 0, done.exception
        assert all(fact in f"{done.stdout}{done.stderr}" for fact in made.facts), done.stdout


def test_many_files_of_one_loss_are_listed_in_part(tmp_path):
    for k in range(40):
        (tmp_path / f"x_train_{k:06d}.bin").write_bytes(b"")
        llmc(tmp_path / f"x_train_{k:06d}.bin", [50256, 1, 2], 2)
    done = tokfmt.convert(tmp_path, tmp_path.with_name("out.jsonl"), format="llmc", allow_loss="tail")
    assert "x_train_000000.bin" in done.losses["tail"]
    assert "24 more" in done.losses["tail"]
