"""Recipes stored: to formats of samples and of documents, the same bytes whatever -j, and proved by diff."""

import json
from unittest import mock

import numpy as np
import pytest
from paths import ROOT

import tokfmt
from tokfmt import registry
from tokfmt.core.errors import FormatError
from tokfmt.ops.source.recipe import named_by

PACK = ROOT / "fixtures/modalities/E_D_2byte_gpt2.pbin"


@pytest.fixture
def mix(tmp_path):
    rng = np.random.default_rng(5)
    for name, count in (("web", 300), ("code", 90)):
        lines = [json.dumps({"input_ids": rng.integers(1, 500, rng.integers(1, 60)).tolist()}) for _ in range(count)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    tokfmt.convert(tmp_path / "web.jsonl", tmp_path / "web.pbin", eos=0)
    tokfmt.convert(tmp_path / "code.jsonl", tmp_path / "code.zarr", eos=0)

    def written(words="", code="weight = 0.3", web="weight = 0.7"):
        path = tmp_path / "mix.toml"
        path.write_text(
            f'tokfmt = 1\nseq_len = 32\nshuffle = "samples"\n{words}\n[[source]]\npath = "web.pbin"\n{web}\n'
            f'[[source]]\npath = "code.zarr"\n{code}\n'
        )
        return path

    return written


def chained(home, count, sources=1):
    """So many recipes, each a source of the next, or so many of its sources; the last of them."""
    for k in range(count):
        inner = f'"{PACK}"\neos = 50256' if not k else f'"{k - 1}.toml"'
        entries = "".join(f'[[source]]\nname = "s{n}"\npath = {inner}\n' for n in range(sources if k else 1))
        (home / f"{k}.toml").write_text(f"tokfmt = 1\n{entries}")
    return home / f"{count - 1}.toml"


def test_recipes_that_name_others_twice_are_counted(tmp_path, monkeypatch):
    """Thirty levels of two sources each would be a thousand million recipes; here 63 may be, and usually 1,024."""
    monkeypatch.setattr("tokfmt.ops.source.recipe._MAX_RECIPES", 63)
    with tokfmt.open(chained(tmp_path, 6, sources=2)) as dataset, tokfmt.open(PACK, eos=50256) as pack:
        assert dataset.info.tokens == 32 * pack.info.tokens
    for refused in (tokfmt.open, named_by):
        with pytest.raises(FormatError, match="is made of more than 63 recipes. Name the sources"):
            refused(chained(tmp_path, 30, sources=2))


def test_a_source_that_changes_meanwhile_is_noticed(mix, tmp_path):
    from tokfmt.ops.convert import inputs

    opened = inputs.open_sources

    def changing(*given, **more):
        with (tmp_path / "web.pbin").open("ab") as file:
            file.write(b"x")
        return opened(*given, **more)

    path = mix()
    with (
        mock.patch.object(inputs, "open_sources", changing),
        pytest.raises(tokfmt.TokfmtError, match="changed while|contradicts"),
    ):
        tokfmt.convert(path, tmp_path / "x.pbin")
    assert not (tmp_path / "x.pbin").exists()


def test_each_source_is_detected_once(mix, tmp_path):
    """Of a recipe that names another: what guards them, opens them and watches them for changes asks once."""
    mix().replace(tmp_path / "inner.toml")
    outer = tmp_path / "outer.toml"
    outer.write_text('tokfmt = 1\nseq_len = 32\npack = "stored"\n[[source]]\npath = "inner.toml"\n')
    with mock.patch("tokfmt.registry.detect", side_effect=registry.detect) as detect:
        tokfmt.convert(outer, tmp_path / "x.pbin")
    names = sorted(call.args[0].name for call in detect.call_args_list)
    assert names == ["code.zarr", "inner.toml", "outer.toml", "web.pbin"]
