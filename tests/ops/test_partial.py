"""`--allow-partial`: what is whole of a damaged dataset is saved, and nothing else; what is lost is reported."""

from __future__ import annotations

import gzip
import json
import random
import shutil
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pytest
from caches import cache
from commands import run
from finishing import finish
from pyarrow import parquet

import tokfmt
from tokfmt.errors import FormatError

EOS = 7
LISTS = [[100 + i] * (i % 5 + 1) + [i] for i in range(20, 60)]
TOKENS = sum(map(len, LISTS))


def made(path: Path, lists: list[list[int]] | None = None, **how: object) -> Path:
    """A dataset of some format without a manifest, which would tell how much there was."""
    source = path.parent / f"{path.name}.source.jsonl"
    source.write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in (LISTS if lists is None else lists)))
    tokfmt.convert(source, path, eos=EOS, manifest=False, **how)
    source.unlink()
    return path


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def saved(path: Path, out: Path, **how: object) -> list[list[int]]:
    """What a conversion saves, read back."""
    tokfmt.convert(path, out, allow_partial=True, verify=True, **{"eos": EOS, **how})
    with tokfmt.open(out) as dataset:
        return [one.tolist() for one in dataset]


def test_cut_tokens_with_the_index_whole(tmp_path):
    """Every sequence before the cut is saved, no other; counts are in the result, the manifest and the notes."""
    path = made(tmp_path / "x_document.bin")
    width, whole = 2, sum(len(ids) + 1 for ids in LISTS[:11])
    for spare in (0, 1, 2, 2 * (len(LISTS[11]) + 1) - 1):
        data = path.read_bytes()
        cut(path, whole * width + spare)
        with pytest.raises(FormatError, match="--allow-partial saves the complete sequences"):
            tokfmt.convert(path, tmp_path / "refused.pbin", eos=EOS)
        out = tmp_path / f"o{spare}.pbin"
        assert saved(path, out) == LISTS[:11]
        (told,) = json.loads((tmp_path / f"{out.name}.tokfmt.json").read_text())["partial"]
        kept = sum(map(len, LISTS[:11]))
        assert (told["sequences"], told["tokens"]) == (11, kept)
        assert (told["lost_sequences"], told["lost_tokens"]) == (len(LISTS) - 11, TOKENS - kept)
        assert told["lost_between"] == [11, len(LISTS) - 1]
        (report,) = tokfmt.check(path)
        (short,) = [finding for finding in report.findings if finding.code == "TF604"]
        assert short.offset == whole * width
        assert f"11 to {len(LISTS) - 1}" in short.message
        assert [finding for verdict in tokfmt.check(out, deep=True) for finding in verdict.findings] == []
        with tokfmt.open(out) as dataset:
            assert any("partial, by its manifest" in note for note in dataset.notes)
        path.write_bytes(data)


def test_open_reads_complete_sequences(tmp_path):
    """`tokfmt.open` with `allow_partial` gives the same sequences, and a note."""
    path = made(tmp_path / "x_document.bin")
    cut(path, path.stat().st_size - 1)
    with pytest.raises(FormatError):
        tokfmt.open(path, eos=EOS)
    for read in (tokfmt.info, tokfmt.show):
        with pytest.raises(FormatError, match="tokfmt convert .*--allow-partial saves"):
            read(path)
    with tokfmt.open(path, eos=EOS, allow_partial=True) as dataset:
        assert [one.tolist() for one in dataset] == LISTS[:-1]
        assert any(note.startswith("partial: 39 of 40 sequences are saved") for note in dataset.notes)


def test_nothing_certain_is_refused(tmp_path):
    """A file of which no sequence is whole is refused, and nothing is written."""
    path = made(tmp_path / "x_document.bin", [[1, 2, 3, 4]])
    cut(path, 4)
    with pytest.raises(FormatError, match="no sequence of it is certain to be complete"):
        tokfmt.convert(path, tmp_path / "o.pbin", eos=EOS, allow_partial=True)
    assert not (tmp_path / "o.pbin").exists()


