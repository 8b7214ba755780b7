"""Training from a recipe: what a Loader hands out, where it goes on, and the traps that other loaders fell into."""

import gc
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
import warnings
from importlib.util import find_spec

import forkserver
import numpy as np
import pytest
from amount import FUZZ_ONLY, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import ROOT, TOKENIZER

import tokfmt
from tokfmt.errors import OptionError, SourceChangedError, TokenizerMismatchError, TokenRangeError

torch = pytest.importorskip("torch", reason="PyTorch is not installed: tests/system.sh brings it where it can")

from tokfmt.torch import Loader, LoaderWarning  # noqa: E402

pytestmark = pytest.mark.slow

EOS, SEQ_LEN = 90, 16


@pytest.fixture(scope="module")
def mix(tmp_path_factory):
    """Two sources of documents by weight, the lighter one several times over; shuffled samples."""
    home = tmp_path_factory.mktemp("mix")
    for name, count, base in (("web", 90, 0), ("code", 30, 45)):
        rng = np.random.default_rng(base)
        documents = [(base + rng.integers(0, 45, rng.integers(1, 60))).tolist() for _ in range(count)]
        ids = home / f"{name}.jsonl"
        ids.write_text("".join(json.dumps({"input_ids": one}) + "\n" for one in documents))
        tokfmt.convert(ids, home / f"{name}.pbin", eos=EOS)
    recipe(home / "mix.toml", shuffle="samples", seed=7, web=("web.pbin", 0.6), code=("code.pbin", 0.4))
    return home / "mix.toml"


def recipe(path, *, web, code=None, epochs=3, **words):
    lines = [f"tokfmt = 1\nseq_len = {SEQ_LEN}"]
    lines += [f"{key} = {json.dumps(value)}" for key, value in words.items()]
    for name, weight in filter(None, (web, code)):
        weighed = "" if weight is None else f"weight = {weight}\n"
        lines.append(f'[[source]]\npath = "{name}"\nepochs = {epochs}\n{weighed}')
    path.write_text("\n".join(lines))
    return path


def taken(view, first, last):
    """What samples `first <= k < last` are, from single samples."""
    return np.array([view[k]["input_ids"] for k in range(first, last)]).reshape(-1, SEQ_LEN)


def run(view, state, *, batch_size, world, prefetch, steps):
    """Some steps of a run of so many ranks, as global batches; and where it stands then."""
    ranks = [Loader(view, batch_size, rank=rank, world_size=world, prefetch=prefetch) for rank in range(world)]
    for loader in ranks:
        if state is not None:
            loader.load_state_dict(state)
    parts = [iter(loader) for loader in ranks]
    seen = []
    for _ in range(steps):
        batch = [next(part, None) for part in parts]
        assert len({one is None for one in batch}) == 1, "ranks end together"
        if batch[0] is None:
            break
        seen += [one["input_ids"].numpy() for one in batch]
    states = [loader.state_dict() for loader in ranks]
    assert all(one == states[0] for one in states)
    return np.concatenate([np.empty((0, SEQ_LEN), np.int64), *seen]), json.loads(json.dumps(states[0]))


segments = st.lists(
    st.tuples(st.integers(1, 8), st.integers(1, 3), st.integers(0, 3), st.integers(0, 6)), min_size=1, max_size=5
)


@pytest.mark.filterwarnings("ignore:.*this loop has no batch")
@settings(max_examples=examples(150), deadline=None)
@given(segments)
def test_the_sequence_of_samples_is_the_same_however_a_run_is_cut(mix, cuts):
    view, state, seen = tokfmt.open(mix), None, [np.empty((0, SEQ_LEN), np.int64)]
    for world, each, prefetch, steps in cuts:
        got, state = run(view, state, batch_size=world * each, world=world, prefetch=prefetch, steps=steps)
        seen.append(got)
    whole = np.concatenate(seen)
    assert state["samples"] == len(whole)
    assert np.array_equal(whole, taken(view, 0, len(whole)))


@pytest.mark.parametrize("world", range(1, 9))
def test_all_ranks_end_after_the_last_whole_batch(mix, world):
    view = tokfmt.open(mix)
    batch_size = 3 * world
    whole = len(view) // batch_size
    got, state = run(view, None, batch_size=batch_size, world=world, prefetch=2, steps=whole + 5)
    assert len(got) == whole * batch_size == state["samples"]
    loader = Loader(view, batch_size, rank=0, world_size=world)
    assert len(loader) == whole
    assert sum(1 for _ in loader) == whole
    with pytest.warns(LoaderWarning, match=r"mix\.toml: .* were handed out, and this loop has no batch.*restart=True"):
        assert list(loader) == [], "passes are the recipe's: the tail is not replayed"


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("workers", range(4))
def test_pytorchs_own_loader_takes_a_recipe_as_it_is(mix, workers):
    from torch.utils.data import DataLoader

    view = tokfmt.open(mix)
    fields = view.with_fields(["input_ids", "labels", "loss_mask", "position_ids", "document_ids", "cu_seqlens"])
    batches = list(DataLoader(fields, batch_size=8, num_workers=workers, drop_last=True))
    assert np.array_equal(np.concatenate([one["input_ids"] for one in batches]), taken(view, 0, 8 * len(batches)))
    assert batches[0]["cu_seqlens"].shape == (8, SEQ_LEN + 1)
    # a sampler is a range: from sample 40 on, this rank's part of each batch of 8
    part = [k for start in range(40, 80, 8) for k in range(start + 4, start + 8)]
    batches = list(DataLoader(view, batch_size=4, sampler=part, num_workers=workers))
    assert np.array_equal(
        np.concatenate([one["input_ids"] for one in batches]), np.array([view[k]["input_ids"] for k in part])
    )


@FUZZ_ONLY
def test_processes_that_are_spawned_unpickle_a_recipe(mix):
    from torch.utils.data import DataLoader

    view = tokfmt.open(mix)
    view[3]  # files are open
    assert np.array_equal(pickle.loads(pickle.dumps(view))[5]["labels"], view[5]["labels"])
    (batch,) = DataLoader(view, batch_size=6, sampler=range(6), num_workers=1, multiprocessing_context="spawn")
    assert np.array_equal(batch["input_ids"], taken(view, 0, 6))


