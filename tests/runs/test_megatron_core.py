"""Runs of Megatron-Core: samples, pieces, steps and ranks as upstream recorded them, and caches that are stale or damaged."""

import json
import shutil

import commands
import numpy as np
import pytest
from run_goldens import RUNS, findings, ids_of, pieces_of, read_by_ranks, recorded, shown, words_of

import tokfmt

SETS = [
    ("megatron_core", "cache_blend", "expected_blend_single.json", {}),
    ("megatron_core", "cache_blend", "expected_blend_valid_all.json", {"split": "valid", "pad_id": 1}),
    ("megatron_core", "cache_cyclic", "expected_cyclic_sharding_true.json", {}),
    ("megatron_core", "cache_noextra", "expected_no_extra_token.json", {"extra_token": "false"}),
    ("megatron_core", "cache_noweights_capped", "expected_noweights_capped.json", {}),
    ("megatron_core", "cache_noweights_exhaustive", "expected_noweights_exhaustive.json", {}),
    *((f"megatron_core_{version}", "cache", "expected_blend.json", {}) for version in ("0.5.0", "0.8.0", "0.12.0")),
]
CYCLIC = {"micro_batch_size": 2, "world_size": 2, "batch_size": 8, "dataloader_type": "cyclic", "samples": 1000}
PHASES = [
    ("blend", "blend_single", "first", {"micro_batch_size": 2, "world_size": 2, "batch_size": 8}),
    ("blend", "blend_single", "resumed", {"micro_batch_size": 1, "world_size": 4, "batch_size": 8, "consumed": 160}),
    ("cyclic", "cyclic_sharding_true", "first", CYCLIC),
    ("cyclic", "cyclic_sharding_true", "resumed", {**CYCLIC, "consumed": 88}),
    ("cyclic", "cyclic_sharding_false", "first", {**CYCLIC, "data_sharding": "false"}),
    ("cyclic", "cyclic_sharding_false", "resumed", {**CYCLIC, "data_sharding": "false", "consumed": 88}),
]


@pytest.mark.parametrize(("of_set", "cache", "name", "options"), SETS, ids=lambda one: str(one)[:40])
def test_every_sample_is_what_upstream_read(of_set, cache, name, options):
    """Row k of the dataset has the IDs of sample k, and its labels are the next IDs."""
    record = recorded(of_set, name)["samples"]
    run = tokfmt.open(RUNS / of_set / cache, options={"root": str(RUNS / of_set), **options})
    assert run.format == "run"
    width = run.info.sample_length
    for number, sample in record.items():
        text, found = sample["text"], run[int(number)].tolist()
        real = sum(length for *_, length in sample["pieces"])
        assert found[: min(real, width)] == text[: min(real, width)]
        assert set(found[real:]) <= {1}


@pytest.mark.parametrize("number", [0, 7, 121, 359])
def test_pieces_are_documents_of_their_sources(number):
    sample = recorded("megatron_core", "expected_blend_single.json")["samples"][str(number)]
    (found,) = shown(RUNS / "megatron_core" / "cache_blend", "--sample", number, root=RUNS / "megatron_core")
    assert pieces_of(found) == [(sample["source"], *piece) for piece in sample["pieces"] if piece[2]]
    assert ids_of(found) == sample["text"]
    assert found["only_labels"] == len(sample["text"]) - 64 == 1


