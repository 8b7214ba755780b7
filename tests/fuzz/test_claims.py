"""Random datasets of each format, written by hand and converted with random options: the result, read by hand, is what
the report, the manifest and later commands claim.

The oracle is plain lists: which separator a source has, its contents, and what each destination stores beside them.
"""

import gzip
import itertools
import json
import os
import pickle
import random
import struct

import by_hand
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from amount import MUTATIONS, NIGHTLY

import tokfmt
from tokfmt.errors import TokfmtError

CASES = int(os.environ.get("CLAIMS") or 0) or (MUTATIONS // 4 if NIGHTLY else 40)
BATCHES = 8
EOS, OTHER = 7, 9
UNLIKE = range(20, 50_000)  # IDs of contents: no separator, and not that of GPT-2, which bare streams are searched for


# what a source stores, by hand


def joined(documents, dtype="<u2"):
    return np.array(list(itertools.chain(*documents)), dtype)


def bounds(documents):
    return [0, *itertools.accumulate(map(len, documents))]


def jsonl(home, documents):
    path = home / "a.jsonl"
    path.write_text("".join(json.dumps({"input_ids": one}) + "\n" for one in documents))
    return path


def table(documents):
    return pa.table({"input_ids": pa.array(documents, pa.list_(pa.uint16()))})


def parquet(home, documents):
    pq.write_table(table(documents), home / "a.parquet", row_group_size=max(1, len(documents) // 3))
    return home / "a.parquet"


def arrow(home, documents):
    with pa.ipc.new_file(home / "a.arrow", table([]).schema) as file:
        file.write_table(table(documents), max_chunksize=max(1, len(documents) // 2))
    return home / "a.arrow"


def datatrove(home, documents):
    joined(documents).tofile(home / "a.ds")
    np.array(bounds(documents)[1:], "<u8").tofile(home / "a.ds.index")
    return home / "a.ds"


def olmo(home, documents):
    joined(documents).tofile(home / "part-0-00000.npy")
    rows = "".join(f"{a},{b},id,src,0\n" for a, b in itertools.pairwise(bounds(documents)))
    (home / "part-0-00000.csv.gz").write_bytes(gzip.compress(rows.encode()))
    return home


def hdf5(home, documents):
    with h5py.File(home / "a.h5", "w") as file:
        file["tokens"], file["offsets"] = joined(documents), np.array(bounds(documents))
    return home / "a.h5"


def npy(home, documents):
    np.save(home / "a.npy", joined(documents))
    return home / "a.npy"


def nanogpt(home, documents):
    joined(documents).tofile(home / "train.bin")
    return home / "train.bin"


INDEXED = {
    "modalities": lambda home, documents: by_hand.pack(home / "a.pbin", documents),
    "megatron": lambda home, documents: by_hand.megatron(home / "a_document.bin", documents),
    "datatrove": datatrove,
    "olmo": olmo,
}
CONTENTS = {"jsonl": jsonl, "parquet": parquet, "arrow": arrow}
STREAMS = {"npy": npy, "nanogpt": nanogpt}
SOURCES = {**INDEXED, **CONTENTS, **STREAMS}


# what a destination stores, by hand


def split(tokens, ends):
    return [tokens[a:b] for a, b in itertools.pairwise([0, *ends])]


def of_pack(path):
    data = path.read_bytes()
    size, width = struct.unpack("<QI", data[:12])
    tokens = np.frombuffer(data, f"<u{width}", size // width, 12).tolist()
    return [tokens[at // width : (at + length) // width] for at, length in pickle.loads(data[12 + size :])]


def of_megatron(path):
    data = path.with_suffix(".idx").read_bytes()
    code, sequences, _ = struct.unpack("<BQQ", data[17:34])
    dtype = {1: "u1", 4: "<i4", 8: "<u2"}[code]
    ends = np.array([0, *itertools.accumulate(np.frombuffer(data, "<i4", sequences, 34).tolist())])
    documents = np.frombuffer(data, "<i8", -1, 34 + 12 * sequences)  # an empty one has no sequence
    return split(np.fromfile(path, dtype).tolist(), ends[documents[1:]].tolist())


def of_datatrove(path):
    ends = np.fromfile(f"{path}.index", "<u8").tolist()
    width = path.stat().st_size // ends[-1] if ends and ends[-1] else 2
    return split(np.fromfile(path, f"<u{width}").tolist(), ends)


def of_zarr(path):
    group = zarr.open_group(path / "train", mode="r", zarr_format=2, use_consolidated=False)
    tokens, starts = (np.asarray(group[name]).tolist() for name in ("encoded_tokens", "seq_starts"))
    return split([token >> 1 for token in tokens], starts[1:])


WRITTEN = {
    "jsonl": ("out.jsonl", lambda path: [json.loads(line)["input_ids"] for line in path.read_text().splitlines()]),
    "parquet": ("out.parquet", lambda path: pq.read_table(path)["input_ids"].to_pylist()),
    "arrow": ("out.arrow", lambda path: pa.ipc.open_stream(path).read_all()["input_ids"].to_pylist()),
    "flat-tokens": ("out.zarr", of_zarr),
    "modalities": ("out.pbin", of_pack),
    "megatron": ("out_document.bin", of_megatron),
    "datatrove": ("out.ds", of_datatrove),
    "nanogpt": ("out.bin", lambda path: np.fromfile(path, "<u2").tolist()),
    "array": ("out.npy", lambda path: np.load(path).tolist()),
}
BARE = {"jsonl", "parquet", "arrow", "flat-tokens"}  # they store contents alone
FLAT = {"nanogpt", "array"}


# what both mean


def separator_of(kind, documents, eos):
    """The separator of a source, or None: as the user says, or as the ends of its sequences show."""
    if eos is not None or kind not in INDEXED:
        return eos
    full = [one for one in documents if one]
    last = {one[-1] for one in full}
    alike = len(full) >= 8 and len(last) == 1
    return last.pop() if alike and not any(full[0][-1] in one[:-1] for one in full) else None


def contents_of(kind, documents, eos):
    """The contents of what a source stores, and which of them ended with the separator."""
    if kind in STREAMS:
        tokens = list(itertools.chain(*documents))
        if eos in (None, "none"):
            return ([tokens] if tokens else []), [False] * bool(tokens)
        pieces = [[]]
        for token in tokens:
            pieces[-1].append(token)
            if token == eos:
                pieces.append([])
        documents = pieces if pieces[-1] else pieces[:-1]
    has = [bool(one) and one[-1] == eos for one in documents]
    return [one[:-1] if ended else one for one, ended in zip(documents, has, strict=True)], has


def drawn(chance, kind):
    """Documents as a format may store them: ended, bare or mixed."""
    style = chance.choice(["ended", "ended", "bare", "mixed"])
    documents = []
    for _ in range(chance.choice([1, 3, 7, 8, 20])):
        content = [chance.choice(UNLIKE) for _ in range(chance.choice([0, 1, 2, 5, 30]))]
        ended = style == "ended" or (style == "mixed" and chance.random() < 0.5)
        if ended and chance.random() < 0.05:
            content.insert(len(content) // 2, EOS)
        documents.append([*content, EOS] if ended else content)
    return documents if kind != "olmo" else [one or [EOS] for one in documents]  # its rows are never empty


@pytest.mark.parametrize("batch", range(BATCHES))
def test_what_is_written_is_what_is_claimed(batch, tmp_path):
    """A failure names its case: `case(NUMBER, PATH)` runs it alone."""
    done = 0
    for number in range(batch, CASES, BATCHES):
        (home := tmp_path / str(number)).mkdir()
        done += case(number, home)
    assert done > CASES // BATCHES // 3


def case(number, home):
    """Whether a conversion with the options that a number draws was made; what it claims holds."""
    chance = random.Random(number)
    kind, to = chance.choice(list(SOURCES)), chance.choice(list(WRITTEN))
    eos = chance.choice([None, EOS, EOS, "none"])
    to_eos = chance.choice([None, None, OTHER, "none"])
    parts = [drawn(chance, kind) for _ in range(chance.choice([1, 1, 1, 2]))]
    shuffle = chance.choice([None, None, None, number])
    paths = []
    for part, documents in enumerate(parts):
        (own := home / str(part)).mkdir()
        paths.append(SOURCES[kind](own, documents))
    given = {"eos": eos, "to_eos": to_eos, "shuffle": shuffle, "to_format": to, "verify": chance.random() < 0.3}
    given |= {"options": {"width": 2}} if kind in ("olmo", "nanogpt", "datatrove") else {}
    out = home / WRITTEN[to][0]
    told = f"case {number}: {kind} -> {to}, {given}, {parts}"
    try:
        report = tokfmt.convert(paths, out, **given)
    except TokfmtError as error:
        assert "unexpected" not in str(error), told
        assert not out.exists(), told
        return False
    known = [separator_of(kind, documents, eos) for documents in parts]
    only = {one for one in known if one is not None}
    if len(parts) > 1 and len(only) < 2:  # few sequences are read as those beside them
        whole = separator_of(kind, list(itertools.chain(*parts)), eos)
        beside = only.pop() if only else whole
        for at, documents in enumerate(parts):
            full = [one for one in documents if one]
            alike = full and all(one[-1] == beside and beside not in one[:-1] for one in full)
            known[at] = beside if known[at] is None and alike and kind in INDEXED else known[at]
    source_eos = next((one for one in known if one not in (None, "none")), None)
    stored_eos = to_eos if isinstance(to_eos, int) else None if to_eos == "none" else source_eos
    contents, has = [], []
    for documents, one in zip(parts, known, strict=True):
        if one is None and to not in BARE and documents and all(row and row[-1] == stored_eos for row in documents):
            one = stored_eos  # sequences that all end with what is written do not get a second one
        found = contents_of(kind, documents, one)
        contents += found[0]
        has += found[1]
    written = WRITTEN[to][1](out)
    if to in FLAT:
        assert stored_eos is not None or not contents, told
        stored = [token for one in contents for token in [*one, stored_eos]]
        expected = contents
        if shuffle is None:
            assert written == stored, told
        assert sorted(written) == sorted(stored), told
    else:
        is_plain = to in BARE or stored_eos is None
        expected = (
            contents
            if is_plain
            else [[*one, stored_eos] if one or ended else [] for one, ended in zip(contents, has, strict=True)]
        )
        if shuffle is None:
            assert written == expected, told
        assert sorted(written) == sorted(expected), told
    manifest = json.loads(out.with_name(f"{out.name}.tokfmt.json").read_text())
    size = sum(map(len, contents))
    assert (report.sequences, report.tokens) == (len(contents), size), told
    assert (manifest["sequences"], manifest["tokens"]) == (len(contents), size), told
    if to not in BARE:
        counts = report.separators
        assert sum(counts.values()) == len(contents), told
        changed = "replaced" if isinstance(to_eos, int) and to_eos != source_eos else "kept"
        stores = stored_eos is not None
        lack = sum(not ended and (bool(one) or to in FLAT) for one, ended in zip(contents, has, strict=True))
        assert dict(counts)[changed] == sum(has) * stores, told
        assert counts["added"] == lack * stores, told
        assert counts["bare"] == len(has) - sum(has) - lack * stores, told
    with tokfmt.open(out) as again:  # every later command knows what this one did
        assert sorted(one.tolist() for one in again) == sorted(contents), told
    told_of = tokfmt.info(out)
    assert told_of.tokens in (size, None), told
    (checked,) = tokfmt.check(out, deep=True)
    assert not [one for one in checked.findings if one.severity == "error"], told
    return True
