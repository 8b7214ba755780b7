"""When a sequence was read: `show --seen` of recipes and runs, against what each sample says of itself."""

import json
import tracemalloc
from typing import Any

import commands
import numpy as np
import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import TOKENIZER
from run_goldens import RUNS, recorded, words_of

import tokfmt
from tokfmt.errors import FormatError, ShortfallError

LENGTHS = st.lists(st.integers(0, 11), min_size=1, max_size=12)


def seen(path, query, *words):
    done = commands.run("show", path, "--seen", query, "--json", *words, check=0)
    return json.loads(done.stdout)["reads"]


def written(path, lengths):
    """A corpus of token IDs with the given lengths."""
    path.write_text("".join(json.dumps({"input_ids": [7] * length}) + "\n" for length in lengths))


@pytest.mark.parametrize("name", ["expected_blend_single.json", "expected_noweights_exhaustive.json"])
def test_every_document_of_a_run(name):
    """The samples that hold a document are those in whose recorded pieces it is."""
    cache = "cache_blend" if "blend" in name else "cache_noweights_exhaustive"
    home, truth = RUNS / "megatron_core", {}
    for number, sample in recorded("megatron_core", name)["samples"].items():
        for document, _, length in sample["pieces"]:
            if length:
                truth.setdefault((sample["source"], document), set()).add(int(number))
    words = words_of({"root": home})
    for (source, document), samples in sorted(truth.items())[::7]:
        found = seen(home / cache, f"{source}#{document}", *words)
        assert [one["sample"] for one in found] == sorted(samples)


def test_a_rank_is_not_known_unless_ranks_are_stated():
    home = RUNS / "megatron_core"
    for stated, rank in (({}, None), ({"world_size": 1}, 0)):
        found = seen(home / "cache_blend", "meadow#2", *words_of({"root": home, "batch_size": 8, **stated}))
        assert {one["rank"] for one in found} == {rank}
        about = tokfmt.info(home / "cache_blend", options={"root": str(home), "batch_size": "8", **stated})
        assert about.extras["steps"] == "0 to 44"
        assert about.extras["batch size"] == "8"
        assert about.extras.get("ranks") == stated.get("world_size")


def test_step_rank_and_epoch_of_a_run():
    home = RUNS / "megatron_core"
    words = ("--batch-size", 8, "--world-size", 2, *words_of({"root": home, "micro_batch_size": 2}))
    found = seen(home / "cache_blend", "harbour#3", *words)
    assert [(one["step"], one["rank"], one["epoch"]) for one in found] == [(2, 1, 0), (31, 0, 0)]
    assert [one["step"] for one in seen(home / "cache_blend", "harbour#3", "--before", 31, *words)] == [2]


def test_passes_count_input_tokens():
    """A token that was only a last label has not been read before: it is the first input of the next window."""
    home, before, truth = RUNS / "megatron_core", {}, []
    record = recorded("megatron_core", "expected_blend_single.json")["samples"]
    for number, sample in sorted(record.items(), key=lambda one: int(one[0])):
        used = 0
        for document, offset, length in sample["pieces"]:
            inputs = (
                range(offset, offset + min(length, 64 - used)) if (sample["source"], document) == ("meadow", 51) else ()
            )
            if inputs:
                truth.append((int(number), max(before.get(token, 0) for token in inputs)))
                before.update({token: before.get(token, 0) + 1 for token in inputs})
            used += length
    found = seen(home / "cache_blend", "meadow#51", *words_of({"root": home}))
    assert [(one["sample"], one["epoch"]) for one in found] == truth
    assert {epoch for _, epoch in truth} == {0, 1, 2}


