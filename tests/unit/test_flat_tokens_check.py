"""What `check` finds in stores of flat tokens: every violation, each with its code; nothing in good ones."""

import json
import shutil
import warnings

import numpy as np
import pytest
import zarr
from paths import FIXTURES

from tokfmt.core.ragged import Ragged
from tokfmt.formats.flat_tokens import FORMAT
from tokfmt.formats.flat_tokens.options import ReadOptions
from tokfmt.testing import write

GOLDEN = FIXTURES / "flat-tokens"
BAD = FIXTURES / "bad/flat-tokens"


def found(path, split=None, **options):
    findings = list(FORMAT.audit(path, ReadOptions(split=split, **options)))
    assert all("\n" not in f.message and not f.message.endswith(".") for f in findings)
    return [(f.code, f.severity) for f in findings]


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.zarr")), ids=lambda p: p.name)
def test_nothing_in_what_seqax_wrote(path):
    expected = {"empty_dataset": ["TF418", "TF418"], "train_empty": ["TF418"]}.get(path.stem, [])
    assert found(path) == [(code, "info") for code in (["TF414"] if "bare" in path.name else expected)]


ERRORS = {
    "meta_pickle_compressor": ["TF410"],
    "meta_name_of_example": ["TF401"],
    "meta_shape_2_to_54": ["TF410"],
    "meta_no_seq_starts": ["TF401"],
    "bound_float": ["TF403"],
    "bound_missing": ["TF403"],
    "starts_decrease": ["TF404"],
    "starts_end_early": ["TF404"],
    "starts_empty": ["TF404"],
    "append_tokens_only": ["TF404", "TF406"],
    "append_starts_only": ["TF404"],
    "append_resized_starts": ["TF404", "TF404", "TF408"],
    "bits_missing": ["TF405"],
    "bits_one_moved": ["TF405"],
    "bound_too_low": ["TF406"],
    "chunk_missing": ["TF401"],
    "chunk_truncated": ["TF409"],
    "chunk_gzip_truncated": ["TF409"],
    "chunk_raw_short": ["TF409"],
    "escape_chunk": ["TF410"],
    "control_big_endian": ["TF402"],
    "control_plain": [],
    "control_v3": [],
    "control_sharded": [],
    "control_stored.zip": [],
}


@pytest.mark.parametrize("name", ERRORS)
def test_bad_stores(name):
    errors = [code for code, severity in found(BAD / name) if severity == "error"]
    assert sorted(set(errors)) == sorted(set(ERRORS[name]))
    assert len(errors) >= len(ERRORS[name])


def test_every_bad_store_has_an_error_and_no_control():
    cases = json.loads((BAD / "expected.json").read_bytes())
    for name, case in cases.items():
        errors = [
            code
            for code, severity in found(BAD / name, **case.get("options", {}))
            if severity == "error" and code != "TF402"
        ]
        assert bool(errors) is ("error" in case), (name, errors)


def test_several_at_once(tmp_path):
    path = write(FORMAT, tmp_path / "x.zarr", Ragged.of([[1, 2], [3, 4], [5]]), options={"chunk": 2, "starts_chunk": 2})
    shutil.copytree(path / "train", path / "validation")
    (path / "train/.zattrs").write_text('{"max_token_id": 4}')
    (path / "train/encoded_tokens/1").write_bytes(b"short")
    (path / "train/encoded_tokens/7").write_bytes(b"")
    (path / "validation/.zgroup").unlink()
    (path / "validation/.zattrs").unlink()
    assert found(path, "train") == [("TF412", "info"), ("TF409", "error")]
    assert found(path, "validation") == [("TF413", "warning"), ("TF403", "error")]
    assert found(path) == found(path, "train") + found(path, "validation")


def test_too_high_a_bound_and_absent_chunks():
    assert found(BAD / "control_bound_above") == [("TF407", "info")]
    assert ("TF408", "error") in found(BAD / "control_absent_chunk_of_zeros")
    assert ("TF408", "warning") in found(BAD / "control_absent_chunk_of_zeros", holes="fill")
    assert ("TF412", "info") in found(BAD / "control_chunks_beyond")


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("split", ["none", "train"])
def test_consolidated_metadata_out_of_date(tmp_path, zarr_format, split):
    options = {"split": split, "zarr_format": zarr_format, "chunk": 4}
    path = write(FORMAT, tmp_path / "x.zarr", Ragged.of([[1, 2], [3]]), options=options)
    before = found(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(path, zarr_format=zarr_format)
    assert found(path) == before
    name = ".zarray" if zarr_format == 2 else "zarr.json"
    for array in path.rglob(f"encoded_tokens/{name}"):
        meta = json.loads(array.read_bytes())
        array.write_text(json.dumps(meta | {"shape": [2]}))
    assert ("TF411", "warning") in found(path)
    assert ("TF404", "error") in found(path)


def test_many_damaged_chunks_are_counted(tmp_path):
    path = write(FORMAT, tmp_path / "x.zarr", Ragged.of([[1] * 1200]), options={"chunk": 8, "split": "none"})
    for chunk in (path / "encoded_tokens").glob("[0-9]*"):
        chunk.write_bytes(b"no")
    messages = [f.message for f in FORMAT.audit(path, ReadOptions()) if f.code == "TF409"]
    assert len(messages) == 101
    assert messages[100] == "has 50 more damaged chunks"


def test_a_large_store_is_looked_at_in_places(tmp_path):
    """Its end as well: the last window is always one of them."""
    ids = np.ones(20 << 20, np.uint32)
    path = write(FORMAT, tmp_path / "x.zarr", Ragged(ids, np.asarray([0, len(ids)])))
    last = path / "train/encoded_tokens/19"
    write(FORMAT, tmp_path / "y.zarr", Ragged.of([[9] * (1 << 20)]))
    last.write_bytes((tmp_path / "y.zarr/train/encoded_tokens/0").read_bytes())
    assert found(path) == [("TF406", "error"), ("TF405", "error")]
