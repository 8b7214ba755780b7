"""Tokens by source in an interval of samples, and padding, against what each sample holds; no token is read for it."""

import json
from typing import Any

import commands
import pytest
from reads import asked_of
from run_goldens import RUNS, recorded, words_of

import tokfmt

NEOX = RUNS / "gpt_neox"
OVERFLOW = {
    "framework": "gpt-neox", "root": str(NEOX), "train_data_paths": "data/lantern",
    "order": "40ns_64sl_1234s_pack_until_overflowpi",
}  # fmt: skip


def counted(path, select, *words):
    done = commands.run("stats", path, "--select", select, "--json", *words, check=0)
    return json.loads(done.stdout)


@pytest.mark.parametrize("select", ["0:100", "100:101", "-20:", ":"])
def test_the_tokens_of_a_run_by_source(select):
    home = RUNS / "megatron_core"
    record = recorded("megatron_core", "expected_blend_single.json")["samples"]
    found = counted(home / "cache_blend", select, *words_of({"root": home}))
    low, high, _ = slice(*(int(end) if end else None for end in (select.split(":") * 2)[:2])).indices(len(record))
    for source in found["sources"]:
        mine = [k for k in range(low, high) if record[str(k)]["source"] == source["name"]]
        assert (source["samples"], source["tokens"]) == (len(mine), 64 * len(mine))
    assert found["sequences"] == high - low and found["padding"]["count"] == 0
    assert found["tokens"] == sum(source["tokens"] for source in found["sources"]) == 64 * (high - low)


@pytest.mark.parametrize("select", ["360:400", "1000:", "7:7", ":-400"])
def test_an_interval_without_a_sample_is_an_error(select, tmp_path):
    """The error names the samples that there are; nothing is written."""
    home = RUNS / "megatron_core"
    options = words_of({"root": home, "consumed": 0})
    for words in (["stats", home / "cache_blend"], ["convert", home / "cache_blend", tmp_path / "out.jsonl"]):
        done = commands.run(*words, f"--select={select}", *options, check=2)
        assert "0 to 359" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_step_outside_of_the_stretch_is_one_for_each_rank(tmp_path):
    """A rank that the run has is not refused, and `samples` is named where one epoch is assumed."""
    (tmp_path / "run.toml").write_text(
        f"tokfmt = 1\n[run]\nframework = 'olmo-core'\ncache = '{RUNS / 'olmo_core' / 'work_fsl'}'\n"
        f"root = '{RUNS / 'olmo_core'}'\npaths = ['data/harbour.npy', 'data/meadow.npy', 'data/lantern.npy']\n"
        "dtype = 'uint16'\neos_token_id = 0\nbatch_size = 8\nworld_size = 2\nsequence_length = 64\n"
    )
    for words, is_named in (([], True), (["--from-opt", "samples=320"], False)):
        of_all, of_rank, of_none = (
            commands.run("show", tmp_path / "run.toml", "--step", step, *rank, *words, check=2).stderr
            for step, rank in ((400, []), (400, ["--rank", 1]), (0, ["--rank", 2]))
        )
        assert of_all == of_rank != of_none
        assert ("samples=" in of_all) == is_named
        facts = json.loads(commands.run("info", tmp_path / "run.toml", "--json", *words, check=0).stdout)
        assert ("samples=" in str(facts)) == is_named


def test_a_conversion_counts_the_padding_of_the_samples_that_it_writes(tmp_path):
    (tmp_path / "run.toml").write_text(
        f"tokfmt = 1\n[run]\nframework = 'mosaic-streaming'\nroot = '{RUNS / 'mosaic_streaming'}'\n"
        "streams = ['mds/harbour', 'mds/meadow']\nshuffle = true\nbatch_size = 8\nworld_size = 2\n"
    )
    run = tokfmt.open(tmp_path / "run.toml")
    done = tokfmt.convert(tmp_path / "run.toml", tmp_path / "out.jsonl", select="3:9")
    real = counted(tmp_path / "run.toml", "3:9")["tokens"]
    assert 0 < done.padded == 6 * run.info.sample_length - real


def heads_of(asked):
    """The reads of data, each of which is of the beginning of a file, that tells a page of a server from tokens."""
    reads = [(name, first, length) for name, first, length in asked.reads if name.endswith(".bin")]
    assert all(first == 0 and length <= 8192 for _, first, length in reads)
    return reads


def test_no_token_is_read():
    """The order files are read where the samples are, and of the data the indexes, and the heads when they are opened."""
    home = RUNS / "megatron_core"
    with asked_of(home) as asked:
        counted(home / "cache_blend", "300:360", *words_of({"root": home}))
    assert len(heads_of(asked)) == 3
    assert 0 < asked.bytes_of("index.npy") < 20_000
    with asked_of(home) as asked:
        tokfmt.stats(home / "cache_blend", options={"root": str(home)}, select=slice(0, 10))
    assert len(heads_of(asked)) == 3


