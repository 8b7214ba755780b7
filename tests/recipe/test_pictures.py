"""The pictures of samples in docs/train.md are what recipes give, and its phases follow each other."""

import json
import re
import tomllib

import numpy as np
import pytest
from paths import ROOT

import tokfmt

PAGE = (ROOT / "docs" / "train.md").read_text()
PICTURES = re.findall(r"^```text\n(seq_len = 8; .*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PHASES = dict(re.findall(r"^```toml\n# (\w+\.toml)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
DOCUMENTS = [[11, 12, 13, 14], [21, 22, 23, 24, 25, 26, 27, 28, 29], [31, 32]]


def row(values):
    return " ".join(" ." if value == -100 else f"{value:2}" for value in values.tolist())


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.partition("\n")[0])
def test_a_picture_shows_the_samples_of_its_recipe(picture, tmp_path):
    keys, *lines = picture.splitlines()
    (tmp_path / "x.jsonl").write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in DOCUMENTS))
    tokfmt.convert(tmp_path / "x.jsonl", tmp_path / "x.pbin", to_eos=0)
    recipe = tokfmt.recipe([tmp_path / "x.pbin"], **tomllib.loads(keys.replace("; ", "\n")))
    samples = recipe.samples(range(len(recipe)), ["input_ids", "labels"])
    found = []
    for number, (ids, labels) in enumerate(zip(samples["input_ids"], samples["labels"], strict=True)):
        found += [f"sample {number}  {row(ids)}", f"  labels  {row(labels)}"]
    assert lines == found


def test_every_choice_has_a_picture():
    shown = " ".join(PICTURES)
    for choice in (
        "stream",
        "document",
        "bestfit",
        "disjoint",
        "starts",
        "same",
        "drop",
        "truncate",
        "samples",
        "documents",
    ):
        assert f'"{choice}"' in shown, choice


def test_phases_follow_each_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    for name, count in (("web.pbin", 140), ("code.zarr", 44)):
        rows = [json.dumps({"input_ids": rng.integers(1, 99, 50).tolist()}) + "\n" for _ in range(count)]
        (tmp_path / "x.jsonl").write_text("".join(rows))
        tokfmt.convert("x.jsonl", name, to_eos=0)
    for name, text in PHASES.items():
        (tmp_path / name).write_text(text)
    run, *phases = (tokfmt.open(name) for name in ("run.toml", "first.toml", "second.toml"))
    parts = [phase.samples(range(len(phase)), ["input_ids", "labels"]) for phase in phases]
    whole = run.samples(range(len(run)), ["input_ids", "labels"])
    for field, values in whole.items():
        assert (values == np.concatenate([part[field] for part in parts])).all()