def test_manifest_shows_a_cut_that_the_file_does_not(tmp_path):
    """Raw IDs cut between two tokens: only the last sequence, which has no separator, is left out."""
    path = tmp_path / "train.bin"
    made(tmp_path / "train.bin.jsonl")
    tokfmt.convert(tmp_path / "train.bin.jsonl", path, eos=EOS)
    cut(path, 2 * sum(len(ids) + 1 for ids in LISTS[:9]) + 4)
    with pytest.raises(FormatError, match="manifest"):
        tokfmt.convert(path, tmp_path / "refused.pbin")
    done = tokfmt.convert(path, tmp_path / "o.pbin", allow_partial=True)
    assert (done.sequences, done.partial[0]["lost_sequences"]) == (9, len(LISTS) - 9)


def test_a_whole_source_is_read_as_ever(tmp_path):
    """The option changes nothing of a dataset without damage."""
    path = made(tmp_path / "x_document.bin")
    done = tokfmt.convert(path, tmp_path / "o.pbin", eos=EOS, allow_partial=True)
    assert (done.sequences, done.partial) == (len(LISTS), [])
    assert "partial" not in json.loads((tmp_path / "o.pbin.tokfmt.json").read_text())


CUT_INDEXES = [
    ("x_document.bin", "x_document.idx"),
    ("x.ds", "x.ds.index"),
    ("x.pbin", "x.pbin"),
    ("c.npy", "c.csv.gz"),
]


