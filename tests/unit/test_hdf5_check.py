"""hdf5: each finding, from one thing done wrong to good samples."""

import json

import h5py
import numpy as np
import pytest

from tokfmt.errors import FormatError
from tokfmt.formats.hdf5 import FORMAT
from tokfmt.formats.hdf5.options import ReadOptions
from tokfmt.plugin import Hints

WIDTH = 16


def good(count=40):
    stream = np.random.default_rng(0).integers(10, 900, count * WIDTH + 1).astype("<i4")
    each = np.lib.stride_tricks.sliding_window_view(stream, WIDTH + 1)[::WIDTH]
    return np.stack([each[:, :-1], np.ones((count, WIDTH), "<i4"), each[:, 1:]], 1)


def save(path, rows=None, count=..., **how):
    rows = good() if rows is None else rows
    how = {"chunks": (1, *rows.shape[1:]), "compression": "gzip"} | how if rows.ndim == 3 else how
    libver = how.pop("libver", None)
    with h5py.File(path, "w", libver=libver) as file:
        if count is not None and rows.ndim == 3:
            file.attrs["n_examples"] = len(rows) if count is ... else count
        file.create_dataset("data", data=rows, **{k: v for k, v in how.items() if v is not None})
    return path


def codes(path):
    found = list(FORMAT.audit(path, ReadOptions()))
    assert all(f.severity in ("error", "warning") for f in found)
    assert all(f.path.startswith(str(path)) for f in found)
    assert all(not f.message.endswith((".", ",")) and "\n" not in f.message for f in found)
    return {f.code for f in found}


def test_good_ones(tmp_path):
    assert codes(save(tmp_path / "a.h5")) == set()
    assert codes(tmp_path) == set()


CHANGES = {
    "TF332": lambda r: r[3, 0].__setitem__(4, -1),
    "TF334": lambda r: r[3, 1].__setitem__(4, 2),
    "TF335": lambda r: (r[3, :, 8:].__setitem__(slice(None), 5), r[3, 1, 8:].__setitem__(slice(None), [0] * 7 + [1])),
    "TF336": lambda r: r[:, 2].__setitem__(slice(None), r[:, 0]),
    "TF337": lambda r: r[3, 2].__setitem__(4, 5),
    "TF338": lambda r: r[3, 1].__setitem__(slice(None), 0),
    "TF340": lambda r: (r[3:6, :, 8:].__setitem__(slice(None), 5), r[:, 1].__setitem__(slice(None), 0),
                        r[3:6, 1, 8:].__setitem__(slice(None), 1)),
}  # fmt: skip


@pytest.mark.parametrize("code", CHANGES)
def test_content(tmp_path, code):
    rows = good()
    CHANGES[code](rows)
    assert code in codes(save(tmp_path / "a.h5", rows))


@pytest.mark.parametrize(
    ("code", "how"),
    [
        ("TF308", {"count": None}),
        ("TF308", {"count": 2.5}),
        ("TF308", {"count": 39}),
        ("TF321", {"chunks": (5, 3, WIDTH)}),
        ("TF321", {"chunks": None, "compression": None}),
        ("TF322", {"compression": None}),
        ("TF323", {"rows": good().astype("<i8")}),
        ("TF323", {"rows": good().astype("<u2")}),
        ("TF324", {"libver": "latest"}),
        ("TF307", {"rows": np.zeros((4, 6, WIDTH), "<i4")}),
        ("TF306", {"rows": np.zeros((4, WIDTH), "<i4")}),
        ("TF306", {"rows": good().astype("f4")}),
        ("TF306", {"compression": "lzf"}),
    ],
)
def test_headers(tmp_path, code, how):
    assert code in codes(save(tmp_path / "a.h5", **how))


def test_names(tmp_path):
    assert codes(tmp_path) == {"TF301"}
    assert codes(save(tmp_path / "a.hdf5")) == {"TF302"}
    for number in (1, 2, 10):
        save(tmp_path / f"part-{number}.h5")
    assert codes(tmp_path) == {"TF325"}


def test_damage(tmp_path):
    path = save(tmp_path / "a.h5")
    content = path.read_bytes()
    path.write_bytes(content[:-9])
    assert codes(path) == {"TF304"}
    path.write_bytes(content[:20] + bytes(60) + content[80:])
    assert codes(path) == {"TF303"}
    with h5py.File(save(path), "r+") as file:
        file["data"].id.write_direct_chunk((5, 0, 0), b"garbage")
    assert codes(path) == {"TF331"}
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["data"] = h5py.SoftLink("/other")
    assert codes(path) == {"TF305"}


def test_files_that_do_not_fit(tmp_path):
    save(tmp_path / "a.h5")
    save(tmp_path / "b.h5", good()[:, :, :8])
    save(tmp_path / "c.h5", good().astype(">i4"))
    save(tmp_path / "d.h5", np.arange(50, dtype="<i4"))
    assert codes(tmp_path) == {"TF311", "TF312", "TF313"}


def test_empty_files(tmp_path):
    save(tmp_path / "a.h5", np.zeros((0, 3, WIDTH), "<i4"), chunks=(1, 3, WIDTH), maxshape=(None, 3, WIDTH))
    assert codes(tmp_path) == {"TF309"}


def test_vocabulary_and_separator(tmp_path):
    save(tmp_path / "a.h5")
    params = {"post-process": {"vocab_size": 500, "eos_id": 7, "pad_id": 7}}
    (tmp_path / "data_params.json").write_text(json.dumps(params))
    assert codes(tmp_path) == {"TF333", "TF341"}


def test_untrue_attributes(tmp_path):
    path = save(tmp_path / "a.h5")
    with h5py.File(path, "r+") as file:
        for name, value in (("stride", np.bytes_("bos")), ("eos_id", 1), ("first_token", 0), ("stream_tokens", 9)):
            file["data"].attrs[name] = value
    assert codes(path) == {"TF310"}


def test_segments(tmp_path):
    rows = np.zeros((4, 5, WIDTH), "<i4")
    rows[:, 0], rows[:, 1], rows[:, 2] = 5, 1, 5
    rows[:, 4] = np.arange(WIDTH)
    rows[:, 3] = np.arange(WIDTH)[::-1]
    assert codes(save(tmp_path / "a.h5", rows)) <= {"TF336"}
    rows[2, 3, 0] = 3
    assert "TF339" in codes(save(tmp_path / "a.h5", rows))


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"rows": np.zeros((4, 6, WIDTH), "<i4"), "count": 9}, {"TF307", "TF308"}),
        ({"rows": np.zeros((4, 3, 0), "<i4"), "chunks": None, "compression": None}, {"TF309", "TF321", "TF322"}),
    ],
)
def test_a_check_lists_what_a_reader_refuses_first(tmp_path, how, expected):
    path = save(tmp_path / "a.h5", **how)
    findings = list(FORMAT.audit(path, ReadOptions(view="samples")))
    assert {finding.code for finding in findings} == expected
    with pytest.raises(FormatError) as caught:
        FORMAT.open([path], ReadOptions(view="samples"), Hints())
    assert caught.value.statement in [finding.message for finding in findings]
