"""What commands say of a separator: how it is known, and how many sequences have it. All say the same."""

import numpy as np
import pytest
from click.testing import CliRunner

import tokfmt
from tokfmt.cli.main import cli

EOS = 9


def documents(path, sequences):
    """Written by hand: documents with an index of their ends."""
    tokens = np.array([token for one in sequences for token in one], "<u2")
    path.write_bytes(tokens.tobytes())
    path.with_name(f"{path.name}.index").write_bytes(np.cumsum([len(one) for one in sequences], dtype="<u8").tobytes())
    path.with_name(f"{path.name}.metadata").write_text(f"x|2\n{len(tokens)}\n{len(tokens)} T")
    return path


def run(*words):
    done = CliRunner().invoke(cli, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return " ".join(f"{done.stdout} {done.stderr}".split())


@pytest.mark.parametrize(
    ("sequences", "seen"),
    [
        ([[k, EOS] for k in range(1, 8)], "each of 7 sequences ends with it"),
        ([*([k, EOS] for k in range(1, 6)), [7], [8]], "5 of 7 sequences end with it, 2 do not"),
    ],
    ids=["all", "some"],
)
def test_every_command_says_the_same(sequences, seen, tmp_path):
    path = documents(tmp_path / "a.ds", sequences)
    given = ("--eos", EOS)
    sentence = f"{EOS} (--eos; {seen}"
    for words in (
        ("info", path),
        ("show", path),
        ("stats", path),
        ("convert", path, tmp_path / "out.zarr", "--dry-run"),
    ):
        assert sentence in run(*words, *given), words


def test_a_full_walk_has_the_full_numbers(tmp_path):
    """Before it, only those that were looked at are spoken of."""
    count, length = 100_000, 12
    tokens = np.tile(np.array([*range(10, 9 + length), EOS], "<u2"), count)
    path = documents(tmp_path / "a.ds", [[EOS]])
    tokens.tofile(path)
    (np.arange(1, count + 1, dtype="<u8") * length).tofile(tmp_path / "a.ds.index")
    (tmp_path / "a.ds.metadata").write_text(f"x|2\n{len(tokens)}\n{len(tokens)} T")
    found = tokfmt.info(path, eos=EOS)
    assert found.eos_seen == "each of 4,096 sequences that were looked at, of 100,000, ends with it"
    (walked,) = tokfmt.stats(path, eos=EOS).datasets
    assert walked.eos_seen == "each of 100,000 sequences ends with it"