@pytest.mark.parametrize(("name", "index"), CUT_INDEXES)
def test_sequences_of_complete_index_entries_are_saved(name, index, tmp_path):
    """With 30 bytes of its index gone, most sequences are saved, in order from the first."""
    path = made(tmp_path / name, to_format="olmo" if name == "c.npy" else None)
    target = tmp_path / index
    cut(target, target.stat().st_size - 30)
    with tokfmt.open(path, eos=EOS, allow_partial=True, format="olmo" if name == "c.npy" else None) as dataset:
        found = [one.tolist() for one in dataset]
    assert len(found) > len(LISTS) // 2
    assert found == LISTS[: len(found)]


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_lines_that_are_complete_are_saved(suffix, tmp_path):
    """Of cut lines the last is left out unless it is a whole object; of cut compressed ones all that were decoded."""
    path = tmp_path / f"x{suffix}"
    rng = random.Random(3)
    texts = ["".join(rng.choices("abcdefgh \u00fc", k=rng.randrange(1, 400))) for _ in range(300)]
    text = "".join(json.dumps({"text": one}, ensure_ascii=False) + "\n" for one in texts).encode()
    content = gzip.compress(text, mtime=0) if suffix.endswith(".gz") else text
    for size in (len(content) // 2, len(content) - 1, len(text.splitlines(keepends=True)[0]) - 1):
        path.write_bytes(content[:size])
        out = tmp_path / f"o{size}.jsonl"
        if suffix.endswith(".gz") and size < 400:
            with pytest.raises(FormatError, match="no record of it is certain"):
                tokfmt.convert(path, out, allow_partial=True)
            continue
        done = tokfmt.convert(path, out, allow_partial=True, verify=True)
        found = [json.loads(line)["text"] for line in out.read_text("utf-8").splitlines()]
        assert found == texts[: len(found)]
        assert done.sequences == len(found) > 0
        assert size < len(content) - 1 or len(found) == len(texts)


def test_a_lost_shard_leaves_the_others(tmp_path):
    """Shards with an index of their own are saved without the lost one; a stream ends before it, and is never joined."""
    home = made(tmp_path / "indexed", to_format="litdata", to_options={"shard_size": 30})
    (home / "chunk-0-1.bin").unlink()
    found = saved(home, tmp_path / "a.pbin")
    lost = [one for one in LISTS if one not in found]
    assert len(found) + len(lost) == len(LISTS)
    at = LISTS.index(lost[0])
    assert LISTS[at : at + len(lost)] == lost
    stream = made(tmp_path / "stream", to_format="llmc", to_options={"shard_size": 30})
    (stream / "stream_train_000003.bin").unlink()
    found = saved(stream, tmp_path / "b.pbin")
    assert 0 < len(found) < 20
    assert found == LISTS[: len(found)]


def test_sequences_that_fail_only_when_read_are_left_out(tmp_path):
    """A chunk of zarr that cannot be decoded: the sequences with tokens in it are lost, those around it are saved."""
    path = made(tmp_path / "x.zarr", to_options={"chunk": 16})
    cut(path / "train" / "encoded_tokens" / "3", 20)
    found = saved(path, tmp_path / "o.pbin")
    bounds = [sum(map(len, LISTS[:k])) for k in range(len(LISTS) + 1)]
    whole = [ids for ids, a, b in zip(LISTS, bounds, bounds[1:], strict=False) if b <= 48 or a >= 64]
    assert found == whole


def test_a_corrupt_source_names_no_option_that_cannot_help(tmp_path):
    """The remedy is named where it saves something."""
    path = tmp_path / "x.parquet"
    made(path)
    cut(path, path.stat().st_size - 10)
    with pytest.raises(FormatError) as caught:
        tokfmt.convert(path, tmp_path / "o.pbin", eos=EOS)
    assert "--allow-partial" not in str(caught.value)


@pytest.mark.parametrize("layout", ["contiguous", "corpus"])
def test_rows_of_a_cut_hdf5_file(layout, tmp_path):
    """The documents that a separator closes in the rows before the cut; with view=samples the complete rows."""
    path = tmp_path / "x.h5"
    many = LISTS * 20
    stream = np.array([token for ids in many for token in (*ids, EOS)], np.int32)
    if layout == "corpus":
        made(path, many, to_options={"layout": "corpus"})
    else:
        rows = np.stack([np.stack([stream[k : k + 8], np.ones(8, np.int32), stream[k + 1 : k + 9]])
                         for k in range(0, len(stream) - 9, 8)])  # fmt: skip
        with h5py.File(path, "w") as file:
            file.create_dataset("data", data=rows)
            file.attrs["n_examples"] = len(rows)
    with tokfmt.open(path, eos=EOS) as whole:
        documents = [one.tolist() for one in whole]
    data = path.read_bytes()
    for size in (len(data) - 1, len(data) * 4 // 5, len(data) // 2):
        path.write_bytes(data[:size])
        found = saved(path, tmp_path / f"o{size}.pbin")
        assert found == documents[: len(found)]
        assert len(found) > len(documents) // 3
        if layout == "contiguous":
            with tokfmt.open(path, options={"view": "samples"}, allow_partial=True) as dataset:
                assert [one.tolist() for one in dataset] == rows[: len(dataset), 0].tolist()
                assert len(dataset) >= (size - 2048) // (3 * 8 * 4)


def test_blocks_before_a_damaged_row_group(tmp_path):
    """Blocks are one stream: of the row groups after a damaged one nothing is certain, though they can be read."""
    rows = [[1, 2, EOS, 3], [4, EOS, 6, 6], [EOS, 8, EOS, 8], [EOS, 9, EOS, 9], [EOS, 10, EOS, 11], [EOS, 12, 13, EOS]]
    path = tmp_path / "x.parquet"
    parquet.write_table(
        pa.table({"input_ids": rows}), path, row_group_size=2, use_dictionary=False, write_page_checksum=True
    )
    chunk = parquet.read_metadata(path).row_group(1).column(0)
    content = bytearray(path.read_bytes())
    content[chunk.data_page_offset + chunk.total_compressed_size - 1] ^= 255
    path.write_bytes(content)
    how = {"eos": EOS, "options": {"rows": "blocks"}, "allow_partial": True}
    done = tokfmt.convert(path, tmp_path / "o.jsonl", **how)
    with tokfmt.open(tmp_path / "o.jsonl") as dataset:
        assert [one.tolist() for one in dataset] == [[1, 2], [3, 4]]
    damaged, uncertain, _ = done.partial[0]["reasons"]
    assert "row group 1 cannot be read" in damaged
    assert "row group 1 of" in uncertain and "2 rows after it" in uncertain


def test_a_cache_in_stores_without_one_of_them(tmp_path):
    """Of Levanter's cache the rows of the other stores; those that its ledger counts in the lost one are reported."""
    shards = [[[10 * k + i] * 9 for i in range(1, 20)] for k in range(3)]
    home = cache(tmp_path / "cache", shards)
    shutil.rmtree(home / "part-00001")
    with pytest.raises(FormatError, match="is missing"):
        tokfmt.open(home)
    with tokfmt.open(home, allow_partial=True) as dataset:
        assert [one.tolist() for one in dataset] == [*shards[0], *shards[2]]
        assert any("partial: 38 of 57 sequences are saved" in note for note in dataset.notes)


@pytest.mark.usefixtures("kept_workers")
def test_parts_are_read_by_other_processes(tmp_path):
    """What is chosen of a damaged dataset travels to worker processes."""
    path = made(tmp_path / "x.zarr", to_options={"chunk": 16})
    cut(path / "train" / "encoded_tokens" / "2", 20)
    threads = saved(path, tmp_path / "a.pbin")
    assert saved(path, tmp_path / "b.pbin", executor="processes", jobs=2) == threads
    assert (tmp_path / "a.pbin").read_bytes() == (tmp_path / "b.pbin").read_bytes()


def test_chunks_of_a_store_that_are_lost(tmp_path):
    """The sequences without a token in a lost chunk are saved, the refusal says so; `holes=fill` stays as it is."""
    path = made(tmp_path / "x.zarr", to_options={"chunk": 16, "starts_chunk": 16})
    for lost in (3, 5):
        (path / "train" / "encoded_tokens" / str(lost)).unlink()
    with pytest.raises(FormatError, match="is missing: 2 of .*--allow-partial"):
        tokfmt.convert(path, tmp_path / "refused.jsonl")
    ends = np.cumsum([len(ids) for ids in LISTS])
    held = [(end - len(ids), end) for ids, end in zip(LISTS, ends, strict=True)]
    whole = [
        ids for ids, (a, b) in zip(LISTS, held, strict=True) if not any(a < 16 * k + 16 and b > 16 * k for k in (3, 5))
    ]
    assert saved(path, tmp_path / "a.jsonl", eos=None) == whole
    with tokfmt.open(path, allow_partial=True) as dataset:
        assert len(dataset) == len(whole) < len(LISTS)
    (path / "train" / "seq_starts" / "1").unlink()
    assert saved(path, tmp_path / "b.jsonl", eos=None) == [ids for ids in whole if ids in LISTS[:15]]


def test_a_lost_file_is_refused_with_the_option_that_saves_the_others(tmp_path):
    path = made(tmp_path / "x", to_format="litdata", to_options={"shard_size": 40})
    sorted(path.glob("chunk-*.bin"))[1].unlink()
    with pytest.raises(FormatError, match="is missing.*--allow-partial"):
        tokfmt.convert(path, tmp_path / "refused.jsonl", eos=EOS)


def test_the_other_files_of_a_lost_arrow_file_are_saved(tmp_path):
    """`state.json` names the lost one: the option that the refusal names converts what is there."""
    home = tmp_path / "data"
    home.mkdir()
    for k, rows in enumerate((LISTS[:9], LISTS[9:20])):
        table = pa.table({"input_ids": pa.array(rows, pa.list_(pa.uint16()))})
        with pa.ipc.new_stream(home / f"data-0000{k}-of-00002.arrow", table.schema) as writer:
            writer.write_table(table)
    names = [{"filename": f"data-0000{k}-of-00002.arrow"} for k in range(2)]
    (home / "state.json").write_text(json.dumps({"_data_files": names}))
    (home / "dataset_info.json").write_text("{}")
    (home / "data-00001-of-00002.arrow").unlink()
    with pytest.raises(FormatError, match="--allow-partial saves"):
        tokfmt.convert(home, tmp_path / "refused.jsonl")
    assert saved(home, tmp_path / "a.jsonl", eos="none") == LISTS[:9]


def test_a_cut_stream_of_one_document_names_no_option_that_saves_nothing(tmp_path):
    path = made(tmp_path / "x_train_000001.bin", to_format="llmc")
    cut(path, 1024 + 2 * len(LISTS[0]))
    with pytest.raises(FormatError) as caught:
        tokfmt.convert(path, tmp_path / "refused.jsonl", eos=EOS)
    assert "--allow-partial" not in str(caught.value)
    with pytest.raises(FormatError, match="no sequence of it is certain"):
        tokfmt.convert(path, tmp_path / "saved.jsonl", eos=EOS, allow_partial=True)


def test_an_empty_file_among_others_of_hdf5_is_to_be_copied(tmp_path):
    path = tmp_path / "x"
    path.mkdir()
    (path / "data-00000.h5").touch()
    (verdict,) = tokfmt.check(path)
    (finding,) = verdict.findings
    assert (finding.code, finding.remedy) == ("TF303", "Copy it again")


def test_tokens_after_the_last_indexed_document(tmp_path):
    path = made(tmp_path / "x.ds", to_format="datatrove")
    (tmp_path / "x.ds.index").write_bytes(b"")
    size = path.stat().st_size
    with pytest.raises(FormatError, match=f"--allow-loss tail leaves out the last {size} bytes"):
        tokfmt.convert(path, tmp_path / "refused.jsonl", eos=EOS)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "zstd"])
