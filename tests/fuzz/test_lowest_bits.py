"""The lowest bit of each byte of a small file of each format: data or a TokfmtError, and a contradiction is a finding."""

import contextlib
import itertools
import json
import shutil
import struct

import numpy as np
import pytest
from amount import NIGHTLY
from paths import FIXTURES

import tokfmt
from tokfmt.errors import OptionError, TokfmtError

pytestmark = pytest.mark.slow

EOS = 7
ROWS = [[300, 11, EOS], [12, EOS], [900, 901, 902, 903, EOS], [20, EOS], [70, 80, EOS]]
LIMIT = 1_000  # bytes of a file
STEP = 1 if NIGHTLY else 61
CHECKED = {"array.npz", "arrayrecord", "gz", "mds", "tfrecord"}  # They hold checksums of all IDs.


def converted(home, name, **how):
    """A dataset of the sequences that tokfmt wrote, with its manifest."""
    (home / "source.jsonl").write_text("".join(json.dumps({"input_ids": row}) + "\n" for row in ROWS))
    out = home / name
    tokfmt.convert(home / "source.jsonl", out, eos=EOS, **{"to_eos": EOS, **how})
    (home / "source.jsonl").unlink()
    assert list(home.rglob("*.tokfmt.json"))
    return out


def litgpt(home):
    ids = np.array(list(itertools.chain(*ROWS)), "<u2")
    (home / "x.bin").write_bytes(b"LITPKDS" + struct.pack("<QBQ", 1, 8, len(ids)) + ids.tobytes())
    return home / "x.bin"


def internevo(home):
    lines = [json.dumps({"tokens": row}) + "\n" for row in ROWS]
    starts = [0, *itertools.accumulate(map(len, lines))][:-1]
    (home / "x.bin").write_text("".join(lines))
    with open(home / "x.bin.meta", "wb") as file:
        np.save(file, np.array([[a, len(row)] for a, row in zip(starts, ROWS, strict=True)]))
    return home / "x.bin"


def npz(home):
    starts = [0, *itertools.accumulate(map(len, ROWS))]
    np.savez(home / "x.npz", tokens=np.array(list(itertools.chain(*ROWS)), "<u2"), offsets=np.array(starts))
    return home / "x.npz"


def levanter(home):
    shutil.copytree(FIXTURES / "levanter" / "cache_int32", home / "x")
    return home / "x"


def by(name, **how):
    return lambda home: converted(home, name, **how)


KINDS = {
    "array": by("x.npy"),
    "array.npz": npz,
    "arrayrecord": by("x.arrayrecord"),
    "arrow": by("x.arrow"),
    "arrow.folder": by("x", to_format="arrow"),
    "datatrove": by("x.ds"),
    "flat-tokens": by("x.zarr"),
    "gz": by("x.jsonl.gz"),
    "hdf5": by("x.h5"),
    "internevo": internevo,
    "jsonl": by("x.jsonl"),
    "levanter": levanter,
    "litdata": by("x", to_format="litdata"),
    "litgpt-packed": litgpt,
    "llmc": by("x.bin", to_format="llmc"),
    "mds": by("x", to_format="mds"),
    "megatron": by("x_document.bin", to_format="megatron"),
    "modalities": by("x.pbin"),
    "nanogpt": by("train.bin", to_format="nanogpt"),
    "olmo": by("x", to_format="olmo"),
    "parquet": by("x.parquet"),
    "stage1": by("x", to_format="stage1"),
    "tfrecord": by("x.tfrecord"),
    "webdataset": by("x", to_format="webdataset"),
}


def files_of(path):
    """The files of a dataset and its manifest, the smallest first."""
    found = path.rglob("*") if path.is_dir() else path.parent.glob(f"{path.stem}*")
    return sorted((one for one in found if one.is_file()), key=lambda one: (one.stat().st_size, one.name))


def read(path, **how):
    """The sequences of a dataset, and what its reader says of them."""
    with tokfmt.open(path, **how) as dataset:
        return [one.tolist() for one in dataset]


def outcome(path, given, name):
    """What is wrong with what commands say of a damaged file; "" if nothing is."""
    try:
        told, failed = read(path, **given), ""
    except TokfmtError as error:
        told, failed = None, str(error)
    with contextlib.suppress(TokfmtError):
        tokfmt.info(path, **given)
    try:
        (verdict,) = tokfmt.check(path, deep=True, **given)
    except OptionError:  # The separator that is given does not occur, which no command accepts.
        return "" if failed else "only the check refuses it"
    found = [one.code for one in verdict.findings if one.severity in ("error", "warning")]
    for allow_partial in (False, True):
        out = path.parent.with_name("out.jsonl")
        try:
            tokfmt.convert(path, out, to_eos="none", overwrite=True, allow_partial=allow_partial, **given)
        except TokfmtError as error:
            assert "\n" not in str(error), error
    if failed and not found:
        return f"fails without a finding: {failed}"
    if told is not None and not found:
        has_manifest = any(path.parent.rglob("*.tokfmt.json"))
        if has_manifest and (sum(map(len, told)), len(told)) != (sum(map(len, KEPT[name])), len(KEPT[name])):
            return f"other numbers of sequences or tokens without a finding: {told}"
        if name in CHECKED and told != KEPT[name]:
            return f"other IDs than the checksum states without a finding: {told}"
    return ""


KEPT = {}


@pytest.mark.parametrize("name", KINDS)
def test_lowest_bits(name, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    path = KINDS[name](home)
    given = {} if name == "levanter" else {"eos": EOS}
    KEPT[name] = read(path, **given)
    assert name == "levanter" or KEPT[name] == [row[:-1] for row in ROWS]
    wrong = []
    for file in files_of(path):
        content = file.read_bytes()
        for at in range(0, min(len(content), LIMIT), STEP):
            file.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
            try:
                what = outcome(path, given, name)
            except Exception as error:
                what = f"{type(error).__name__}: {error}"
            if what:
                wrong.append(f"{file.relative_to(home)} byte {at}: {what}")
        file.write_bytes(content)
    shutil.rmtree(home)
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong[:400])