def test_a_stretch_counts_its_own_samples():
    home = RUNS / "megatron_core"
    both = [counted(home / "cache_blend", select, *words_of({"root": home})) for select in ("0:170", "0:160")]
    one = counted(home / "cache_blend", "0:10", *words_of({"root": home, "consumed": 160}))
    assert [source["tokens"] for source in one["sources"]] == [
        more["tokens"] - less["tokens"] for more, less in zip(*(each["sources"] for each in both), strict=True)
    ]


def test_steps_are_those_of_the_run(tmp_path):
    """`--step` counts from the run, wherever the stretch began; `--select` from its first sample."""
    home = RUNS / "megatron_core"
    cache, options = home / "cache_blend", {"root": home, "batch_size": 8}
    one = counted(cache, "160:184", *words_of(options))
    for consumed in (0, 160):
        done = commands.run("stats", cache, "--step", "20:23", "--json", *words_of({**options, "consumed": consumed}))
        assert json.loads(done.stdout)["sources"] == one["sources"]
    found = tokfmt.stats(cache, options={"root": str(home), "batch_size": 8, "consumed": 160}, step=20)
    assert found.datasets[0].sequences == 8
    for words, options, said in (
        (["19"], {"batch_size": 8, "consumed": 160}, "20 to 44"),
        (["45:"], {"batch_size": 8}, "0 to 44"),
        (["3"], {}, "batch_size="),
        (["3", "--select", "0:3"], {"batch_size": 8}, "--select"),
    ):
        done = commands.run("stats", cache, "--step", *words, *words_of({"root": home, **options}), check=2)
        assert said in done.stderr


def test_padding_is_no_token():
    """Samples of whole documents: `info` and an interval count what is read, `stats` finds the same by reading."""
    run = tokfmt.open(NEOX / "data", format="run", options=OVERFLOW)
    record = recorded("gpt_neox", "expected_overflow_noac.json")["samples"]
    words = ("--from", "run", *words_of(OVERFLOW))
    known = json.loads(commands.run("info", NEOX / "data", "--json", *words, check=0).stdout)
    interval = counted(NEOX / "data", ":", *words)
    walked = json.loads(commands.run("stats", NEOX / "data", "--json", *words, check=0).stdout)
    assert known["tokens"] == interval["tokens"] < 64 * len(run)
    assert known["padding"] == interval["padding"]["count"] == walked["padding"]["count"]
    assert known["tokens"] + known["padding"] == 64 * len(run)
    for number, sample in record.items():
        filled = min(64, sum(length for *_, length in sample["pieces"]))
        assert counted(NEOX / "data", f"{number}:{int(number) + 1}", *words)["tokens"] == filled


def test_the_tokens_of_a_recipe_by_source(tmp_path):
    for name, length in (("a", 3), ("b", 7)):
        text = "".join(json.dumps({"input_ids": [7] * length}) + "\n" for _ in range(40))
        (tmp_path / f"{name}.jsonl").write_text(text)
    (tmp_path / "mix.toml").write_text(
        'tokfmt = 1\nseq_len = 8\nto_eos = 0\npack = "document"\n[[source]]\nname = "a"\npath = "a.jsonl"\nweight = 1\n'
        '[[source]]\nname = "b"\npath = "b.jsonl"\nweight = 1\n'
    )
    recipe: Any = tokfmt.open(tmp_path / "mix.toml")
    truth = {"a": 0, "b": 0}
    for sample in range(3, 20):
        for span in recipe.where(sample).spans:
            truth["ab"[span.source]] += span.stop - span.start
    found = counted(tmp_path / "mix.toml", "3:20")
    assert {source["name"]: source["tokens"] for source in found["sources"]} == truth
    assert found["padding"]["count"] == 17 * 8 - sum(truth.values()) > 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--select", "9:3"), "9:3"),
        (("--select", "0:3", "--sample", 5), "--sample"),
        (("--select", "0:3", "--duplicate-groups", "groups.jsonl"), "--duplicate-groups"),
    ],
)
def test_a_wrong_interval_is_an_error(words, said, tmp_path):
    home = RUNS / "megatron_core"
    done = commands.run("stats", home / "cache_blend", *words, *words_of({"root": home}), cwd=tmp_path, check=2)
    assert said in done.stderr


def test_what_has_no_sources_has_no_interval():
    data = RUNS / "megatron_core" / "data" / "harbour.bin"
    done = commands.run("stats", data, "--select", "0:3", check=2)
    assert "convert --select" in done.stderr
    cache = RUNS / "megatron_core" / "cache_blend"
    commands.run("stats", cache, cache, "--select", "0:3", *words_of({"root": RUNS / "megatron_core"}), check=2)
