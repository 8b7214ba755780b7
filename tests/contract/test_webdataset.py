"""webdataset under the laws of every format; the oracle is tarfile, gzip and json."""

import gzip
import io
import json
import tarfile

import numpy as np
import pytest
from amount import NIGHTLY

import tokfmt
from tokfmt.errors import TokfmtError
from tokfmt.formats.webdataset import FORMAT
from tokfmt.testing import FormatContract


class TestFolder(FormatContract):
    format = FORMAT
    filename = "rows"
    eos_id = None
    max_id = 2**32 - 1
    sharded = {"shard_size": 1}
    write_variants = ({"shard_size": 7}, {"shard_size": 1 << 20})
    long_options = {"shard_size": 1 << 16}
    accounted = True
    flipped = 64 if NIGHTLY else 24  # of each of many files
    sparse_tokens, peak_bytes = 1 << 19, 7 << 20  # JSON is slow where memory is traced

    def oracle(self, path, options):
        lines = [json.loads(line) for line in (path / "manifest.jsonl").read_text().splitlines()]
        assert {f"{line['shard']}.tar" for line in lines} == {file.name for file in path.glob("*.tar")}
        found = []
        for line in lines:
            with tarfile.open(path / f"{line['shard']}.tar", "r:") as archive:
                members = archive.getmembers()
                assert len(members) == line["num_sequences"]
                assert len({member.name for member in members}) == len(members)
                found += [json.loads(gzip.decompress(archive.extractfile(member).read())) for member in members]
        return found


def packed(path, members, **how):
    """A tar of Python's, with a name and the content of each member."""
    with tarfile.open(path, "w", **how) as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def array(ids, dtype="<u2"):
    out = io.BytesIO()
    np.save(out, np.array(ids, dtype))
    return out.getvalue()


@pytest.mark.parametrize("format_", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz"])
def test_tars_of_every_kind(tmp_path, format_, name):
    """Long names, folders, and a gzip around all."""
    rows = [[1, 2, 3], [], [70_000]]
    long = "a/" * 40 + "b" * 90
    members = [(f"{long}{k}.v1.json", json.dumps(row).encode()) for k, row in enumerate(rows)]
    path = packed(tmp_path / "x.tar", members, format=format_)
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(path.read_bytes()))
        path = path.rename(tmp_path / name)
    with tokfmt.open(path, format="webdataset", options={"member": "v1.json"}) as dataset:
        assert dataset[:].tolist() == rows


def test_objects_of_ids_alone(tmp_path):
    members = [(f"{k}.json", json.dumps({"input_ids": [k, 7]}).encode()) for k in range(2)]
    with tokfmt.open(packed(tmp_path / "x.tar", members)) as dataset:
        assert (dataset.format, dataset[:].tolist()) == ("webdataset", [[0, 7], [1, 7]])
    packed(tmp_path / "x.tar", [*members, ("2.json", b'{"input_ids": [1], "labels": [-100]}')])
    with pytest.raises(TokfmtError, match="is not a list of IDs"):
        tokfmt.open(tmp_path / "x.tar")[:]


def test_members_of_a_sample(tmp_path):
    members = [
        ("1.input_ids.npy", array([1, 2])),
        ("1.cls", b"7"),
        ("2.cls", b"8"),
        ("2.input_ids.npy", array([3], ">i8")),
    ]
    path = packed(tmp_path / "x.tar", members)
    with tokfmt.open(path) as dataset:
        assert (dataset.format, dataset[:].tolist()) == ("webdataset", [[1, 2], [3]])
        assert "other members of samples are not read: cls" in dataset.info.notes
    with pytest.raises(TokfmtError, match="has no member of IDs: expected npy, found input_ids.npy, cls"):
        tokfmt.open(path, options={"member": "npy"})
    packed(path, [*members, ("3.cls", b"9")])
    with pytest.raises(TokfmtError, match="is of a sample without a member .input_ids.npy"):
        tokfmt.open(path)[:]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"[1, 2.5]", "item 1.*found 2.5"), (b"[true]", "item 0.*found true"), (b"[1, -1]", "item 1.*found -1"),
        (b'["a"]', 'item 0.*found "a"'), (b"[4294967296]", "found 4294967296"), (b"{}", "is not a list of IDs"),
        (b"[1", "is not a list of IDs"), (b"[1] [2]", "is not a list of IDs"), (b"[" * 9999, "is not a list of IDs"),
        (b"[__import__('os')]", "is not a list of IDs"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["json", "txt"])
def test_what_is_not_a_list_of_ids(tmp_path, text, words, kind):
    path = packed(tmp_path / "x.tar", [("0." + kind, text)])
    with pytest.raises(TokfmtError, match=words):
        tokfmt.open(path, format="webdataset")[:]


def test_rows_of_a_recipe(tmp_path):
    source, out = tmp_path / "x.jsonl", tmp_path / "rows"
    source.write_text("".join(f'{{"input_ids": [{k}, {k + 1}, {k + 2}]}}\n' for k in range(1, 30)))
    (tmp_path / "x.toml").write_text(
        'tokfmt = 1\nseq_len = 8\nto_eos = 0\nlabels = "same"\n[[source]]\npath = "x.jsonl"\n'
    )
    with tokfmt.open(tmp_path / "x.toml") as mixed:
        expected = [one["input_ids"].tolist() for one in mixed]
    tokfmt.convert(tmp_path / "x.toml", out, to_format="webdataset")
    assert TestFolder().oracle(out, {}) == expected
    with tokfmt.open(out) as dataset:
        assert dataset[:].tolist() == expected
    assert not tokfmt.check(out, deep=True)[0].findings


@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz"])
def test_archives_without_a_sample_are_read(name, tmp_path):
    """A writer that got no row closes an archive that Python's tarfile wrote; of others, the first sample counts."""
    one = tmp_path / name
    tarfile.open(one, "w:gz" if name.endswith("gz") else "w").close()
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / f"0.{name[2:]}").write_bytes(one.read_bytes())
    for path in (one, tmp_path / "d"):
        assert (tokfmt.info(path).format, tokfmt.info(path).sequences) == ("webdataset", 0)
        assert [one.code for one in tokfmt.check(path)[0].findings] == ["TF941"]
    packed(tmp_path / "d" / "1.tar", [("a.json", b"[1, 2, 3]"), ("b.json", b"[4]")])
    tokfmt.convert(tmp_path / "d", tmp_path / "o.jsonl")
    lines = (tmp_path / "o.jsonl").read_text().splitlines()
    assert [json.loads(line)["input_ids"] for line in lines] == [[1, 2, 3], [4]]
    zeros = tmp_path / "sparse.tar"
    zeros.write_bytes(bytes(4096))
    with pytest.raises(TokfmtError, match="zeros"):
        tokfmt.info(zeros)
