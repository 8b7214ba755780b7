"""The signatures of tokfmt's formats: which files are shown to which format. One row per format.

A file that fits no row of a format is not shown to it, and the format is not imported. `Format.sniff` of those that are
asked decides. For another variant of a format, add here what its files begin with, or how they are named, and then to
`sniff` of the format, or `recognize` of a flat one, what makes it certain. The formats without a row, modalities and
stage1, see every file.
"""

from tokfmt.core.format import Signature

_SKIPPED = tuple(bytes([0x50 + number]) + b"\x2a\x4d\x18" for number in range(16))
"""The magic numbers of frames that a zstandard decoder skips; RFC 8878, 3.1.2. Files of pzstd begin with one."""

SIGNATURES = {
    "array": Signature((".npy", ".npz", ".bin"), starts=(b"\x93NUMPY", b"PK\3\4", b"\x89HDF")),
    "arrayrecord": Signature((".array_record", ".arrayrecord"), starts=(b"\x83\xaf\x70\xd1",)),
    "arrow": Signature((".arrow",), starts=(b"ARROW1", b"\xff\xff\xff\xff")),
    "datatrove": Signature((".ds",)),
    "flat-tokens": Signature((".zarr",), starts=(b"PK\3\4",)),
    "hdf5": Signature((".h5",), starts=(b"\x89HDF",), at=(0, *(512 << k for k in range(7)))),
    "internevo": Signature((".bin",)),
    "jsonl": Signature((".json", ".ndjson"), text=True, starts=(b"\x1f\x8b", b"\x28\xb5\x2f\xfd", *_SKIPPED)),
    "levanter": Signature(),
    "litdata": Signature(),
    "litgpt-packed": Signature(starts=(b"LITPKDS",)),
    "llmc": Signature(
        ("_train_", "_val_"),
        starts=tuple(
            number.to_bytes(4, order)
            for number in (20240520, 20240801, 278895051, 20240522, 20240326, 20240327, 20240328)
            for order in ("little", "big")
        ),
    ),
    "mds": Signature((".mds",)),
    "megatron": Signature(("_document.", "_sentence.", ".idx"), beside=".idx", text=True),
    "nanogpt": Signature(("train.bin", "val.bin")),
    "olmo": Signature((".npy",)),
    "parquet": Signature((".parquet", ".pq"), starts=(b"PAR1",)),
    "recipe": Signature(words=(b"tokfmt",)),
    "tfrecord": Signature((".tfrec",), starts=(b"\n",), at=(12,)),  # field 1 of an Example, after the length
    "webdataset": Signature((".tar",), starts=(b"ustar",), at=(257,)),
    "text": Signature((".txt", ".text", ".md", ".markdown", ".rst")),
}
