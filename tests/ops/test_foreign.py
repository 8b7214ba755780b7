"""What no format reads is named by its magic or by its numbers, with the next step, and never as one of the formats."""

import numpy as np
import pytest
import registered

import tokfmt
from tokfmt.core.errors import TokfmtError


@pytest.mark.parametrize("name", registered.names())
def test_any_path_read_as_any_format_gives_data_or_an_error(tmp_path, name):
    """A file instead of a folder, a folder instead of a file, or a missing path."""
    for path in ("text.jsonl", "empty", "folder/x.bin"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(b"" if path == "empty" else b'{"text": "one"}\n' * 9)
    (tmp_path / "nothing").mkdir()
    for path in ("text.jsonl", "empty", "folder", "nothing", "nowhere"):
        for verb in (tokfmt.stats, tokfmt.check):
            try:
                verb(tmp_path / path, format=name)
            except TokfmtError as error:
                assert path in str(error)


RNG = np.random.default_rng(8)
IDS = np.minimum(RNG.zipf(1.2, 40_000), 50_256)
WEIGHTS = RNG.normal(0, 0.02, 40_000)
BFLOAT16 = (WEIGHTS.astype("<f4").view("<u4") >> 16).astype("<u2")


@pytest.mark.parametrize("name", ["x.bin", "x"])
@pytest.mark.parametrize("dtype", ["<u2", ">u2", "<i8", ">i4"])
def test_a_stream_without_a_header_only_looks_like_one(tmp_path, name, dtype):
    (tmp_path / name).write_bytes(IDS.astype(dtype).tobytes())
    with pytest.raises(TokfmtError, match=f"{name}: looks like a bare stream of .*token IDs"):
        tokfmt.info(tmp_path / name)


@pytest.mark.parametrize("name", ["x.bin", "x", "train.bin"])
@pytest.mark.parametrize(
    "content",
    [*(WEIGHTS.astype(dtype) for dtype in ("<f4", ">f4", "<f8", "<f2")), BFLOAT16],
    ids=["f4", "big-endian", "f8", "f2", "bfloat16"],
)
def test_floating_point_numbers(tmp_path, name, content):
    (tmp_path / name).write_bytes(content.tobytes())
    with pytest.raises(TokfmtError, match="looks like floating-point numbers"):
        tokfmt.info(tmp_path / name)


@pytest.mark.parametrize(
    ("magic", "words"),
    [(b"\x89PNG\r\n\x1a\n", r"PNG"), (b"\x7fELF\2\1\1\0", "ELF"), (b"\xff\xd8\xff\xe0", "JPEG"), (b"%PDF-1.7", "PDF")],
)
@pytest.mark.parametrize("name", ["x", "train.bin"])
def test_magic_numbers_of_other_files(tmp_path, magic, words, name):
    (tmp_path / name).write_bytes(magic + RNG.bytes(80_000))
    with pytest.raises(TokfmtError, match=f"is an? .*{words}.*not token IDs"):
        tokfmt.info(tmp_path / name)


@pytest.mark.parametrize("dtype", ["<u2", ">u2"])
def test_unknown_magic_number(tmp_path, dtype):
    """The numbers behind it look like token IDs. Both are said: the magic number, and how a bare stream is read."""
    (tmp_path / "x").write_bytes(b"ZAP1" + bytes(4) + IDS.astype(dtype).tobytes())
    with pytest.raises(TokfmtError, match="looks like a file of another format.*ZAP1.*If it is a bare stream"):
        tokfmt.info(tmp_path / "x")


@pytest.mark.parametrize("dtype", ["<u2", "<u4", "<i4", "<i8"])
def test_numpy_array(tmp_path, dtype):
    """The option that is named reads it."""
    np.save(tmp_path / "tokens.npy", np.array([0, 5, 6, 0, 7], dtype))
    with pytest.raises(TokfmtError, match="numpy array.*llmc") as raised:
        tokfmt.info(tmp_path / "tokens.npy")
    assert "which tokfmt does not read" not in str(raised.value)
    with tokfmt.open(tmp_path / "tokens.npy", format="llmc", eos=0) as dataset:
        assert [ids.tolist() for ids in dataset] == [[5, 6], [7]]


@pytest.mark.parametrize("array", [np.zeros((2, 3), "<u2"), np.zeros(5, "<f4"), np.zeros(5, ">u2")], ids=str)
def test_numpy_array_that_no_option_reads(tmp_path, array):
    np.save(tmp_path / "tokens.npy", array)
    with pytest.raises(TokfmtError, match="numpy array.*which tokfmt does not read"):
        tokfmt.info(tmp_path / "tokens.npy")