@pytest.mark.parametrize(("cache", "name", "phase", "options"), PHASES, ids=lambda one: str(one)[:30])
def test_each_rank_reads_its_share_of_a_step(cache, name, phase, options):
    record = recorded("megatron_core", f"expected_{name}.json")
    steps = [step for step in record["steps"] if step["phase"] == phase]
    home = RUNS / "megatron_core"
    for step in (steps[0], steps[len(steps) // 2], steps[-1]):
        number = step["step"] if "cyclic" not in name else steps.index(step) + int(options.get("consumed", 0)) // 8
        found = read_by_ranks(home / f"cache_{cache}", number, root=home, **options)
        assert found == [[sample for micro in rank for sample in micro] for rank in step["ranks"]]


def test_a_rank_alone(tmp_path):
    home = RUNS / "megatron_core"
    options = {"root": home, "micro_batch_size": 2, "world_size": 2, "batch_size": 8}
    both = shown(home / "cache_blend", "--step", 3, **options)
    one = shown(home / "cache_blend", "--step", 3, "--rank", 1, **options)
    assert one == [sample for sample in both if sample["rank"] == 1]


def test_a_description_in_toml(tmp_path):
    """The keys of `[run]` are the options; paths are relative to the file; `show` needs nothing else."""
    file = tmp_path / "run.toml"
    home = json.dumps(str(RUNS / "megatron_core"))
    file.write_text(
        f"tokfmt = 1\n[run]\ncache = {json.dumps(str(RUNS / 'megatron_core' / 'cache_blend'))}\nroot = {home}\n"
        "batch_size = 8\nmicro_batch_size = 2\nworld_size = 2\n"
    )
    record = recorded("megatron_core", "expected_blend_single.json")["steps"][5]
    assert read_by_ranks(file, 5) == [[sample for micro in rank for sample in micro] for rank in record["ranks"]]
    shutil.copytree(RUNS / "megatron_core", tmp_path / "moved")
    file.write_text('tokfmt = 1\n[run]\ncache = "moved/cache_blend"\nroot = { "data" = "moved/data" }\n')
    assert len(tokfmt.open(file)) == 360


def test_a_check_says_that_it_did_not_compare_the_order():
    """Sizes fit, and the order is another one: only a deep check can see it."""
    home = RUNS / "megatron_core"
    said = [
        commands.run("check", *words, home / "cache_blend", *words_of({"root": home}), check=0).stderr
        for words in ([], ["--deep"])
    ]
    assert ["not compared" in one for one in said] == [True, False]


@pytest.mark.parametrize(
    ("text", "code", "word"),
    [
        ("tokfmt = 1\n[run]\nbatchsize = 3\n", 3, "batch_size"),
        ("tokfmt = 1\n[run]\nseed = -1\n", 3, "seed"),
        ('tokfmt = 1\n[run]\n[[source]]\npath = "a"\n', 3, "[[source]]"),
        ("tokfmt = 2\n[run]\n", 3, "version"),
    ],
)
def test_a_wrong_description_is_refused(tmp_path, text, code, word):
    file = tmp_path / "run.toml"
    file.write_text(text)
    done = commands.run("info", file, check=code)
    assert "run.toml" in done.stderr
    assert word in done.stderr


def test_no_path_of_an_order_file_is_opened_unasked(tmp_path):
    """`root` maps the paths that order files name; what it does not map is refused, and so is what leads out of it."""
    home = tmp_path / "set"
    shutil.copytree(RUNS / "megatron_core", home)
    done = commands.run("info", home / "cache_blend", check=3)
    assert "root" in done.stderr
    for path in home.glob("cache_noextra/*-description.txt"):
        path.write_text(path.read_text().replace("data/lantern", "../../etc/passwd"))
    done = commands.run("info", home / "cache_noextra", "--from-opt", f"root={home}")
    assert done.returncode == 3
    assert "outside" in done.stderr


def test_several_orders_of_a_split_have_to_be_chosen(tmp_path):
    home = tmp_path / "set"
    shutil.copytree(RUNS / "megatron_core", home)
    for path in (home / "cache_noweights_capped").iterdir():
        shutil.copy(path, home / "cache_noweights_exhaustive" / path.name)
    words = words_of({"root": home})
    done = commands.run("info", home / "cache_noweights_exhaustive", *words, check=2)
    assert "order=" in done.stderr
    commands.run("info", home / "cache_noweights_exhaustive", *words, "--from-opt", "order=51bf", check=0)


def test_whole_caches_have_no_finding():
    home = RUNS / "megatron_core"
    assert findings(home / "cache_blend", root=home) == set()
    assert findings(home / "cache_noweights_capped", root=home) == set()


def test_what_cannot_be_read_has_a_finding(tmp_path):
    (tmp_path / "run.toml").write_text("tokfmt = 1\n[run]\nseed_of = 3\n")
    assert findings(tmp_path / "run.toml") == {"TF811"}
    assert findings(RUNS / "megatron_core" / "cache_blend", root=tmp_path) == {"TF812"}


def test_damaged_and_stale_caches_are_found(tmp_path):
    """A shuffle that repeats a window, tokens that were replaced by fewer, and an order of another seed."""
    home = tmp_path / "set"
    shutil.copytree(RUNS / "megatron_core", home)
    cache = home / "cache_noextra"
    (shuffle,) = cache.glob("*-shuffle_index.npy")
    order = np.load(shuffle)
    order[3] = order[4]
    np.save(shuffle, order)
    assert "TF813" in findings(cache, root=home, extra_token="false")
    order = np.load(RUNS / "megatron_core" / "cache_noextra" / shuffle.name)
    np.save(shuffle, order[::-1])
    assert findings(cache, root=home, extra_token="false") == {"TF815"}
    for suffix in ("bin", "idx"):
        shutil.copy(home / "data" / f"harbour.{suffix}", home / "data" / f"lantern.{suffix}")
    assert "TF814" in findings(cache, root=home, extra_token="false")


@pytest.mark.parametrize(
    ("of_set", "cache", "which", "numbers", "exchange"),
    [
        ("megatron_core", "cache_blend", "34f9*-dataset_index.npy", "34f9*-dataset_sample_index.npy", {"TF815"}),
        ("megatron_core", "cache_noweights_exhaustive", "*-dataset_index.npy", "*-dataset_sample_index.npy", set()),
        ("megatron_lm_23.06", "cache", "f5f1*[0-9a-f]_index.npy", "f5f1*_sample_index.npy", {"TF815"}),
    ],
)
def test_a_damaged_blend_is_found(of_set, cache, which, numbers, exchange, tmp_path):
    """A number or a source that is repeated, two samples in exchange, and an index that ends early."""
    home = tmp_path / "set"
    shutil.copytree(RUNS / of_set, home)
    (which,), (numbers,) = (
        [one for one in (home / cache).glob(glob) if ("sample" in one.name) == ("sample" in glob)]
        for glob in (which, numbers)
    )
    assert findings(home / cache, root=home) == set()
    sources, inner = np.load(which), np.load(numbers)
    place = next(k for k in range(5, len(sources)) if sources[k] != sources[k - 1] and inner[k] != inner[k - 1])
    for file, array in ((numbers, inner), (which, sources)):
        repeated = array.copy()
        repeated[place] = repeated[place - 1]
        np.save(file, repeated)
        assert findings(home / cache, root=home) == {"TF813"}
        np.save(file, array)
    exchanged = np.arange(len(sources))
    exchanged[[place, place - 1]] = place - 1, place
    np.save(which, sources[exchanged])
    np.save(numbers, inner[exchanged])
    assert findings(home / cache, root=home) == exchange
    np.save(numbers, inner[:-1])
    done = commands.run("check", "--deep", home / cache, *words_of({"root": home}))
    assert done.returncode == 1
    assert numbers.name in done.stdout


@pytest.mark.parametrize("size", [0, 40, 200])
def test_a_cut_order_file_is_an_error_with_its_path(tmp_path, size):
    home = tmp_path / "set"
    shutil.copytree(RUNS / "megatron_core", home)
    (samples,) = (home / "cache_noextra").glob("*-sample_index.npy")
    samples.write_bytes(samples.read_bytes()[:size])
    done = commands.run("stats", home / "cache_noextra", "--from-opt", f"root={home}")
    assert done.returncode == 3
    assert samples.name in done.stderr


@pytest.mark.parametrize("length", [0, -1, 10**15, "64", None, True])
def test_a_length_that_no_sample_has_is_an_error(tmp_path, length):
    home = tmp_path / "set"
    shutil.copytree(RUNS / "megatron_core", home)
    (text,) = (home / "cache_noextra").glob("*-description.txt")
    text.write_text(json.dumps({**json.loads(text.read_text()), "sequence_length": length}))
    for command in ("info", "stats"):
        done = commands.run(command, home / "cache_noextra", "--from-opt", f"root={home}", check=3)
        assert text.name in done.stderr
    assert findings(home / "cache_noextra", root=home) == {"TF812"}


@pytest.mark.parametrize("content", [[], 5, [5], [{}], [{"class": "../x"}]])
def test_a_description_without_datasets_is_an_error(tmp_path, content):
    home = tmp_path / "set"
    shutil.copytree(RUNS / "megatron_core", home)
    (text,) = (home / "cache_blend").glob("*BlendedDataset-train-description.txt")
    text.write_text(json.dumps({"class": "BlendedDataset", "datasets": content}))
    done = commands.run("info", home / "cache_blend", "--from-opt", f"root={home}", check=3)
    assert text.name in done.stderr


def test_a_cyclic_loader_has_an_end():
    home = RUNS / "megatron_core"
    options = {key: value for key, value in CYCLIC.items() if key != "samples"}
    done = commands.run("info", home / "cache_cyclic", *words_of({"root": home, **options}), check=2)
    assert "samples=" in done.stderr


def test_a_pickled_order_file_is_not_loaded(tmp_path):
    home = tmp_path / "set"
    shutil.copytree(RUNS / "megatron_core", home)
    (documents,) = (home / "cache_noextra").glob("*-document_index.npy")
    np.save(documents, np.array([{"a": 1}], object), allow_pickle=True)
    done = commands.run("stats", home / "cache_noextra", "--from-opt", f"root={home}")
    assert done.returncode == 3
    assert documents.name in done.stderr


@pytest.mark.parametrize("moved", [-3, 3])
def test_a_window_of_another_length_is_an_error(moved, tmp_path):
    """Megatron has windows of one length, but for the last one: a sample index with another is damaged."""
    home = tmp_path / "set"
    shutil.copytree(RUNS / "megatron_core", home)
    (samples,) = (home / "cache_noextra").glob("*-sample_index.npy")
    index = np.load(samples)
    place = next(k for k in range(2, len(index)) if index[k, 1] > 3 and index[k, 0] == index[k + 1, 0])
    index[place, 1] += moved
    np.save(samples, index)
    options = {"root": home, "extra_token": "false"}
    done = commands.run("stats", home / "cache_noextra", *words_of(options), check=3)
    assert samples.name in done.stderr