@settings(max_examples=examples(60), deadline=None)
@given(
    lengths=st.tuples(LENGTHS, LENGTHS),
    how=st.fixed_dictionaries(
        {
            "pack": st.sampled_from(["stream", "document", "bestfit"]),
            "shuffle": st.sampled_from(["none", "samples", "documents"]),
            "seed": st.integers(0, 3),
            "weighted": st.booleans(),
            "epochs": st.integers(1, 3),
        }
    ),
)
def test_a_recipe_read_what_its_samples_hold(tmp_path_factory, lengths, how):
    """For each sequence, the samples and passes are those whose spans name it, and no others."""
    home = tmp_path_factory.mktemp("mix")
    for name, some in zip("ab", lengths, strict=True):
        written(home / f"{name}.jsonl", some)
    weights = ("weight = 2\n", "weight = 1\n") if how["weighted"] else ("", "")
    (home / "mix.toml").write_text(
        f'tokfmt = 1\nseq_len = 5\nto_eos = 0\npack = "{how["pack"]}"\nshuffle = "{how["shuffle"]}"\n'
        f"seed = {how['seed']}\nepochs = {how['epochs']}\n"
        + "".join(
            f'[[source]]\nname = "{name}"\npath = "{name}.jsonl"\n{weight}'
            for name, weight in zip("ab", weights, strict=True)
        )
    )
    try:
        recipe: Any = tokfmt.open(home / "mix.toml")
    except (FormatError, ShortfallError):
        return  # a source without a token gives no sample
    truth = {}
    for sample in range(len(recipe)):
        where = recipe.where(sample)
        for span in where.spans:
            truth.setdefault((span.source, span.sequence), set()).add((sample, where.epoch))
    for source, some in enumerate(lengths):
        for number in range(len(some)):
            found = seen(home / "mix.toml", f"{'ab'[source]}#{number}")
            assert {(one["sample"], one["epoch"]) for one in found} == truth.get((source, number), set())


PATHS = 'paths = ["data/harbour.npy", "data/meadow.npy", "data/lantern.npy"]\ndtype = "uint16"\neos_token_id = 0\n'
READ = [
    ("megatron_core", 'framework = "megatron-core"\ncache = "CACHE/cache_blend"\n', "meadow"),
    ("megatron_lm_23.06", 'framework = "megatron-lm"\ncache = "CACHE/cache"\n', "meadow"),
    ("gpt_neox", 'framework = "gpt-neox"\ndata_path = ["data/meadow"]\norder = "40ns"\n', "meadow"),
    ("nanotron_nanoset", 'framework = "nanoset"\ndataset_folders = ["data/harbour"]\nseed = 1\nsequence_length = 32\n', "harbour"),
    ("mosaic_streaming", 'framework = "mosaic-streaming"\nstreams = ["mds/harbour"]\nshuffle = true\n', "harbour"),
    ("litdata", 'framework = "litdata"\ninput_dir = "data/harbour"\nshuffle = true\n', "harbour"),
    ("olmo_core", f'framework = "olmo-core"\ncache = "CACHE/work_fsl"\nsequence_length = 64\n{PATHS}', "meadow"),
    ("olmo1", f'framework = "olmo"\ndrop_last = true\nseed = 1234\nsequence_length = 64\n{PATHS}', "meadow"),
]  # fmt: skip


@pytest.mark.parametrize(("of_set", "facts", "source"), READ, ids=[name for name, *_ in READ])
def test_several_sequences_were_read_where_each_of_them_was(of_set, facts, source, tmp_path):
    home, file = RUNS / of_set, tmp_path / "run.toml"
    facts = facts.replace("CACHE", str(home))
    file.write_text(f'tokfmt = 1\n[run]\nroot = "{home}"\nbatch_size = 8\n{facts}')
    of_each = {number: seen(file, f"{source}#{number}") for number in range(3, 7)}
    assert any(of_each.values())

    def union(*numbers):
        return sorted(json.dumps(one) for number in numbers for one in of_each[number])

    for query, numbers in (("3,6", (3, 6)), ("seq:5,4", (4, 5)), ("3:7", (3, 4, 5, 6)), ("6:7", (6,))):
        assert sorted(map(json.dumps, seen(file, f"{source}#{query}"))) == union(*numbers)
    for queries, numbers in ((("3", "5"), (3, 5)), (("3,4", "4:6"), (3, 4, 5))):
        found = seen(file, f"{source}#{queries[0]}", "--seen", f"{source}#{queries[1]}")
        assert sorted(map(json.dumps, found)) == union(*numbers)
        assert [one["sample"] for one in found] == sorted(one["sample"] for one in found)