WITH_TORCH = ("torch", "tokfmt.torch")
TRAINING = """
import json, os, sys
from tokfmt.torch import Loader
recipe, home, world, prefetch = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
ranks = [Loader(recipe, 2 * world, rank=rank, world_size=world, prefetch=prefetch) for rank in range(world)]
state, log = os.path.join(home, "state"), os.path.join(home, "log")
if os.path.exists(state):
    for loader in ranks:
        loader.load_state_dict(json.load(open(state)))
    os.truncate(log, ranks[0].samples_seen * 16 * 8)
with open(log, "ab") as out:
    for batch in zip(*ranks):
        for part in batch:
            out.write(part["input_ids"].numpy().tobytes())
        out.flush()
        with open(state + ".new", "w") as new:
            json.dump(ranks[0].state_dict(), new)
        os.replace(state + ".new", state)
        print(ranks[0].samples_seen, flush=True)
"""


@FUZZ_ONLY
@pytest.mark.slow
def test_killed_and_continued_by_other_numbers_of_ranks(mix, tmp_path):
    view, worlds = tokfmt.open(mix), [2, 5, 1, 8, 3]
    for number, world in enumerate(worlds):
        command = [sys.executable, "-c", TRAINING, str(mix), str(tmp_path), str(world), str(number % 4)]
        with forkserver.Popen(command, also=WITH_TORCH, stdout=subprocess.PIPE, text=True) as process:
            if number < len(worlds) - 1:
                for _ in range(4 + number):
                    process.stdout.readline()
                process.send_signal(signal.SIGKILL)
            process.stdout.read()
    done = json.loads((tmp_path / "state").read_text())["samples"]
    assert done > len(view) - 8, "the last run went to the end"
    got = np.fromfile(tmp_path / "log", np.int64).reshape(-1, SEQ_LEN)
    assert np.array_equal(got, taken(view, 0, done))


def test_only_what_was_handed_out_counts(mix):
    loader = Loader(mix, 4, prefetch=3)
    batches = iter(loader)
    for count in range(1, 4):
        next(batches)
        time.sleep(0.02)  # what is read ahead meanwhile
        assert loader.state_dict()["samples"] == 4 * count


def test_a_state_that_is_loaded_while_a_loop_runs_counts_from_the_next_batch(mix):
    view = tokfmt.open(mix)
    for prefetch in range(4):
        loader, seen = Loader(view, 4, prefetch=prefetch), []
        for step, batch in enumerate(loader):
            seen.append(batch["input_ids"].numpy())
            if step == 2:
                loader.load_state_dict({**loader.state_dict(), "samples": 41})
            if step == 4:
                break
        assert np.array_equal(np.concatenate(seen), np.concatenate([taken(view, 0, 12), taken(view, 41, 49)]))
        assert loader.samples_seen == 49


def test_a_step_is_batches_of_one_size_from_the_start(mix):
    view = tokfmt.open(mix)
    for world in (1, 2, 4):
        for rank in range(world):
            batch = next(iter(Loader(view, 8, rank=rank, world_size=world, step=5)))
            where = view.where(step=5, batch_size=8, rank=rank, world_size=world)
            assert [one.sample for one in where] == list(range(40 + rank * 8 // world, 40 + (rank + 1) * 8 // world))
            assert np.array_equal(batch["input_ids"], np.array([view[one.sample]["input_ids"] for one in where]))


def test_states_of_other_recipes_are_refused(mix):
    loader = Loader(mix, 4)
    state = loader.state_dict()
    words = {"seed": 8, "shuffle": "samples"}
    others = [
        recipe(mix.with_name("seed.toml"), web=("web.pbin", 0.6), code=("code.pbin", 0.4), **words),
        recipe(mix.with_name("weight.toml"), web=("web.pbin", 0.5), code=("code.pbin", 0.5), shuffle="samples", seed=7),
        recipe(mix.with_name("one.toml"), web=("web.pbin", None), shuffle="samples", seed=7),
    ]
    for other in others:
        with pytest.raises(SourceChangedError, match=rf"{other.name}: is not the recipe of the state"):
            Loader(other, 4).load_state_dict(state)
    for wrong in ({}, {**state, "samples": -1}, {**state, "samples": 1.5}, {**state, "samples": True}, {"samples": 3}):
        with pytest.raises(OptionError, match="a loader's state is"):
            loader.load_state_dict(wrong)
    with pytest.raises(OptionError, match=r"the recipe ends after [\d,]+\. Give it a budget"):
        loader.load_state_dict({**state, "samples": 10**9})
    assert loader.state_dict() == state


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        ({"seed": 8}, "seed: expected 7, found 8"),
        ({"shuffle": "documents"}, 'shuffle: expected "samples", found "documents"'),
        ({"pad": 3}, "pad: expected 90, found 3"),
        ({"web": ("web.pbin", 0.7)}, 'weight of source 1: expected "3/5", found "7/10"'),
        ({"web": ("code.pbin", 0.6)}, "counts of source 1 differs, and sizes of source 1: expected"),
        ({"code": None}, "more differ, and weight of source 2: expected "),
    ],
)
def test_a_refused_state_names_the_fact_that_differs(words, fact, mix, tmp_path):
    both = {"web": ("web.pbin", 0.6), "code": ("code.pbin", 0.4), "shuffle": "samples", "seed": 7}
    other = recipe(mix.with_name("other.toml"), **{**both, **words})
    state = json.loads(json.dumps(Loader(mix, 4).state_dict()))
    with pytest.raises(SourceChangedError) as caught:
        Loader(other, 4).load_state_dict(state)
    assert fact in str(caught.value)


@pytest.fixture
def alone(tmp_path):
    """A pack of its own, which a test may change; the loader of it, and the data section."""
    rng = np.random.default_rng(5)
    lines = [json.dumps({"input_ids": rng.integers(0, EOS, 50).tolist()}) + "\n" for _ in range(60)]
    (tmp_path / "x.jsonl").write_text("".join(lines))
    tokfmt.convert(tmp_path / "x.jsonl", tmp_path / "x.pbin", eos=EOS)
    return tmp_path / "x.pbin"


def loader_of(path, **words):
    return Loader(tokfmt.recipe([path], **{"seq_len": SEQ_LEN, "shuffle": "samples", **words}), 8)


