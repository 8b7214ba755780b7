"""Every fixture of every format has exactly one winner, and the corpus of fixtures is here."""

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import registered
from paths import FIXTURES

import tokfmt
from tokfmt.core.errors import AmbiguousFormatError, FormatError, OptionError, UnknownFormatError
from tokfmt.plugin import Ragged
from tokfmt.testing import write

PACKS = sorted(p for p in (FIXTURES / "modalities").glob("**/*.pbin") if "P0" not in p.name)
LINES = sorted((FIXTURES / "jsonl").glob("*.jsonl")) + sorted((FIXTURES / "text").glob("*.jsonl"))
SAMPLES = sorted(p for p in (FIXTURES / "hdf5").iterdir() if p.is_dir()) + sorted((FIXTURES / "hdf5").glob("*/*.h5"))
STORES = sorted((FIXTURES / "flat-tokens").glob("*.zarr"))
BLOCKS = sorted((FIXTURES / "stage1").iterdir()) if (FIXTURES / "stage1").exists() else []


def test_the_corpus_is_here():
    assert [len(PACKS) >= 40, len(LINES) >= 14, len(SAMPLES) >= 70, len(STORES) >= 11, len(BLOCKS) >= 3] == [True] * 5


def test_imports_of_a_conversion(tmp_path):
    """Only formats that the file can have are imported; no recipes, tokenizers or shuffles."""
    source = write(registered.get("modalities"), tmp_path / "in.pbin", Ragged.of([[1, 2], [3]]), eos_id=50256)
    program = (
        "import sys, tokfmt; tokfmt.convert(*sys.argv[1:], eos=50256); "
        "print(*sorted({'.'.join(name.split('.')[1:3]) for name in sys.modules if name.startswith("
        "('tokfmt.formats.', 'tokfmt.recipes', 'tokfmt.text.', 'tokfmt.run.shuffle'))}))"
    )
    command = [sys.executable, "-c", program, str(source), str(tmp_path / "out.pbin")]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    homes = ("files_ahead", "flat", "index_ends", "folders", "modalities", "pickled_index", "signatures", "stage1")
    assert set(ran.stdout.split()) <= {"text.ingest", "text.long_texts", *(f"formats.{home}" for home in homes)}


def test_imports_of_show(tmp_path):
    """No module of recipes is imported; only the origin of a sequence needs them."""
    source = write(registered.get("modalities"), tmp_path / "in.pbin", Ragged.of([[1, 2], [3]]), eos_id=50256)
    program = "import sys, tokfmt; tokfmt.show(sys.argv[1], '0'); print('tokfmt.recipes' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program, str(source)], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False"]


def test_expected_json_is_json():
    for path in FIXTURES.glob("*/expected.json"):
        assert json.loads(path.read_bytes())


def test_uint16_ids_named_as_stage1(tmp_path):
    """What the file seems to be is said, where its ids are negative as int32."""
    ids = np.minimum(np.random.default_rng(3).zipf(1.2, 40 * 8192), 50_256)
    ids.astype("<u2").tofile(tmp_path / "x.bin")
    with pytest.raises(FormatError, match=r"negative ID at byte \d+: .*x.bin looks like uint16 IDs.*nanogpt"):
        tokfmt.stats(tmp_path / "x.bin", format="stage1")


@pytest.mark.parametrize(
    ("path", "format_"),
    [
        ("llmc/edu_fineweb_train_000001.bin", "llmc"),
        ("llmc/fineweb_val_000000.bin", "llmc"),
        ("modalities/D_2byte_gpt2.pbin", "modalities"),
        ("parquet/int32.parquet", "parquet"),
        ("hdf5/new_shuffled/output_chunk_0.h5", "hdf5"),
        ("jsonl/crlf.jsonl", "jsonl"),
    ],
)
def test_a_format_is_detected_from_content_under_any_name(path, format_, tmp_path):
    copy = tmp_path / "tokens.dat"
    shutil.copy(FIXTURES / path, copy)
    assert tokfmt.check(copy)[0].format == format_


def test_an_llmc_file_of_a_big_endian_machine_is_named_as_such_under_any_name(tmp_path):
    path, header = tmp_path / "tokens.dat", np.zeros(256, ">i4")
    header[:3] = (20240520, 1, 40)
    path.write_bytes(header.tobytes() + np.arange(40, dtype=">u2").tobytes())
    with pytest.raises(FormatError, match="not a token file of llm.c at byte 0.*big-endian"):
        tokfmt.open(path)


def test_a_folder_of_several_datasets_names_one_of_them(tmp_path):
    for name in ("a.pbin", "b.pbin"):
        (tmp_path / name).write_bytes((FIXTURES / "modalities" / "D_2byte_gpt2.pbin").read_bytes())
    with pytest.raises(UnknownFormatError) as caught:
        tokfmt.info(tmp_path)
    assert "such as a.pbin" in caught.value.remedy


def test_a_folder_of_datasets_of_several_formats_names_one_of_them(tmp_path):
    """No format reads all of it, so the choice of a format is not the first remedy."""
    for name in ("hdf5/padded_eos", "megatron/datatrove_00000_tokens.bin", "megatron/datatrove_00000_tokens.idx"):
        path = FIXTURES / name
        for file in path.iterdir() if path.is_dir() else [path]:
            shutil.copy(file, tmp_path)
    with pytest.raises(AmbiguousFormatError) as caught:
        tokfmt.info(tmp_path)
    assert caught.value.candidates == ["hdf5", "megatron"]
    example = re.search(r"Name one of the datasets in it, such as (\S+); with --recursive", str(caught.value))[1]
    assert tokfmt.info(tmp_path / example).sequences > 0
    for one in caught.value.candidates:
        assert f"--from {one}" in str(caught.value)
        assert tokfmt.info(tmp_path, format=one).sequences > 0


@pytest.mark.parametrize(("word", "name"), [("cerebras", "hdf5"), ("seqax", "flat-tokens"), ("parket", "parquet")])
def test_a_format_that_is_called_by_its_owner_is_suggested(word, name):
    with pytest.raises(OptionError) as caught:
        tokfmt.info(FIXTURES, format=word)
    assert str(caught.value).endswith(f"Did you mean {name}?")