@pytest.mark.parametrize("of_set", ["olmo_core", "olmo1"])
def test_a_query_finds_documents_of_a_stream(of_set, tmp_path):
    """The documents of files without an index are those between separators."""
    facts = {name: facts for name, facts, _ in READ}[of_set].replace("CACHE", str(RUNS / of_set))
    (tmp_path / "run.toml").write_text(f'tokfmt = 1\n[run]\nroot = "{RUNS / of_set}"\nbatch_size = 8\n{facts}')
    ids = np.fromfile(RUNS / of_set / "data" / "meadow.npy", "<u2")
    lengths = np.diff(np.flatnonzero(ids == 0), prepend=-1) - 1
    longest = sorted(np.flatnonzero(lengths >= np.sort(lengths)[-5]).tolist())
    found = seen(tmp_path / "run.toml", f"meadow#len>={np.sort(lengths)[-5]}")
    assert sorted({one["sequence"] for one in found}) == longest


def test_a_query_names_the_sequences(tmp_path):
    written(tmp_path / "a.jsonl", [3, 9, 4])
    (tmp_path / "mix.toml").write_text(
        'tokfmt = 1\nseq_len = 4\nto_eos = 0\n[[source]]\nname = "a"\npath = "a.jsonl"\n'
    )
    found = seen(tmp_path / "mix.toml", "a#len>3")
    assert {one["sequence"] for one in found} == {1, 2}


def test_the_manifest_of_a_source_names_the_tokenizer_of_a_run(tmp_path):
    """Its text is searched, and printed with the samples of a step."""
    texts = ["All of them sailed", "The harbour was empty", "All of them stayed"]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    commands.run("convert", tmp_path / "a.jsonl", tmp_path / "mds", "--to", "mds", "--tokenizer", TOKENIZER, check=0)
    run = tmp_path / "run.toml"
    run.write_text(
        'tokfmt = 1\n[run]\nframework = "mosaic-streaming"\nstreams = ["mds"]\nbatch_size = 3\nshuffle = false\n'
    )
    assert [one["sequence"] for one in seen(run, "mds#text:'All of'")] == [0, 2]
    assert texts[1] in commands.run("show", run, "--step", 0, check=0).stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--seen", "b#1"), "a"),
        (("--seen", "3"), "SOURCE#"),
        (("--seen", "a#99"), "0 to 2"),
        (("--seen", "a#1", "--before", 3), "--batch-size"),
        (("--seen", "a#1", "--sample", 3), "--sample"),
    ],
)
def test_a_wrong_question_says_what_is_right(tmp_path, words, said):
    written(tmp_path / "a.jsonl", [3, 9, 4])
    (tmp_path / "mix.toml").write_text(
        'tokfmt = 1\nseq_len = 4\nto_eos = 0\n[[source]]\nname = "a"\npath = "a.jsonl"\n'
    )
    done = commands.run("show", tmp_path / "mix.toml", *words, check=2)
    assert said in done.stderr


TOTALS = [
    ("nanotron_nanoset", 'framework = "nanoset"\ndataset_folders = ["data/harbour"]\nseed = 1\nsequence_length = 32\n'),
    ("gpt_neox", 'framework = "gpt-neox"\ndata_path = ["data/meadow"]\norder = "40ns"\n'),
    ("mosaic_streaming", 'framework = "mosaic-streaming"\nstreams = ["mds/harbour"]\nshuffle = true\nbatch_size = 8\n'),
    ("litdata", 'framework = "litdata"\ninput_dir = "data/harbour"\nshuffle = true\nbatch_size = 8\n'),
    ("megatron_core", 'cache = "cache_cyclic"\ndataloader_type = "cyclic"\n'),
]


@pytest.mark.parametrize(("of_set", "facts"), TOTALS, ids=[name for name, _ in TOTALS])
def test_a_huge_total_is_an_error_that_names_it_before_memory_is_taken(of_set, facts, tmp_path):
    source = "meadow" if of_set == "gpt_neox" else "harbour"
    file = tmp_path / "run.toml"
    file.write_text(
        f'tokfmt = 1\n[run]\nroot = "{RUNS / of_set}"\n{facts}'.replace('"cache', f'"{RUNS / of_set}/cache')
    )
    file.write_text(file.read_text() + f"samples = {1 << 40}\n")
    tracemalloc.start()
    try:
        done = commands.run("show", file, "--seen", f"{source}#3")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert done.returncode == 2 and "samples" in done.stderr
    assert peak < 100 << 20