def overwrite(path):
    """Set every ID but the separator to 1, in place."""
    raw = np.fromfile(path, np.uint8)
    length, width = int.from_bytes(raw[:8].tobytes(), "little"), int(raw[8])
    ids = np.frombuffer(raw, f"<u{width}", length // width, 12).copy()
    ids[ids != EOS] = 1
    with open(path, "r+b") as file:
        file.seek(12)
        file.write(ids.tobytes())


def test_a_manifest_that_is_missing_is_not_other_data(alone):
    state = json.loads(json.dumps(loader_of(alone).state_dict()))
    manifest = alone.with_name("x.pbin.tokfmt.json")
    content = manifest.read_bytes()
    manifest.unlink()
    without = loader_of(alone)
    without.load_state_dict({**state, "samples": 8})
    assert np.array_equal(next(iter(without))["input_ids"], taken(without.recipe, 8, 16))
    state = without.state_dict()
    manifest.write_bytes(content)
    loader_of(alone).load_state_dict(state)


def test_a_manifest_that_states_other_data_is_refused(alone):
    state = loader_of(alone).state_dict()
    manifest = alone.with_name("x.pbin.tokfmt.json")
    stated = json.loads(manifest.read_bytes())
    stated["output"]["xxh3_128"] = "0" * 32
    manifest.write_text(json.dumps(stated))
    with pytest.raises(SourceChangedError, match=r'source 1 \("x"\) has another checksum.*found 0{32}'):
        loader_of(alone).load_state_dict(state)


@pytest.mark.parametrize("manifest", [True, False])
def test_a_state_of_other_content_of_the_same_size_is_refused(manifest, alone):
    if not manifest:
        alone.with_name("x.pbin.tokfmt.json").unlink()
    state = loader_of(alone).state_dict()
    overwrite(alone)
    with pytest.raises(SourceChangedError, match=r"the data changed: content of sample 0, from .*x\.pbin"):
        loader_of(alone).load_state_dict(state)


def test_content_that_changes_while_a_loop_runs_ends_it(alone):
    loader = loader_of(alone)
    batches = iter(loader)
    whole = [next(batches)["input_ids"].clone() for _ in range(3)]
    overwrite(alone)
    seen = []
    with pytest.raises(SourceChangedError, match=r"x\.pbin: changed while it was being read"):
        seen += [batch["input_ids"] for batch in batches]
    assert np.array_equal(np.concatenate([*whole, *seen])[0], whole[0][0])
    assert not any((batch == 1).float().mean() > 0.5 for batch in seen), "read before the change"


def test_a_loader_is_an_iterable_dataset(mix):
    from torch.utils.data import DataLoader, IterableDataset

    view, loader = tokfmt.open(mix), Loader(mix, 4)
    assert isinstance(loader, IterableDataset)
    batches = DataLoader(loader, batch_size=None)
    assert len(batches) == len(view) // 4
    got = np.concatenate([batch["input_ids"] for batch in batches])
    assert np.array_equal(got, taken(view, 0, len(view) // 4 * 4))
    assert loader.samples_seen == len(got)


def test_ids_beyond_the_vocabulary_of_the_model_are_refused(mix):
    view = tokfmt.open(mix)
    assert len(list(Loader(view, 4, vocab_size=EOS + 1))) == len(view) // 4
    with pytest.raises(
        TokenRangeError, match=rf"token ID {EOS} at position .* outside 0..{EOS - 1}\. It is in .* of sample"
    ):
        list(Loader(view, 4, vocab_size=EOS))
    with pytest.raises(TokenRangeError):
        list(Loader(view, 4, vocab_size=EOS, fields=["labels"]))


def test_tokens_that_take_long_to_decode_are_copied_before_the_first_batch(tmp_path, monkeypatch):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    ids = np.random.default_rng(3).integers(0, EOS, 4_200_000).astype(np.int32)
    rows = pa.ListArray.from_arrays(np.arange(0, len(ids) + 1, 500, dtype=np.int32), ids)
    parquet.write_table(pa.table({"input_ids": rows}), tmp_path / "x.parquet", row_group_size=4500)
    loader = Loader(tokfmt.recipe([tmp_path / "x.parquet"], seq_len=500, shuffle="samples", to_eos="none"), 8)
    with pytest.warns(LoaderWarning, match=r"copying 8\.\d MB of tokens of x \(parquet\) to the cache, once"):
        batch = next(iter(loader))
    (copy,) = (tmp_path / "cache/tokfmt/recipes").glob("*-tokens.u16")
    assert np.array_equal(np.fromfile(copy, "<u2"), ids)
    ((_, number, _, _),) = loader.recipe.spans(0)
    assert np.array_equal(batch["input_ids"][0], ids[500 * number : 500 * number + 500])


MASKED = {"input_ids": [[1, 2, 3, 4], [5, 6, 7, 8, 9]], "labels": [[-100, -100, 3, 4], [-100, 6, 7, 8, 9]]}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("pack", ["stored", "bestfit", "stream", "document"])
def test_rows_with_labels_are_trained_on_and_an_error_names_the_way_that_works(pack, packed, tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "x.parquet"
    parquet.write_table(pa.table(MASKED), path)
    if packed:
        tokfmt.convert(path, tmp_path / "packed.parquet", to_options={"pack_size": 8}, eos="none")
        path = tmp_path / "packed.parquet"
    if pack == "stored":
        with pytest.raises(tokfmt.TokfmtError, match='pack = "(bestfit|stream)"') as caught:
            tokfmt.recipe([path], seq_len=8, pack=pack)
        pack = "bestfit" if "bestfit" in str(caught.value) else "stream"
    labels = [batch["labels"] for batch in Loader(tokfmt.recipe([path], seq_len=8, pack=pack, to_eos=0), 1)]
    assert [label for label in torch.cat(labels).flatten().tolist() if label not in (-100, 0)] == [3, 4, 6, 7, 8, 9]


def test_a_longer_budget_goes_on_from_the_state_of_a_shorter_one(mix):
    both = {"web": ("web.pbin", 0.6), "code": ("code.pbin", 0.4), "shuffle": "samples", "seed": 7}
    short = recipe(mix.with_name("short.toml"), tokens=SEQ_LEN * 40, **both)
    long = recipe(mix.with_name("long.toml"), tokens=SEQ_LEN * 80, **both)
    first = Loader(short, 8)
    seen = [batch["input_ids"] for batch in first]
    second = Loader(long, 8)
    second.load_state_dict(first.state_dict())
    seen += [batch["input_ids"] for batch in second]
    assert np.array_equal(np.concatenate(seen), taken(tokfmt.open(long), 0, 80))


def test_labels_are_shifted_once_and_padding_that_is_the_separator_counts_nowhere(mix):
    path = recipe(mix.with_name("padded.toml"), web=("web.pbin", None), pad=EOS, epochs=1)
    batches = list(Loader(path, 1, fields=["input_ids", "labels", "loss_mask"], prefetch=0))
    ids, labels, mask = (torch.cat([one[name] for one in batches]).flatten() for name in batches[0])
    stream = [token for one in tokfmt.open(mix.with_name("web.pbin")) for token in [*one.tolist(), EOS]]
    assert ids.tolist() == stream + [EOS] * (len(ids) - len(stream))
    real = labels != -100
    assert labels[real].tolist() == stream[1:], "each token but the first is a target once, separators too"
    assert torch.equal(mask.bool(), real)
    assert not real[len(stream) - 1 :].any()


def test_extreme_weights_give_every_sample(mix):
    path = recipe(mix.with_name("extreme.toml"), web=("web.pbin", 1), code=("code.pbin", 1e-12), shuffle="samples")
    loader = Loader(path, 5)
    assert sum(len(batch["input_ids"]) for batch in loader) == len(loader.recipe) // 5 * 5 > 0


def test_shares_are_of_tokens_not_of_documents(mix):
    view = tokfmt.open(mix)
    ids = np.concatenate([view[k]["input_ids"] for k in range(len(view))])
    of_code = np.count_nonzero((ids >= 45) & (ids < EOS)) / np.count_nonzero(ids < EOS)
    assert abs(of_code - 0.4) < 0.02


def test_fields_dtypes_and_devices(mix):
    fields = ["input_ids", "labels", "loss_mask", "position_ids", "document_ids", "cu_seqlens"]
    batch = next(iter(Loader(mix, 2, fields=fields, device="cpu", pin_memory=True)))
    assert {name: tuple(tensor.shape) for name, tensor in batch.items()} == {
        **dict.fromkeys(fields, (2, SEQ_LEN)), "cu_seqlens": (2, SEQ_LEN + 1)
    }  # fmt: skip
    assert [batch[name].dtype for name in fields[:3]] == [torch.int64, torch.int64, torch.uint8]
    assert next(iter(Loader(mix, 2, dtype=torch.int32)))["labels"].dtype == torch.int32
    assert next(iter(Loader(mix, 2, device="meta")))["input_ids"].device.type == "meta"
    view = tokfmt.open(mix).with_fields(["labels", "position_ids"])
    assert list(next(iter(Loader(view, 2)))) == ["labels", "position_ids"]


def test_a_sample_is_asked_for_by_number(mix):
    """True is no number 1, and a mask no list of samples 0 and 1."""
    view = tokfmt.open(mix)
    first = view[:2]["input_ids"].tolist()
    assert view[np.array([0, 1])]["input_ids"].tolist() == view.samples([0, 1])["input_ids"].tolist() == first
    assert view[np.int64(1)]["input_ids"].tolist() == first[1]
    for ask in (view.__getitem__, view.samples, view.where, view.spans):
        for wrong in (True, [True, False], np.array([True, False]), 1.5, [1.5], "1", {}):
            if ask not in (view.where, view.spans) or wrong is not True:
                with pytest.raises(TypeError):
                    ask(wrong)


def test_invalid_loaders_are_refused_at_once(mix):
    for wrong in (
        {"batch_size": 6, "world_size": 4},
        {"batch_size": 4, "rank": 2, "world_size": 2},
        {"batch_size": 0},
        {"batch_size": 10**9},
        {"batch_size": 4, "step": -1},
        {"batch_size": 4, "step": 10**6},
        {"batch_size": 4, "fields": ["input_idz"]},
    ):
        with pytest.raises(OptionError):
            Loader(mix, **{"rank": 0, "world_size": 1, **wrong})
    with pytest.raises(OptionError, match=r"is not a recipe of samples. Make one with tokfmt.recipe\(..., seq_len=N\)"):
        Loader(mix.with_name("web.pbin"), 4)
    words = f'tokfmt = 1\nseq_len = 8\ntokenizer = "{TOKENIZER}"\n[[source]]\npath = "{mix.with_name("text.jsonl")}"\n'
    mix.with_name("text.toml").write_text(words)
    mix.with_name("text.jsonl").write_text('{"text": "Salt keeps the fish."}\n')
    with pytest.raises(OptionError, match=r"convert .*text\.toml DST stores it"):
        Loader(mix.with_name("text.toml"), 4)


def test_no_rank_takes_itself_for_the_only_one(mix, monkeypatch):
    for half in ({"rank": 0}, {"world_size": 2}):
        with pytest.raises(OptionError, match="rank and world_size belong together"):
            Loader(mix, 4, **half)
    monkeypatch.setenv("WORLD_SIZE", "8")
    with pytest.raises(OptionError, match=r"WORLD_SIZE is 8, .*init_process_group\(\) first"):
        Loader(mix, 8)
    assert Loader(mix, 8, rank=1, world_size=2).world_size == 2
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert Loader(mix, 8).world_size == 1


def test_a_file_that_shrinks_is_an_error_at_the_batch_that_needs_it(mix, tmp_path):
    (tmp_path / "x.pbin").write_bytes(mix.with_name("web.pbin").read_bytes())
    path = recipe(tmp_path / "x.toml", web=("x.pbin", None), epochs=1)
    loader = Loader(path, 4, prefetch=2)
    batches = iter(loader)
    next(batches)
    os.truncate(tmp_path / "x.pbin", 40)
    with pytest.raises(tokfmt.TokfmtError, match=r"x\.pbin"):
        list(batches)
    assert loader.samples_seen % 4 == 0


def test_nothing_else_imports_pytorch(mix):
    script = (
        f"import sys, tokfmt; view = tokfmt.open({str(mix)!r}); view[0]; view.where(0); "
        "print([name for name in ('torch', 'h5py', 'zarr', 'transformers') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "[]\n"


@FUZZ_ONLY
@pytest.mark.slow
def test_the_loop_in_the_documentation_trains_and_goes_on(mix, tmp_path):
    page = (ROOT / "docs" / "train.md").read_text()
    (code,) = (
        block
        for block in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
        if "tokfmt.torch" in block and "s3://" not in block
    )
    assert len([line for line in code.splitlines() if line]) <= 26
    for name in ("mix.toml", "web.pbin", "web.pbin.tokfmt.json", "code.pbin", "code.pbin.tokfmt.json"):
        (tmp_path / name).write_bytes(mix.with_name(name).read_bytes())

    def train(script):
        done = forkserver.run(
            [sys.executable, "-c", f"import torch\ntorch.manual_seed(1)\n{script}"],
            also=WITH_TORCH,
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert not done.returncode, done.stderr
        return done.stdout

    code, whole = code.replace("50257", "128"), len(tokfmt.open(mix)) // 8 * 8
    stopped = code.replace("    loss.backward()\n", "    loss.backward()\n    if loader.samples_seen == 160: break\n")
    assert stopped != code
    first, second = train(stopped), train(code)
    assert first.startswith("160 samples") and second.startswith(f"{whole:,} samples")
    assert torch.load(tmp_path / "last.pt")["loader"]["samples"] == whole // 80 * 80
    assert float(second.split()[-1]) < float(first.split()[-1]), "it has learned which ids there are"
    state = torch.load(tmp_path / "last.pt")
    torch.save({**state, "loader": {**state["loader"], "samples": whole}}, tmp_path / "last.pt")
    assert train(code).split() == [f"{whole:,}", "samples,", "loss", "nan"], "a run that had ended"


@FUZZ_ONLY
@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_whatever_pytorch_collates_can_be_a_target(mix):
    """Each way from a view to a batch: `cross_entropy` takes labels of int64 alone."""
    from torch.utils.data import ConcatDataset, DataLoader, Subset
    from transformers import default_data_collator

    view = tokfmt.open(mix)
    ways = [
        DataLoader(view, batch_size=4),
        DataLoader(view, batch_size=4, num_workers=1),
        DataLoader(view, batch_size=4, collate_fn=default_data_collator),
        DataLoader(view, batch_size=None, sampler=[[0, 1, 2, 3]]),
        DataLoader(Subset(view, range(4)), batch_size=4),
        DataLoader(ConcatDataset([view, view]), batch_size=4),
        Loader(view, 4),
        Loader(view, 4, device="cpu", pin_memory=True),
    ]
    for way in ways:
        batch = next(iter(way))
        assert {name: tensor.dtype for name, tensor in batch.items()} == dict.fromkeys(view.fields, torch.int64)
        loss = torch.nn.functional.cross_entropy(torch.zeros(4 * SEQ_LEN, 99), batch["labels"].flatten())
        assert loss.isfinite()
        assert np.array_equal(batch["input_ids"], taken(view, 0, 4))


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_datasets_that_are_no_recipe_are_collated_as_int64(mix, tmp_path):
    """Samples of one length as they are; documents with the function that the documentation shows."""
    from torch.nn.utils.rnn import pad_sequence
    from torch.utils.data import DataLoader

    (tmp_path / "x.jsonl").write_text("".join(f'{{"input_ids": [{k}, 2, 3]}}\n' for k in range(1, 5)))
    tokfmt.convert(tmp_path / "x.jsonl", tmp_path / "x.pbin", eos=EOS)
    batch = next(iter(DataLoader(tokfmt.open(tmp_path / "x.pbin"), batch_size=4)))
    assert batch.dtype == torch.int64 and batch.tolist() == [[k, 2, 3] for k in range(1, 5)]
    documents = tokfmt.open(mix.with_name("web.pbin"))
    page, names = (ROOT / "docs" / "python.md").read_text(), {"pad_sequence": pad_sequence, "torch": torch}
    exec(re.search(r"^def collate.*?(?=^loader)", page, re.MULTILINE | re.DOTALL)[0], names)
    for workers in (0, 1):
        batch = next(iter(DataLoader(documents, batch_size=3, num_workers=workers, collate_fn=names["collate"])))
        assert batch.dtype == torch.int64
        for row, tokens in zip(batch, documents[:3], strict=True):
            assert row[: len(tokens)].tolist() == tokens.tolist()
    assert documents[0].dtype == np.uint8, "as stored"


def test_ids_beyond_int64_are_no_other_ids():
    from tokfmt.core.memory import MemoryReader
    from tokfmt.core.ragged import Ragged

    tokens = np.array([1, 2**63 - 1, 2**63], np.uint64)
    dataset = tokfmt.Dataset(MemoryReader(Ragged(tokens, np.array([0, 2, 3]))), "memory")
    assert dataset.__getitems__([0])[0].tolist() == [1, 2**63 - 1]
    with pytest.raises(tokfmt.TokfmtError, match=r"9,223,372,036,854,775,808 at position 0 is outside"):
        dataset.__getitems__([0, 1])


def test_numpy_gets_the_small_dtype_where_it_asks_for_samples(mix):
    view = tokfmt.open(mix)
    for found in (view.samples(range(3)), view.samples([0, 1, 2]), view.sample(0)):
        assert {array.dtype for array in found.values()} == {np.dtype(np.int32)}
    for found in (view[0], view[:3], view[[0, 1]], *view.__getitems__([0, 1]), next(iter(view))):
        assert {array.dtype for array in found.values()} == {np.dtype(np.int64)}
    assert view.samples(range(3), dtype=np.int64)["labels"].dtype == np.int64
    for wrong in (np.uint16, np.float32, "int8", torch.int64):
        with pytest.raises(OptionError, match="numpy.int32 or numpy.int64"):
            view.samples(range(3), dtype=wrong)


def test_rows_of_a_batch_are_the_samples(mix):
    view = tokfmt.open(mix).with_fields(["labels", "cu_seqlens"])
    for k, row in zip([5, 0, 5], view.__getitems__([5, 0, 5]), strict=True):
        assert all(np.array_equal(row[name], view[k][name]) for name in ("labels", "cu_seqlens"))
    assert len(view.__getitems__({1, 2})) == len(view.__getitems__(torch.tensor([1, 2]))) == 2
    assert view.__getitems__([]) == []
    with pytest.raises(IndexError):
        view.__getitems__([0, len(view)])


def test_arguments_of_a_loader_are_read_only(mix):
    loader = Loader(mix, 4)
    batches = iter(loader)
    next(batches)
    for name, value in {
        "batch_size": 8,
        "rank": 1,
        "world_size": 2,
        "fields": ("labels",),
        "recipe": loader.recipe,
    }.items():
        with pytest.raises(
            AttributeError, match=rf"a loader's {name} cannot change.*load_state_dict\(loader.state_dict"
        ):
            setattr(loader, name, value)
    with pytest.raises(AttributeError, match="load_state_dict"):
        loader.samples_seen = 0
    seen = 4 + sum(len(batch["input_ids"]) for batch in batches)
    assert seen == loader.samples_seen == len(loader.recipe) // 4 * 4


@FUZZ_ONLY
def test_an_iterator_that_is_alive_at_exit_says_nothing(mix):
    script = (
        f"import json, tokfmt.torch; json.held = iter(tokfmt.torch.Loader({str(mix)!r}, 4)); next(json.held); "
        "cycle = [json.held]; cycle.append(cycle)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


RANK = """
import sys, warnings, torch.distributed as distributed
from datetime import timedelta
from tokfmt.errors import OptionError
from tokfmt.torch import Loader
meeting, world, rank, *runs = sys.argv[1:]
distributed.init_process_group(
    "gloo", init_method="file://" + meeting, rank=int(rank), world_size=int(world), timeout=timedelta(seconds=60)
)
warnings.showwarning = lambda message, *_: print(message)
for run in runs:
    recipe, batch_size, samples, *part = run.split(",")
    group = {"process_group": distributed.group.WORLD} if part[2:] == ["all"] else {}
    loader = Loader(recipe, int(batch_size), **dict(zip(("rank", "world_size"), map(int, part[:2]))), **group)
    loader.load_state_dict({**loader.state_dict(), "samples": int(samples)})
    try:
        for _, batch in zip(range(2), loader):
            print(loader.samples_seen, batch["input_ids"].sum().item())
        next(iter(loader))
    except OptionError as error:
        print(error)
distributed.destroy_process_group()
"""


def all_ranks(tmp_path, *runs):
    """What processes print, each given its word of every run."""
    command = [sys.executable, "-c", RANK, str(tmp_path / "meeting"), str(len(runs[0]))]
    started = [
        forkserver.Popen(
            [*command, str(rank), *(run[rank] for run in runs)], also=WITH_TORCH, stdout=subprocess.PIPE, text=True
        )
        for rank in range(len(runs[0]))
    ]
    return [process.communicate(timeout=60)[0].splitlines() for process in started]


def test_ranks_that_do_not_read_the_same_are_refused_at_the_first_batch(mix, tmp_path):
    other = recipe(
        mix.with_name("rank1.toml"), web=("web.pbin", 0.6), code=("code.pbin", 0.4), shuffle="samples", seed=8
    )
    mine, theirs = (tokfmt.open(path).fingerprint for path in (mix, other))
    found = all_ranks(
        tmp_path,
        (f"{mix},4,0", f"{mix},4,0"),
        (f"{mix},4,0", f"{other},4,0"),
        (f"{mix},4,0", f"{mix},8,0"),
        (f"{mix},4,0", f"{mix},4,40"),
        (f"{mix},4,0,0,2", f"{mix},4,0,0,2"),
        (f"{mix},4,0,0,1", f"{other},4,0,0,1"),
    )
    ends = "Give each rank the same recipe and data, batch size and state"
    for rank, (path, lines) in enumerate(zip((mix, other), found, strict=True)):
        sums = [int(taken(tokfmt.open(mix), k + 2 * rank, k + 2 * rank + 2).sum()) for k in (0, 4)]
        assert lines[:2] == [f"4 {sums[0]}", f"8 {sums[1]}"]
        one = "ranks do not read the same (expected one"
        assert lines[2] == f"{path}: {one} fingerprint, found {mine} on rank 0; {theirs} on rank 1). {ends}"
        assert lines[3] == f"{mix}: {one} batch_size, found 4 on rank 0; 8 on rank 1). {ends}"
        assert lines[4] == f"{mix}: {one} position in samples, found 0 on rank 0; 40 on rank 1). {ends}"
        assert lines[5].startswith(f"{mix}: processes 0, 1 read the part of rank 0 (expected a rank for each process)")
        assert len(lines) == 8, "loaders of one rank each are not compared"


def test_processes_of_several_ranks_are_compared_if_they_are_given(mix, tmp_path):
    """Two ranks of two processes each, as under tensor parallelism; rank 1 has another seed."""
    other = recipe(
        mix.with_name("rank1.toml"), web=("web.pbin", 0.6), code=("code.pbin", 0.4), shuffle="samples", seed=8
    )
    found = all_ranks(
        tmp_path,
        [f"{mix},4,0,{process // 2},2,all" for process in range(4)],
        [f"{other if process > 1 else mix},4,0,{process // 2},2,all" for process in range(4)],
        [f"{mix},4,0,{max(0, process - 2)},2,all" for process in range(4)],
        [f"{mix},4,0,{process // 2},2" for process in range(4)],
    )
    sums = [int(taken(tokfmt.open(mix), k, k + 2).sum()) for k in range(0, 8, 2)]
    for process, lines in enumerate(found):
        rank = process // 2
        assert lines[:2] == [f"4 {sums[rank]}", f"8 {sums[rank + 2]}"]
        assert "on rank 0, 1; " in lines[2] and "on rank 2, 3). " in lines[2] and "fingerprint" in lines[2]
        assert "processes 0, 1, 2 read the part of rank 0 (expected 2 processes for each rank)" in lines[3]
        assert "4 processes and 2 ranks" in lines[4] and "process_group=" in lines[4], (
            "a warning: they are not compared"
        )
        assert lines[5:] == lines[:2]


class Iterated(torch.utils.data.IterableDataset):  # type: ignore[name-defined]
    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        yield from self.loader


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_workers_that_would_all_read_every_batch_are_refused(mix, monkeypatch):
    from torch.utils.data import DataLoader

    # PyTorch waits so long for each worker that failed, when the DataLoader is collected: here, and in no later test.
    monkeypatch.setattr("torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL", 0.1)
    dataset = Iterated(Loader(mix, 4, prefetch=0))
    with pytest.raises(OptionError, match=r"mix\.toml: 2 workers of a DataLoader iterate a Loader"):
        next(iter(DataLoader(dataset, batch_size=None, num_workers=2)))
    gc.collect()
    for workers in (0, 1):
        batches = list(DataLoader(Iterated(Loader(mix, 4)), batch_size=None, num_workers=workers))
        assert np.array_equal(
            np.concatenate([one["input_ids"] for one in batches]), taken(tokfmt.open(mix), 0, 4 * len(batches))
        )


@pytest.mark.parametrize("world", [1, 3, 8])
def test_an_evaluation_reads_every_sample_each_time(mix, world):
    view = tokfmt.open(mix)
    batch_size = 8 * world
    ranks = [Loader(view, batch_size, rank=r, world_size=world, restart=True, drop_last=False) for r in range(world)]
    count = -(-len(view) // batch_size)
    for _ in range(2):
        assert [len(loader) for loader in ranks] == [count] * world
        steps = list(zip(*ranks, strict=True))
        assert len(steps) == count, "ranks end together"
        sizes = [[len(part["input_ids"]) for part in step] for step in steps]
        assert all(max(one) - min(one) <= 1 for one in sizes)
        got = np.concatenate([part["input_ids"] for step in steps for part in step])
        assert np.array_equal(got, taken(view, 0, len(view)))
    first = next(iter(ranks[0]))["input_ids"]
    assert torch.equal(first, next(iter(ranks[0]))["input_ids"]), "also after a loop that was left early"


def test_a_rank_without_a_sample_of_the_last_batch_has_rows_of_none(mix):
    view = tokfmt.recipe([mix.with_name("web.pbin")], seq_len=SEQ_LEN, tokens=SEQ_LEN * 9)
    fields = ["input_ids", "labels", "loss_mask", "position_ids", "document_ids", "cu_seqlens"]
    found = [list(Loader(view, 4, rank=r, world_size=4, drop_last=False, fields=fields)) for r in range(4)]
    assert [[len(batch["input_ids"]) for batch in batches] for batches in found] == [[1, 1, 0]] * 3 + [[1, 1, 1]]
    assert [tuple(tensor.shape) for tensor in found[0][-1].values()] == [(0, SEQ_LEN)] * 5 + [(0, SEQ_LEN + 1)]


def test_an_evaluation_goes_on_from_a_state_once(mix):
    loader = Loader(mix, 4, restart=True)
    loader.load_state_dict({**loader.state_dict(), "samples": 8})
    assert len(loader) == len(loader.recipe) // 4 - 2
    assert [len(list(loader)) for _ in range(2)] == [len(loader.recipe) // 4 - 2, len(loader.recipe) // 4]


def test_a_recipe_smaller_than_a_batch_is_one_batch_where_the_last_is_kept(mix):
    view = tokfmt.open(mix)
    (batch,) = Loader(view, 10**6, drop_last=False)
    assert len(batch["labels"]) == len(view)


def test_ids_that_the_tokenizer_does_not_have_are_refused(tmp_path):
    rows = [[1, 2, 3, 4, 5, 6, 7, 8], [9, 10, 5000, 11, 12, 13, 14, 15]]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps({"input_ids": row}) + "\n" for row in rows))
    tokfmt.convert(tmp_path / "x.jsonl", tmp_path / "x.pbin", eos=0)
    how = {"seq_len": 8, "tokenizer": str(TOKENIZER), "to_eos": 0}
    with pytest.raises(TokenizerMismatchError, match=r"x\.pbin: holds IDs that the tokenizer .* found 5,000"):
        tokfmt.recipe([tmp_path / "x.pbin"], **how)
    (tmp_path / "x.pbin.tokfmt.json").unlink()
    view = tokfmt.recipe([tmp_path / "x.pbin"], **how)
    (note,) = (note for note in view.notes if "tokenizer" in note)
    assert "no manifest names the tokenizer that made its IDs" in note and "is assumed" in note
    loader = Loader(view, 1)
    batches = iter(loader)
    next(batches)
    with pytest.raises(TokenizerMismatchError, match=r"sample 1 holds an ID that the tokenizer .* below 4,096.* 5,000"):
        next(batches)
    assert loader.samples_seen == 1
    accepted = tokfmt.recipe([tmp_path / "x.pbin"], **how, allow_loss="tokenizers")
    assert 5000 in accepted.samples(range(2))["input_ids"]
    first = tokfmt.recipe([{"path": tmp_path / "x.pbin", "select": "0:1"}], **how)
    assert len(list(Loader(first, 1))) == len(first)


def test_a_recipe_in_a_recipe_tells_what_made_its_ids(tmp_path):
    from tokenizers import Tokenizer, models

    other = tmp_path / "other"
    other.mkdir()
    Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]")).save(str(other / "tokenizer.json"))
    (tmp_path / "x.jsonl").write_text('{"input_ids": [1, 2, 5000, 4, 5, 6]}\n')
    tokfmt.convert(tmp_path / "x.jsonl", tmp_path / "x.pbin", eos=0, manifest=False)
    inner = tmp_path / "inner.toml"
    inner.write_text(f'tokfmt = 1\ntokenizer = "{TOKENIZER}"\n[[source]]\npath = "x.pbin"\neos = 0\n')
    view = tokfmt.recipe([inner], seq_len=4)
    with pytest.raises(TokenizerMismatchError, match="sample 0 holds an ID that the tokenizer does not have"):
        view[0]
    assert tokfmt.recipe([inner], seq_len=4, tokenizer=str(TOKENIZER)).notes == (
        f'inner: x: no manifest names the tokenizer that made its IDs; tokenizer = "{TOKENIZER}" is assumed',
    )
    with pytest.raises(TokenizerMismatchError, match=r"inner\.toml: is a recipe of IDs that another tokenizer made"):
        tokfmt.recipe([inner], seq_len=4, tokenizer=str(other))
    outer = tmp_path / "other.toml"
    outer.write_text(f'tokfmt = 1\nto_eos = 0\ntokenizer = "{other}"\n[[source]]\npath = "x.pbin"\nselect = "0:0"\n')
    with pytest.raises(TokenizerMismatchError, match="was made with another tokenizer"):
        tokfmt.recipe([inner, outer], seq_len=4)
    assert tokfmt.recipe([inner, outer], seq_len=4, allow_loss="tokenizers")[0]["input_ids"].tolist() == [1, 2, 5000, 4]


@pytest.mark.parametrize("kind", ["one", "several", "passes", "nested"])
def test_recipes_without_a_shuffle_keep_the_order_of_their_sources(mix, tmp_path, kind):
    """Also of several sources that are packed together, of several passes, and of a recipe in a recipe."""
    streams = {
        name: [token for one in tokfmt.open(mix.with_name(f"{name}.pbin")) for token in [*one.tolist(), EOS]]
        for name in ("web", "code")
    }
    web, code = (str(mix.with_name(f"{name}.pbin")) for name in ("web", "code"))
    if kind == "one":
        path, wanted = recipe(tmp_path / "x.toml", web=(web, None), epochs=1), streams["web"]
    elif kind == "several":
        path = recipe(tmp_path / "x.toml", web=(web, None), code=(code, None), epochs=1)
        wanted = streams["web"] + streams["code"]
    elif kind == "passes":
        path, wanted = recipe(tmp_path / "x.toml", web=(code, None), epochs=3), streams["code"]
    else:
        inner = f'tokfmt = 1\nshuffle = "none"\n[[source]]\npath = "{code}"\n[[source]]\npath = "{web}"\n'
        (tmp_path / "inner.toml").write_text(inner)
        path = recipe(tmp_path / "x.toml", web=("inner.toml", None), code=(code, None), epochs=1)
        wanted = streams["code"] + streams["web"] + streams["code"]
    view = tokfmt.open(path)
    halves = Loader(path, 4), Loader(path, 2, drop_last=False)
    got = [batch["input_ids"] for _, batch in zip(range(5), halves[0], strict=False)]
    halves[1].load_state_dict(halves[0].state_dict())
    got = torch.cat([*got, *(batch["input_ids"] for batch in halves[1])]).flatten().tolist()
    assert halves[1].samples_seen == len(view)
    if kind == "passes":
        per_pass = len(view) // 3 * SEQ_LEN
        assert got[:per_pass] == got[per_pass : 2 * per_pass] == got[2 * per_pass :]
        got, wanted = got[:per_pass], streams["code"]
    assert got[: len(wanted)] == wanted[: len(got)] and len(got) - len(wanted) in range(-1, SEQ_LEN)
    assert set(got[len(wanted) :]) <= {EOS}, "padding"


class GPT(torch.nn.Module):  # type: ignore[name-defined]
    """Two blocks of attention within documents."""

    def __init__(self, vocabulary, width=32, heads=2):
        super().__init__()
        self.tokens, self.places = torch.nn.Embedding(vocabulary, width), torch.nn.Embedding(SEQ_LEN, width)
        self.blocks = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.0, batch_first=True) for _ in range(2)
        )
        self.heads, self.out = heads, torch.nn.Linear(width, vocabulary)

    def forward(self, ids, places, documents):
        hidden = self.tokens(ids) + self.places(places)
        apart = documents[:, :, None] != documents[:, None, :]
        later = torch.ones(SEQ_LEN, SEQ_LEN, dtype=torch.bool).triu(1)
        for block in self.blocks:
            hidden = block(hidden, src_mask=(apart | later).repeat_interleave(self.heads, 0))
        return self.out(hidden)


@FUZZ_ONLY
def test_a_small_gpt_trains_is_evaluated_and_goes_on(mix):
    """The loss falls; a run that was stopped goes on with the same losses; evaluations are of the same samples."""
    fields = ["input_ids", "labels", "position_ids", "document_ids"]

    def loss_of(model, batch):
        logits = model(*(batch[name] for name in ("input_ids", "position_ids", "document_ids")))
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())

    def train(steps, saved=None):
        torch.manual_seed(0)
        model = GPT(EOS + 1)
        parts = {
            "model": model,
            "loader": Loader(mix, 16, fields=fields),
        }
        for name, state in (saved or {}).items():
            parts[name].load_state_dict(state)
        losses = []
        for batch in parts["loader"]:
            loss = loss_of(model, batch)
            loss.backward()
            with torch.no_grad():  # an optimizer of PyTorch would import its compiler
                for weight in model.parameters():
                    weight -= 2.0 * weight.grad
                    weight.grad = None
            losses.append(loss.item())
            if len(losses) == steps:
                break
        return losses, {name: part.state_dict() for name, part in parts.items()}, model

    whole, _, model = train(8)
    first, saved, _ = train(4)
    second, _, _ = train(4, saved)
    assert np.allclose(first + second, whole, rtol=1e-4)
    assert whole[-1] < whole[0] - 0.1
    evaluation = Loader(mix, 32, fields=fields, restart=True, drop_last=False)
    with torch.no_grad():
        twice = [[loss_of(model, batch).item() for batch in evaluation] for _ in range(2)]
    assert twice[0] == twice[1] and len(twice[0]) == len(evaluation)


@FUZZ_ONLY
@pytest.mark.slow
def test_the_examples_of_the_page_run_one_after_the_other(mix, tmp_path):
    page = (ROOT / "docs" / "train.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    absent = ["s3://"] if find_spec("accelerate") else ["s3://", "TrainingArguments"]  # The Trainer needs accelerate.
    blocks = [block for block in blocks if not any(word in block for word in absent)]
    for name in ("mix.toml", "web.pbin", "web.pbin.tokfmt.json", "code.pbin", "code.pbin.tokfmt.json"):
        (tmp_path / name).write_bytes(mix.with_name(name).read_bytes())
    (tmp_path / "val.toml").write_bytes(mix.read_bytes())
    tokfmt.convert(mix.with_name("code.pbin"), tmp_path / "code.zarr")
    script = "\n".join(["import tokfmt", *blocks, "print(sum(len(one['labels']) for one in batches))"])
    assert script.count("Loader(") == 3
    done = forkserver.run(
        [sys.executable, "-c", script.replace("50257", "128")],
        also=WITH_TORCH,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr
    assert done.stdout.splitlines()[-1] == str(len(tokfmt.open(mix)))


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_pytorchs_own_loader_goes_on_with_other_ranks_and_workers(mix):
    from torch.utils.data import DataLoader

    view, done, seen = tokfmt.open(mix), 0, []
    for world, workers, steps in ((2, 1, 3), (3, 0, 2), (1, 3, 4), (4, 2, 1)):
        ranks = [
            DataLoader(view, batch_sampler=[range(done + 12 * step + 12 // world * rank, done + 12 * step + 12 // world * (rank + 1)) for step in range(steps)], num_workers=workers)
            for rank in range(world)
        ]  # fmt: skip
        seen += [part["input_ids"].numpy() for batch in zip(*ranks, strict=True) for part in batch]
        done += 12 * steps
    assert np.array_equal(np.concatenate(seen), taken(view, 0, done))


def test_ranks_are_those_of_torch_distributed(mix, monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda group: 1)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda group: 2)
    monkeypatch.setattr(
        torch.distributed,
        "all_gather_object",
        lambda out, mine, group: out.__setitem__(slice(0, 2), [mine, {**mine, "rank": 0}]),
    )
    assert np.array_equal(next(iter(Loader(mix, 4)))["input_ids"], taken(tokfmt.open(mix), 2, 4))


@FUZZ_ONLY
def test_a_read_that_takes_long_is_reported_with_its_files(mix, monkeypatch):
    loader, goes_on, said = Loader(mix, 4, prefetch=0), threading.Event(), []
    read = loader.recipe.samples

    def stalled(*args):
        goes_on.wait()
        return read(*args)

    def report(message, category, **_):
        said.append(message)
        assert category is LoaderWarning
        if said:
            goes_on.set()

    monkeypatch.setattr(loader.recipe, "samples", stalled)
    monkeypatch.setattr(warnings, "warn", report)
    batch = next(iter(loader))
    assert np.array_equal(batch["input_ids"], taken(tokfmt.open(mix), 0, 4))
    web, code = (mix.with_name(name) for name in ("web.pbin", "code.pbin"))
    assert said[0] == (
        f"{mix}: samples 0 to 3 were not read within 10 seconds, from {web}, {code}; still waiting. "
        "Check the storage that holds them"
    )


def test_a_tokenizer_that_a_manifest_confirms_is_no_note(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"text": "Salt keeps the fish, and the fish keeps the village."}\n')
    tokfmt.convert(tmp_path / "x.jsonl", tmp_path / "x.pbin", tokenizer=TOKENIZER)
    for how in ({}, {"tokenizer": str(TOKENIZER)}):
        view = tokfmt.recipe([tmp_path / "x.pbin"], seq_len=8, **how)
        assert not [note for note in view.notes if "assumed" in note]
        assert int(view.samples(range(len(view)))["input_ids"].max()) == 4095, "the separator"