def test_an_altered_shard_leaves_the_others(packed, tmp_path):
    """A shard that does not fit its hash, or whose compressed data are cut, is named with what saves the others."""
    options = {"shard_size": 30, "compression": "zstd"} if packed else {"shard_size": 30}
    home = made(tmp_path / "mds", to_format="mds", to_options=options)
    shard = home / f"shard.00001.mds{'.zstd' if packed else ''}"
    content = bytearray(shard.read_bytes())
    if packed:
        shard.write_bytes(content[: len(content) // 2])
    else:
        content[-3] ^= 4
        shard.write_bytes(content)
    words = "its zstd data end too early.*Copy it again" if packed else "does not fit its.*hashes.*reads it as it is"
    with pytest.raises(FormatError, match=f"{words}.*--allow-partial saves"):
        tokfmt.convert(home, tmp_path / "refused.pbin", eos=EOS)
    found = saved(home, tmp_path / "o.pbin")
    assert 0 < len(found) < len(LISTS)
    assert [one for one in LISTS if one in found] == found


def test_one_altered_shard_alone_is_not_saved(tmp_path):
    home = made(tmp_path / "mds", LISTS[:3], to_format="mds")
    content = bytearray((home / "shard.00000.mds").read_bytes())
    content[-3] ^= 4
    (home / "shard.00000.mds").write_bytes(content)
    with pytest.raises(FormatError) as caught:
        tokfmt.convert(home, tmp_path / "refused.pbin", eos=EOS)
    assert "does not fit its" in str(caught.value)
    assert "partial" not in str(caught.value)


def test_remedies_of_cut_rows_and_indexes(tmp_path):
    """A few documents do not show the width: the remedy names it with the option, and that works."""
    path = made(tmp_path / "c.npy", LISTS[:5], to_format="olmo")
    cut(path, 2 * sum(len(ids) + 1 for ids in LISTS[:3]) + 4)
    with pytest.raises(FormatError, match=r"c\.npy: tokens: expected .* as c\.csv\.gz states.*width.*--allow-partial"):
        tokfmt.convert(path, tmp_path / "refused.pbin", format="olmo")
    (verdict,) = tokfmt.check(path, format="olmo")
    assert [one.path for one in verdict.findings] == [str(path)]
    assert saved(path, tmp_path / "o.pbin", format="olmo", options={"width": 2}) == LISTS[:3]
    pair = made(tmp_path / "x_document.bin", LISTS[:5])
    cut(pair.with_suffix(".idx"), 60)
    with pytest.raises(FormatError, match=r"the size of the index.*Copy it again"):
        tokfmt.convert(pair, tmp_path / "refused.pbin", eos=EOS)


@pytest.mark.parametrize("size", [4096, 4097, 4098, 13])
def test_a_pack_that_is_cut_in_its_tokens_is_saved_if_the_separator_is_known(size, tmp_path):
    """The header states the width, and the separator ends each document, as in a stream."""
    lists = [[1000 + number, *range(20, 20 + number % 40)] for number in range(200)]
    path = made(tmp_path / "x.pbin", lists)
    whole = path.read_bytes()
    cut(path, size)
    tokens = np.frombuffer(whole[12:size][: (size - 12) // 2 * 2], "<u2")
    count = int(np.count_nonzero(tokens == EOS))
    with pytest.raises(FormatError, match="add --eos ID"):
        tokfmt.convert(path, tmp_path / "y.pbin", allow_partial=True)
    with pytest.raises(FormatError, match="--allow-partial --eos ID saves the complete documents"):
        tokfmt.convert(path, tmp_path / "y.pbin")
    if not count:
        with pytest.raises(FormatError, match="no sequence of it is certain"):
            tokfmt.convert(path, tmp_path / "y.pbin", allow_partial=True, eos=EOS)
        return
    assert saved(path, tmp_path / "y.pbin", eos=EOS) == lists[:count]
    (verdict,) = tokfmt.check(path, eos=EOS)
    assert verdict.errors


def test_options_of_convert_go_with_it(tmp_path):
    """A selection counts among what is saved; splits and an order share it out; several sources are reported one by one."""
    path, other = made(tmp_path / "x_document.bin"), made(tmp_path / "y_document.bin")
    for one in (path, other):
        cut(one, one.stat().st_size // 2)
    whole = saved(path, tmp_path / "all.pbin")
    assert whole == LISTS[: len(whole)]
    assert saved(path, tmp_path / "some.pbin", select="2:5") == whole[2:5]
    assert sorted(saved(path, tmp_path / "mixed.pbin", shuffle=3)) == sorted(whole)
    assert saved(path, tmp_path / "jobs.pbin", jobs=2) == whole
    done = tokfmt.convert([path, other], tmp_path / "both.pbin", eos=EOS, allow_partial=True)
    assert [one["path"] for one in done.partial] == [str(path), str(other)]
    assert done.sequences == 2 * len(whole)
    done = tokfmt.convert(path, tmp_path / "s.pbin", eos=EOS, allow_partial=True, split="a=0.5,b=0.5")
    assert sum(part["sequences"] for part in done.splits.values()) == len(whole)
    for shard in range(2):
        tokfmt.convert(path, tmp_path / "sharded.pbin", eos=EOS, allow_partial=True, task=(shard, 2))
    assert finish(tmp_path / "sharded.pbin").sequences == len(whole)


STORES: list[tuple[str, dict[str, object], str, int]] = [
    ("x_document.bin", {}, "x_document.bin", 2),
    ("x.ds", {}, "x.ds", 2),
    ("part-0-00000.npy", {}, "part-0-00000.npy", 2),
    ("litdata", {"shard_size": 1000}, "chunk-0-0.bin", 2),
    ("mds", {"shard_size": 1000}, "shard.00000.mds", 2),
]


@pytest.mark.parametrize(("name", "options", "tokens", "width"), STORES, ids=[row[0] for row in STORES])
def test_with_its_index_whole_all_before_the_cut_is_saved(name, options, tokens, width, tmp_path):
    """Where the index lies elsewhere, every sequence before the cut is saved, wherever that is."""
    path = made(tmp_path / name, to_format=name if name in ("litdata", "mds") else None, to_options=options)
    with tokfmt.open(path, eos=EOS) as whole:
        places = [whole.reader.locate(int(end) - 1) for end in whole.reader.offsets(0, len(whole))[1:]]
    target = path / tokens if path.is_dir() else path
    data, tried = target.read_bytes(), 0
    for size in range(len(data) // 3, len(data), 37):
        target.write_bytes(data[:size])
        # a separator follows each
        before = sum(place is not None and place.offset + 2 * width <= size for place in places)
        with tokfmt.open(path, eos=EOS, allow_partial=True) as dataset:
            assert [one.tolist() for one in dataset] == LISTS[:before]
        tried += before > 0
    assert tried > 2


def test_an_arrow_file_cut_in_its_footer_is_whole_and_its_damage_is_said(tmp_path):
    path, table = tmp_path / "x.arrow", pa.table({"input_ids": LISTS})
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)
    cut(path, path.stat().st_size - 8)
    with pytest.raises(FormatError, match="footer cannot be read.*--allow-loss tail reads.*--allow-partial"):
        tokfmt.convert(path, tmp_path / "refused.jsonl")
    assert saved(path, tmp_path / "a.jsonl", eos=None) == LISTS
    (told,) = json.loads((tmp_path / "a.jsonl.tokfmt.json").read_text())["partial"]
    assert (told["sequences"], told["lost_sequences"], told["lost_tokens"]) == (len(LISTS), 0, 0)
    run("check", path, "--fix", tmp_path / "fixed.arrow", check=0)
    with tokfmt.open(tmp_path / "fixed.arrow") as dataset:
        assert [one.tolist() for one in dataset] == LISTS
