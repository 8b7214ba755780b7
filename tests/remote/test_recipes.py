"""Recipes in a bucket, and training from one: the samples of local files, through faults of the server, or an error."""

import shutil
from typing import Any

import numpy as np
import pytest
from amount import only
from click.testing import CliRunner
from paths import FIXTURES, TOKENIZER
from remote.conftest import forget
from stores import close_stores

import tokfmt
from tokfmt.cli.main import cli
from tokfmt.errors import FormatError, UnreachableError, UnsafeError

RECIPE = """tokfmt = 1
seq_len = 64
seed = 1
shuffle = "samples"
[[source]]
name = "pack"
path = "modalities/D_2byte_gpt2.pbin"
weight = 0.5
[[source]]
name = "pair"
path = {pair}
weight = 0.5
"""


@pytest.fixture
def mix(fresh, bucket, tmp_path, monkeypatch):
    """The same recipe in the bucket and in a local directory."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    for home, pair in ((bucket, '"s3://bkt/megatron/gpt2_text_document.bin"'), (tmp_path / "here", '["megatron/gpt2_text_document.bin"]')):  # fmt: skip
        for name in ("modalities", "megatron"):
            shutil.copytree(FIXTURES / name, home / name)
        (home / "mix.toml").write_text(RECIPE.format(pair=pair))
    return "s3://bkt/mix.toml", tmp_path / "here/mix.toml"


def samples_of(recipe) -> Any:
    return tokfmt.open(recipe)


def test_every_sample(mix):
    stored, local = map(samples_of, mix)
    assert [{k: v.tolist() for k, v in one.items()} for one in stored] == [
        {k: v.tolist() for k, v in one.items()} for one in local
    ]


def test_paths_are_seen_from_the_place_of_the_recipe(mix, bucket):
    """A recipe names what is in its bucket, and nothing else unless the user accepts it."""
    (bucket / "deep/er").mkdir(parents=True)
    text = (bucket / "mix.toml").read_text()
    (bucket / "deep/er/mix.toml").write_text(text.replace('"modalities', '"../../modalities'))
    assert [one["input_ids"].tolist() for one in tokfmt.open("s3://bkt/deep/er/mix.toml")] == [
        one["input_ids"].tolist() for one in tokfmt.open(mix[1])
    ]
    for outside in (str(FIXTURES / "modalities"), "../../../other/x", "s3://other/x"):
        (bucket / "mix.toml").write_text(text.replace("modalities/D_2byte_gpt2.pbin", outside))
        with pytest.raises(UnsafeError, match="^s3://bkt/mix.toml: names .* which is outside of s3://bkt"):
            tokfmt.open("s3://bkt/mix.toml")


def test_a_recipe_is_written_to_a_store(mix, bucket):
    """It names what is in its store, by addresses."""
    source = "s3://bkt/modalities/D_2byte_gpt2.pbin"
    words = ["recipe", f"a={source}:1", "--seq-len", "32", "-o", "s3://bkt/new/mix.toml"]
    assert CliRunner().invoke(cli, words).exit_code == 0
    assert [path.name for path in (bucket / "new").iterdir()] == ["mix.toml"]
    wanted = tokfmt.recipe([source], seq_len=32)
    assert [one["input_ids"].tolist() for one in samples_of("s3://bkt/new/mix.toml")] == [
        one["input_ids"].tolist() for one in wanted
    ]
    assert "already exists" in str(CliRunner().invoke(cli, words).exception)
    for other, words in (
        (str(FIXTURES / "modalities/D_2byte_gpt2.pbin"), "names no local file"),
        ("s3://other/x.pbin", "is outside of s3://bkt"),
    ):
        refused = CliRunner().invoke(cli, ["recipe", other, "--seq-len", "32", "-o", "s3://bkt/no.toml"])
        assert words in str(refused.exception) and not (bucket / "no.toml").exists()


def test_a_recipe_is_small(fresh, bucket):
    with open(bucket / "mix.toml", "wb") as file:
        file.write(b"tokfmt = 1\n" + b"#" * (16 << 20))
    with pytest.raises(FormatError, match=r"^s3://bkt/mix.toml: is too long for a recipe"):
        tokfmt.open("s3://bkt/mix.toml")
    assert sum(one.stop - one.start for one in fresh.bodies()) < 1 << 20


LARGE = """tokfmt = 1
seq_len = 100
seed = 1
shuffle = "samples"
[[source]]
path = "train.bin"
format = "nanogpt"
eos = 0
"""


@pytest.fixture
def large(fresh, bucket, tmp_path, monkeypatch):
    """A recipe of 100,000 sequences, in the bucket and in a local directory."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    ids = np.random.default_rng(0).integers(1, 50_000, (100_000, 8), dtype="<u2")
    ids[:, -1] = 0
    (tmp_path / "here").mkdir()
    for home in (bucket, tmp_path / "here"):
        ids.tofile(home / "train.bin")
        (home / "mix.toml").write_text(LARGE)
    return "s3://bkt/mix.toml", tmp_path / "here/mix.toml"


