"""Training from a recipe: what a Loader hands out, where it goes on, and the traps that other loaders fell into."""

import json
import threading
import warnings

import numpy as np
import pytest
from paths import TOKENIZER

import tokfmt

torch = pytest.importorskip("torch", reason="PyTorch is not installed: tests/system.sh brings it where it can")

from tokfmt.recipes.order import numbers  # noqa: E402
from tokfmt.torch import Loader, LoaderWarning  # noqa: E402

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


def test_a_read_that_takes_long_is_reported_with_its_files(mix, monkeypatch):
    monkeypatch.setattr("tokfmt.torch._STALL", 0.01)
    loader, goes_on, said = Loader(mix, 4, prefetch=0), threading.Event(), []
    read = loader.recipe.samples

    def stalled(*args):
        goes_on.wait()
        return read(*args)

    def report(message, category, **_):
        said.append(message)
        assert category is LoaderWarning
        if len(said) == 3:
            goes_on.set()

    monkeypatch.setattr(loader.recipe, "samples", stalled)
    monkeypatch.setattr(warnings, "warn", report)
    batch = next(iter(loader))
    assert np.array_equal(batch["input_ids"], taken(tokfmt.open(mix), 0, 4))
    web, code = (mix.with_name(name) for name in ("web.pbin", "code.pbin"))
    assert said[0] == (
        f"{mix}: samples 0 to 3 were not read within 0 seconds, from {web}, {code}; still waiting. "
        "Check the storage that holds them"
    )


def test_a_tokenizer_that_a_manifest_confirms_is_no_note(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"text": "Salt keeps the fish, and the fish keeps the village."}\n')
    tokfmt.convert(tmp_path / "x.jsonl", tmp_path / "x.pbin", tokenizer=TOKENIZER)
    for how in ({}, {"tokenizer": str(TOKENIZER)}):
        view = tokfmt.recipe([tmp_path / "x.pbin"], seq_len=8, **how)
        assert not [note for note in view.notes if "assumed" in note]
        assert view._samples.vocabulary.ids.size == 4096
        assert int(view.samples(range(len(view)))["input_ids"].max()) == 4095, "the separator"
