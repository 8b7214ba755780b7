"""Training from a recipe: what a Loader hands out, where it goes on, and the traps that other loaders fell into."""

import json
import os
import pickle
import re
import signal
import subprocess
import sys
import time

import forkserver
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import ROOT, TOKENIZER

import tokfmt
from tokfmt.core.errors import OptionError, SourceChangedError

torch = pytest.importorskip("torch", reason="PyTorch is not installed: tests/system.sh brings it where it can")

from tokfmt.recipes.order import numbers  # noqa: E402
from tokfmt.torch import Loader  # noqa: E402

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
    ranks = [Loader(view, batch_size, rank=rank, world=world, prefetch=prefetch) for rank in range(world)]
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


@settings(max_examples=150, deadline=None)
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
    loader = Loader(view, batch_size, rank=0, world=world)
    assert len(loader) == whole
    assert sum(1 for _ in loader) == whole
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


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_pytorchs_own_loader_goes_on_with_other_ranks_and_workers(mix):
    from torch.utils.data import DataLoader

    view, done, seen = tokfmt.open(mix), 0, []
    for world, workers, steps in ((2, 1, 3), (3, 0, 2), (1, 3, 4), (4, 2, 1)):
        ranks = [
            DataLoader(view, batch_sampler=[numbers(step, 12, rank, world, done) for step in range(steps)], num_workers=workers)
            for rank in range(world)
        ]  # fmt: skip
        seen += [part["input_ids"].numpy() for batch in zip(*ranks, strict=True) for part in batch]
        done += 12 * steps
    assert np.array_equal(np.concatenate(seen), taken(view, 0, done))


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
ranks = [Loader(recipe, 2 * world, rank=rank, world=world, prefetch=prefetch) for rank in range(world)]
state, log = os.path.join(home, "state"), os.path.join(home, "log")
if os.path.exists(state):
    for loader in ranks:
        loader.load_state_dict(json.load(open(state)))
    os.truncate(log, ranks[0].samples * 16 * 8)
with open(log, "ab") as out:
    for batch in zip(*ranks):
        for part in batch:
            out.write(part["input_ids"].numpy().tobytes())
        out.flush()
        with open(state + ".new", "w") as new:
            json.dump(ranks[0].state_dict(), new)
        os.replace(state + ".new", state)
        print(ranks[0].samples, flush=True)
"""


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
        assert loader.samples == 49


def test_a_step_is_batches_of_one_size_from_the_start(mix):
    view = tokfmt.open(mix)
    for world in (1, 2, 4):
        for rank in range(world):
            batch = next(iter(Loader(view, 8, rank=rank, world=world, step=5)))
            where = view.where(step=5, batch_size=8, rank=rank, world=world)
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
        with pytest.raises(SourceChangedError, match=rf"{other.name}: is not the recipe that the state is of"):
            Loader(other, 4).load_state_dict(state)
    for wrong in ({}, {**state, "samples": -1}, {**state, "samples": 1.5}, {**state, "samples": True}, {"samples": 3}):
        with pytest.raises(OptionError, match="a loader's state is"):
            loader.load_state_dict(wrong)
    with pytest.raises(OptionError, match=r"the recipe ends after [\d,]+\. Give it a budget"):
        loader.load_state_dict({**state, "samples": 10**9})
    assert loader.state_dict() == state


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
    with pytest.raises(OptionError, match="input_idz"):
        next(iter(Loader(mix, 2, fields=["input_idz"])))


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


def test_what_cannot_be_is_refused_at_once(mix):
    for wrong in (
        {"batch_size": 6, "world": 4},
        {"batch_size": 4, "rank": 2, "world": 2},
        {"batch_size": 0},
        {"batch_size": 10**9},
        {"batch_size": 4, "step": -1},
    ):
        with pytest.raises(OptionError):
            Loader(mix, **{"rank": 0, "world": 1, **wrong})
    with pytest.raises(OptionError, match=r"no recipe of samples: tokfmt.recipe\(..., seq_len=N\)"):
        Loader(mix.with_name("web.pbin"), 4)
    words = f'tokfmt = 1\nseq_len = 8\ntokenizer = "{TOKENIZER}"\n[[source]]\npath = "{mix.with_name("text.jsonl")}"\n'
    mix.with_name("text.toml").write_text(words)
    mix.with_name("text.jsonl").write_text('{"text": "Salt keeps the fish."}\n')
    with pytest.raises(OptionError, match=r"convert .*text\.toml DST stores it"):
        Loader(mix.with_name("text.toml"), 4)


def test_no_rank_takes_itself_for_the_only_one(mix, monkeypatch):
    for half in ({"rank": 0}, {"world": 2}):
        with pytest.raises(OptionError, match="rank and world belong together"):
            Loader(mix, 4, **half)
    monkeypatch.setenv("WORLD_SIZE", "8")
    with pytest.raises(OptionError, match=r"WORLD_SIZE is 8, .*init_process_group\(\) first"):
        Loader(mix, 8)
    assert Loader(mix, 8, rank=1, world=2).world == 2
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert Loader(mix, 8).world == 1


def test_ranks_are_those_of_torch_distributed(mix, monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 1)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    assert np.array_equal(next(iter(Loader(mix, 4)))["input_ids"], taken(tokfmt.open(mix), 2, 4))


def test_a_file_that_shrinks_is_an_error_at_the_batch_that_needs_it(mix, tmp_path):
    (tmp_path / "x.pbin").write_bytes(mix.with_name("web.pbin").read_bytes())
    path = recipe(tmp_path / "x.toml", web=("x.pbin", None), epochs=1)
    loader = Loader(path, 4, prefetch=2)
    batches = iter(loader)
    next(batches)
    os.truncate(tmp_path / "x.pbin", 40)
    with pytest.raises(tokfmt.TokfmtError, match=r"x\.pbin"):
        list(batches)
    assert loader.samples % 4 == 0


def test_nothing_else_imports_pytorch(mix):
    script = (
        f"import sys, tokfmt; view = tokfmt.open({str(mix)!r}); view[0]; view.where(0); "
        "print([name for name in ('torch', 'h5py', 'zarr', 'transformers') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "[]\n"


@pytest.mark.slow
def test_the_loop_in_the_documentation_trains_and_goes_on(mix, tmp_path):
    page = (ROOT / "docs" / "train.md").read_text()
    (code,) = (
        block
        for block in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
        if "tokfmt.torch" in block
    )
    assert len([line for line in code.splitlines() if line]) <= 25
    for name in ("mix.toml", "web.pbin", "web.pbin.tokfmt.json", "code.pbin", "code.pbin.tokfmt.json"):
        (tmp_path / name).write_bytes(mix.with_name(name).read_bytes())

    def train(script):
        done = forkserver.run(
            [sys.executable, "-c", script], also=WITH_TORCH, cwd=tmp_path, capture_output=True, text=True
        )
        assert not done.returncode, done.stderr
        return done.stdout

    code, whole = code.replace("50257", "128"), len(tokfmt.open(mix)) // 8 * 8
    stopped = code.replace("    loss.backward()\n", "    loss.backward()\n    if loader.samples == 160: break\n")
    assert stopped != code
    first, second = train(stopped), train(code)
    assert first.startswith("160 samples") and second.startswith(f"{whole:,} samples")
    assert torch.load(tmp_path / "last.pt")["loader"]["samples"] == whole // 80 * 80
    assert float(second.split()[-1]) < float(first.split()[-1]), "it has learned which ids there are"
