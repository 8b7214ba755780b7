"""`tokfmt show --raw` and `--samples`, as they are printed."""

import json
import struct

import click
import h5py
import pytest
from click.testing import CliRunner
from paths import FIXTURES, TOKENIZER

from tokfmt.cli.main import cli

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"


def run(*words, **env):
    result = CliRunner().invoke(cli, ["show", *map(str, words)], env=env, catch_exceptions=False)
    assert result.exit_code == 0
    return result


def test_raw_is_aligned_and_explains_bytes():
    out = run(PACK, "--raw").stdout
    raw = PACK.read_bytes()
    lines = out.splitlines()
    header = next(line for line in lines if " data length " in line)
    assert raw[:8].hex(" ") in header and f"{struct.unpack_from('<Q', raw)[0]:,}" in header
    entry = next(line for line in lines if " entry 3 " in line)
    assert "offset 52, length 84" in entry and "tokens 26 to 67" in entry
    index = lines[lines.index("index") + 1 :]
    table = index[: next(k for k, line in enumerate(index) if line.startswith("  …"))]
    assert len({line.index("offset", 20) for line in table[1:]}) == 1
    assert "30 more (--limit N, 0: all)" in out
    assert f"00000000  {raw[:8].hex(' ')}  {raw[8:16].hex(' ')}  " in out
    assert "\x1b" not in out


def test_limit():
    out = run(PACK, "--raw", "--limit", "2").stdout
    assert " entry 1 " in out and " entry 2 " not in out and "40 more" in out


def test_no_limit():
    every = run(PACK, "--raw", "--limit", "0").stdout
    assert " more (--limit" not in every
    assert len(every.splitlines()) > len(run(PACK, "--raw").stdout.splitlines()) + 20
    found = json.loads(run(PACK, "--raw", "--json", "--limit", "0").stdout)
    assert all(len(section["fields"]) == section["count"] for section in found["sections"])


def test_raw_shows_wrong_fields_beyond_the_limit():
    out = run(FIXTURES / "modalities" / "E_D_2byte_gpt2.pbin", "--raw", "--limit", "2").stdout
    marked = [line for line in out.splitlines() if line.startswith("!")]
    assert marked and "entry 5" in marked[0] and "offset should be 204 by the lengths before it" in marked[0]


def test_raw_as_json():
    found = json.loads(run(PACK, "--raw", "--json", "--limit", "3").stdout)
    assert (found["schema"], found["format"]) == ("tokfmt.show-raw/1", "modalities")
    index = next(section for section in found["sections"] if section["title"] == "index")
    assert index["count"] == 42 and len(index["fields"]) == 3
    field = index["fields"][1]
    assert field["bytes"] == PACK.read_bytes()[field["offset"] : field["offset"] + field["length"]].hex()
    assert field["wrong"] is False


def test_raw_takes_no_sequences():
    """A number that would be ignored is refused."""
    with pytest.raises(click.UsageError, match="--raw prints files, not sequences. Leave '2' out"):
        CliRunner().invoke(cli, ["show", str(PACK), "2", "--raw"], standalone_mode=False, catch_exceptions=False)


NEW_HDF5 = pytest.mark.skipif(h5py.version.hdf5_version_tuple < (2,), reason="HDF5 before 2.0 cannot read this file")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("modalities/cut_in_the_data.pbin", ("no index begins at byte",)),
        ("modalities/opcode_global.pbin", ("GLOBAL",)),
        ("hdf5/cut_half.h5", ("it was cut", "shorter than its superblock states")),
        pytest.param("hdf5/chunk_garbage.h5", ("does not inflate",), marks=NEW_HDF5),
        ("flat-tokens/chunk_truncated", ("ends before its blosc data does",)),
        ("flat-tokens/meta_not_json", ("not valid JSON",)),
        ("jsonl/latin1.jsonl", ("not UTF-8",)),
        ("stage1/cut_3.bin", ("ends inside a token",)),
    ],
)
def test_raw_of_broken_files(path, words):
    format_ = path.partition("/")[0]
    out = run(FIXTURES / "bad" / path, "--raw", "--from", format_).stdout
    marked = "\n".join(line for line in out.splitlines() if line.startswith("!"))
    assert all(word in marked for word in words)


def test_samples_lie_under_each_other():
    out = run(FIXTURES / "hdf5" / "packed_overlap", "1", "--samples", "--eos", "50256", COLUMNS="70").stdout
    lines = out.splitlines()
    assert lines[0].startswith("#1  128 tokens, 128 counted in the loss")
    rows = dict.fromkeys(("input_ids", "mask", "labels"), "")
    for line in lines[1:]:
        assert len(line) <= 70
        name = line[:10].strip()
        if name in rows:
            rows[name] += " " + line[11:].replace("│", " ")
    ids, labels = (list(map(int, rows[name].split())) for name in ("input_ids", "labels"))
    assert len(ids) == 128 and ids[1:] == labels[:-1]
    blocks = out.split("\n\n")
    for block in blocks:
        table = [line for line in block.splitlines() if line[:10].strip() in rows]
        ends = [
            {k for k, char in enumerate(line) if char != " " and line[k + 1 : k + 2] in (" ", "", "│")}
            for line in table
        ]
        assert ends[0] & ends[2] - {9}  # numbers end in the same columns


def test_borders_and_padding():
    path = FIXTURES / "hdf5" / "vsl_old"
    out = run(path, "0", "--samples").stdout
    assert "2 documents beginning inside" in out and out.count("│") >= 8
    padded = FIXTURES / "hdf5" / "padded_eos"
    assert "93 more padding IDs (--full)" in run(padded, "0", "--samples").stdout
    assert "more padding" not in run(padded, "0", "--samples", "--full").stdout


def test_samples_with_text_and_as_json():
    path = FIXTURES / "stage1" / "in.bin"
    out = run(path, "0", "--samples", "--from", "stage1", "--tokenizer", TOKENIZER, "--eos", "50000").stdout
    assert "      text " in out and "     mask" not in out
    found = json.loads(run(FIXTURES / "hdf5" / "padded_eos", "0:2", "--samples", "--json").stdout)
    assert (found["schema"], found["samples"], len(found["shown"])) == ("tokfmt.show-samples/1", 94, 2)
    sample = found["shown"][0]
    assert len(sample["input_ids"]) == len(sample["mask"]) == len(sample["labels"]) == 128
    assert sample["padding"] == 96
