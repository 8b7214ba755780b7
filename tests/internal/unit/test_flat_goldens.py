"""Flat formats read what the upstream tools wrote: documents by their digests, damage by its code."""

import gzip
import json

import numpy as np
import pytest
from paths import FIXTURES

from tokfmt import registry
from tokfmt.core.findings import Audit
from tokfmt.core.format import Confidence, look

CASES = {
    (home, case["name"]): case
    for home in ("llmc", "megatron", "nanogpt", "olmo", "datatrove", "litdata", "mds", "levanter")
    for case in json.loads((FIXTURES / home / "expected.json").read_text())["cases"]
}
REFUSED = {
    ("olmo", "label_mask"): "does not hold raw tokens: found a label mask",
    ("olmo", "real_numpy"): "does not hold raw tokens: found a numpy array",
    ("olmo", "sft_short_mask_BAD"): "mask of each token: expected 300, found 297",
    ("olmo", "sft_mask_values_BAD"): "expected 0 or 1, found 2",
    ("datatrove", "merged_total_metadata"): "no such file",
    ("levanter", "marin_missing_shard_BAD"): "part-00004-of-00005: is missing",
    ("levanter", "marin_bad_counts_BAD"): "rows of the finished shards: expected 31, found 30",
    ("mds", "pickle_UNSAFE"): "column tokens is pickled. Write the column as ndarray",
}
TOKENS = {
    key: case
    for key, case in CASES.items()
    if "NOT_a_token" not in key[1] and key[1] not in ("blend_100", "_empty_document") and key not in REFUSED
}
UPSTREAM_FAILS = {"mixed-00000": ["TF705"], "pytree_mistake": ["TF745"], "empty_first_item": ["TF745"]}
"""What tokfmt reads, and upstream reads otherwise or not at all: warnings."""

SCANNED = {("olmo", "nometa-00000"): {"width": 2}, ("datatrove", "00004_noindex.ds"): {}}
"""Those of formats with an index whose documents only the separator tells, and how they are read."""

TOLD: dict[tuple[str, str], dict[str, object]] = {
    ("mds", "bytes_int64"): {"dtype": "int64"},
    ("mds", "bytes_uint16"): {"dtype": "uint16"},
}
"""Those whose files do not tell all, and what must be said."""


@pytest.mark.parametrize(
    "key",
    [key for key in TOKENS if key[0] in ("olmo", "datatrove", "litdata", "mds", "levanter")],
    ids=lambda key: "-".join(key),
)
def test_goldens_have_no_findings(key):
    home, case = key[0], CASES[key]
    path, format_ = FIXTURES / home / case["entry"], registry.get(home)
    assert format_.sniff(look(path)) == (Confidence.CERTAIN if key != ("olmo", "nometa-00000") else Confidence.NAME)
    options = format_.read_options(**SCANNED.get(key, TOLD.get(key, {})))
    codes = [finding.code for finding in format_.audit(path, options, Audit(deep=True))]
    assert codes == UPSTREAM_FAILS.get(key[1], [])
    for section in format_.sections(path, options):
        assert not any(field.wrong for field in section.fields(0, min(section.count, 99)))


def olmo(path, documents):
    """Rows for documents as they are."""
    bounds = np.cumsum([0, *map(len, documents)])
    np.concatenate(documents).astype("<u2").tofile(path)
    rows = "".join(f"{a},{b}\n" for a, b in zip(bounds, bounds[1:], strict=False))
    path.with_suffix(".csv.gz").write_bytes(gzip.compress(rows.encode()))
    return path
