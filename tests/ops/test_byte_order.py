"""Tokens whose bytes stand in the wrong order are reported as such: no separator is inferred of them."""

import json

import numpy as np
import pytest

import tokfmt


def lists(vocabulary, eos, seed=1):
    random = np.random.default_rng(seed)
    return [[*random.integers(3, vocabulary - 1, int(random.integers(20, 60))).tolist(), eos] for _ in range(40)]


@pytest.mark.parametrize(("vocabulary", "eos"), [(50_257, 50_256), (32_000, 2)])
@pytest.mark.parametrize("name", ["x_document.bin", "x.ds", "x.pbin"])
def test_swapped_tokens_of_a_dataset_with_an_index(name, vocabulary, eos, tmp_path):
    made = lists(vocabulary, eos)
    source = tmp_path / "source.jsonl"
    source.write_text("".join(json.dumps({"input_ids": one[:-1]}) + "\n" for one in made))
    tokfmt.convert(source, tmp_path / name, manifest=False, eos=eos)
    content = (tmp_path / name).read_bytes()
    ids = np.concatenate([np.asarray(one, "<u2") for one in made])
    at = content.index(ids.tobytes())
    swapped = ids.byteswap().tobytes()
    with tokfmt.open(tmp_path / name) as dataset:
        assert dataset.info.inferred[0].startswith(f"separator {eos} inferred")
    (tmp_path / name).write_bytes(content[:at] + swapped + content[at + len(swapped) :])
    with tokfmt.open(tmp_path / name) as dataset:
        (note,) = (note for note in dataset.info.inferred if "big-endian" in note)
        assert [one.tolist() for one in dataset] == [np.asarray(one, "<u2").byteswap().tolist() for one in made]
    other = int(np.uint16(eos).byteswap())
    assert f"all sequences end with {other}, which is {eos} with its bytes swapped" in note
    with tokfmt.open(tmp_path / name, eos=other) as dataset:
        assert [one.tolist() for one in dataset] == [np.asarray(one[:-1], "<u2").byteswap().tolist() for one in made]
        assert not any("big-endian" in note for note in dataset.info.inferred)
