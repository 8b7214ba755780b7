"""How many chunks of an HDF5 file commands decode. A chunk is the only thing of such a file that takes long to read."""

import deflate
import h5py
import numpy as np
import pytest
from amount import pairs
from browsing import browse
from made_corpora import text_like

import tokfmt

EOS = 50256
CHUNKS, WIDTH = 300, 64
LONG_CHUNKS, LONG_WIDTH = 6000, 1024
"""Samples of 72 MB: above 64 MiB, tokfmt does not keep what it decodes, and `show` looks at 24 MiB at most."""
LOOKED_AT = (24 << 20) // (12 * LONG_WIDTH)


def samples(path, count, width, level=4):
    """A file of overlapping samples in which nothing states how they continue each other: a chunk for each."""
    ids = text_like(count * width + 1)
    inputs, labels = ids[:-1].reshape(count, width), ids[1:].reshape(count, width)
    with h5py.File(path, "w") as file:
        rows = np.stack([inputs, np.ones_like(inputs), labels], axis=1)
        file.create_dataset("data", data=rows, chunks=(1, 3, width), compression="gzip", compression_opts=level)
        file.attrs["n_examples"] = count
    return path


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("decodes")
    samples(home / "other.h5", CHUNKS, WIDTH)
    tokfmt.convert(home / "other.h5", home / "own.h5", eos=EOS, seq_len=WIDTH)
    samples(home / "long.h5", LONG_CHUNKS, LONG_WIDTH, level=0)
    tokfmt.convert(home / "long.h5", home / "own_long.h5", eos=EOS, seq_len=LONG_WIDTH)
    return home


@pytest.fixture
def decoded(monkeypatch):
    """The number of chunks that were decoded, in a list of one."""
    count, decompress = [0], deflate.zlib_decompress

    def counted(*args):
        count[0] += 1
        return decompress(*args)

    monkeypatch.setattr(deflate, "zlib_decompress", counted)
    return count


def shown(path, selection, **given):
    preview = tokfmt.show(path, selection, **given)
    return [one.ids for one in preview.shown]


SAMPLES = {"options": {"view": "samples"}}
COMMANDS = {
    "show": lambda path, _: shown(path, 5, eos=EOS),
    "show the last": lambda path, _: shown(path, -1, eos=EOS),
    "info": lambda path, _: tokfmt.info(path, eos=EOS),
    "stats": lambda path, _: tokfmt.stats(path, eos=EOS),
    "convert": lambda path, out: tokfmt.convert(path, out / "x.pbin", eos=EOS),
    "read": lambda path, _: list(tokfmt.open(path, eos=EOS)),
}


@pytest.mark.parametrize(("command", "name"), pairs(COMMANDS, ["own", "other"]))
def test_a_command_decodes_each_chunk_once(home, tmp_path, decoded, name, command):
    COMMANDS[command](home / f"{name}.h5", tmp_path)
    assert decoded[0] <= CHUNKS + 1


@pytest.mark.parametrize(("name", "most"), [("own", 1), ("other", 65), ("own_long", 1), ("long", 65)])
def test_a_stored_sample_takes_one_chunk_and_64_that_show_what_its_mask_means(home, decoded, name, most):
    shown(home / f"{name}.h5", 5, **SAMPLES)
    assert decoded[0] <= most


@pytest.mark.parametrize(
    ("name", "command", "most"),
    [
        ("own_long", "show", 32),
        ("own_long", "info", 256),
        ("long", "show", LOOKED_AT + 200),
        ("long", "info", LOOKED_AT + 200),
        ("own_long", "convert", 2.1 * LONG_CHUNKS),
        ("long", "convert", 3.1 * LONG_CHUNKS),
    ],
)
def test_of_a_long_file_a_few_sequences_take_few_chunks(home, tmp_path, decoded, name, command, most):
    """A conversion looks at samples, then for separators, and then reads."""
    COMMANDS[command](home / f"{name}.h5", tmp_path)
    assert decoded[0] <= most


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("name", ["own", "other"])
def test_a_check_decodes_each_chunk_once_for_findings_and_once_for_counts(home, decoded, name, deep):
    (report,) = tokfmt.check(home / f"{name}.h5", deep=deep, eos=EOS)
    assert not report.errors
    assert decoded[0] <= 2 * (CHUNKS + 1)


@pytest.mark.parametrize("name", ["own", "other"])
def test_the_first_screen_decodes_each_chunk_once_for_each_of_four_openings(home, decoded, name):
    async def steps(app, press):
        assert decoded[0] <= 4 * (CHUNKS + 1)

    browse([home / f"{name}.h5"], steps)


@pytest.mark.parametrize(("chunk", "most"), [((1, 3, WIDTH), 2), ((16, 3, WIDTH), 1), ((5, 1, WIDTH // 2), 6)])
def test_tokens_masks_and_labels_of_rows_take_the_chunks_that_hold_them_once(tmp_path, decoded, chunk, most):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        rows = np.ones((CHUNKS, 3, WIDTH), "<i4")
        file.create_dataset("data", data=rows, chunks=chunk, compression="gzip")
        file.attrs["n_examples"] = CHUNKS
    with tokfmt.open(path, options=["view=samples", "mask=loss"], eos="none") as dataset:
        decoded[0] = 0
        for ask in (dataset.reader.tokens, dataset.reader.masks, dataset.reader.labels):
            ask(100 * WIDTH + 3, 102 * WIDTH - 1)
    assert decoded[0] <= most