def test_facts_on_a_source_are_kept_by_the_identity_of_its_object(large, fresh, bucket):
    """Opened again, a source of many sequences is not read; when its object changes, it is."""
    key = "bkt/train.bin"
    tokfmt.open(large[0])
    assert len(fresh.bodies(key)) > 1
    forget()
    del fresh.seen[:]
    tokfmt.open(large[0])
    assert not [one for one in fresh.bodies(key) if one.start], "only its status, which is its first block"
    content = bytearray((bucket / "train.bin").read_bytes())
    content[15] ^= 1
    (bucket / "train.bin").write_bytes(content)
    forget()
    changed, local = tokfmt.open(large[0]), tokfmt.open(large[1])
    assert sum(not np.array_equal(a["input_ids"], b["input_ids"]) for a, b in zip(changed, local, strict=True)) == 1


@pytest.mark.parametrize("fault", only(["503", "cut"], ["503", "reset", "cut", "stalled body", "stalled head"]))
def test_a_server_that_recovers_while_samples_are_read(large, fresh, monkeypatch, fault):
    monkeypatch.setenv("TOKFMT_RETRY_TIMEOUT", "60")  # a body that stalls is asked for again after 15 seconds
    close_stores()
    local, reading = (samples_of(path) for path in large)
    forget()
    fresh.faults["bkt/train.bin"] = [fault]
    for number in range(0, len(local), 500):
        assert np.array_equal(reading[number]["input_ids"], local[number]["input_ids"])
    assert not any(fresh.faults.values()), "a fault met a request"


@pytest.fixture
def loader():
    return pytest.importorskip("tokfmt.torch").Loader


def batches(loader):
    return [batch["input_ids"].tolist() for batch in loader]


def test_ranks_read_what_they_read_of_local_files(mix, loader):
    for rank in range(2):
        stored, local = (loader(path, batch_size=8, rank=rank, world_size=2, prefetch=4) for path in mix)
        assert batches(stored) == batches(local)


def test_training_goes_on_where_it_was(mix, loader):
    whole = batches(loader(mix[1], batch_size=8))
    first = loader(mix[0], batch_size=8, prefetch=3)
    seen = [batch["input_ids"].tolist() for _, batch in zip(range(3), first, strict=False)]
    second = loader(mix[0], batch_size=8, prefetch=3)
    second.load_state_dict(first.state_dict())
    assert seen + batches(second) == whole


def test_a_server_that_fails_for_good_ends_training(large, loader, fresh):
    reading = loader(large[0], batch_size=800, prefetch=2)
    forget()
    fresh.forever["bkt/train.bin"] = "503"
    with pytest.raises(UnreachableError, match="^s3://bkt/train.bin: cannot be reached"):
        batches(reading)
    fresh.forever.clear()
    again = loader(large[0], batch_size=800)
    again.load_state_dict(reading.state_dict())
    assert batches(again) == batches(loader(large[1], batch_size=800)), "no sample counts as handed out"


def test_rejects_name_files_as_those_of_a_local_recipe(fresh, bucket, tmp_path):
    """Relative to the directory of the recipe, so that the bytes are equal."""
    text = 'tokfmt = 1\ntokenizer = "../tokenizer"\n[filter.short]\nmin_words = 3\n[[source]]\n'
    for home in (bucket / "deep", tmp_path / "deep"):
        (home / "er").mkdir(parents=True)
        shutil.copytree(TOKENIZER, home / "tokenizer")
        for name in ("a.jsonl", "er/b.jsonl"):
            (home / name).write_text('{"text": "one two three four"}\n{"text": "one"}\n')
        source = text + 'filter = "short"\npath = ["../a.jsonl", "b.jsonl"]\n'
        (home / "er/mix.toml").write_text(source)
    for home in ("s3://bkt", tmp_path):
        tokfmt.convert(f"{home}/deep/er/mix.toml", f"{home}/out.pbin", rejects=f"{home}/out.jsonl")
    assert (bucket / "out.jsonl").read_bytes() == (tmp_path / "out.jsonl").read_bytes() != b""
