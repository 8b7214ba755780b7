"""What is found out of sources once a machine: the same samples, nothing opened that is not read, never out of date."""

import json
import pickle
import shutil
from unittest import mock

import numpy as np
import pytest

import tokfmt
from tokfmt.core.files import File

FILES = 70


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rng = np.random.default_rng(1)
    lines = [json.dumps({"input_ids": rng.integers(1, 99, rng.integers(1, 30)).tolist()}) for _ in range(40)]
    (tmp_path / "x.jsonl").write_text("\n".join(lines) + "\n")
    tokfmt.convert(tmp_path / "x.jsonl", tmp_path / "f0_document.bin", to_format="megatron", eos=0, manifest=False)
    for k in range(1, FILES):
        for suffix in ("bin", "idx"):
            shutil.copy(tmp_path / f"f0_document.{suffix}", tmp_path / f"f{k}_document.{suffix}")
    return tmp_path


def opened(corpus, **words):
    return tokfmt.recipe(
        [str(corpus / "f*_document.bin")], **{"seq_len": 32, "to_eos": 0, "shuffle": "samples", **words}
    )


FIELDS = ["input_ids", "labels", "position_ids", "document_ids", "cu_seqlens"]


@pytest.mark.parametrize(
    "words",
    [{}, {"pack": "bestfit"}, {"labels": "starts", "to_eos": None}, {"shuffle": "documents"}, {"to_eos": "none"}],
    ids=lambda words: next(iter(words.values()), "stream"),
)
def test_the_same_from_the_cache(corpus, words):
    first = opened(corpus, **words)
    every = first.samples(range(len(first)), FIELDS)
    spans = [first.spans(k) for k in range(0, len(first), 17)]
    with mock.patch("tokfmt.ops.source.recipe.find_sources", side_effect=AssertionError("looked for")):
        again = opened(corpus, **words)
    assert again.fingerprint == first.fingerprint
    for view in (again, pickle.loads(pickle.dumps(again))):
        got = view.samples(range(len(view)), FIELDS)
        assert all((got[name] == every[name]).all() for name in FIELDS)
        assert [view.spans(k) for k in range(0, len(view), 17)] == spans


def test_a_first_batch_opens_the_files_it_reads_and_no_others(corpus):
    opened(corpus)
    touched = set()
    real = File._reopen

    def reopen(self):
        touched.add(self.path.name)
        return real(self)

    with mock.patch.object(File, "_reopen", reopen), mock.patch.object(File, "__init__", side_effect=AssertionError):
        opened(corpus).samples(range(4))
    assert 0 < len(touched) <= 8


@pytest.mark.parametrize("what", ["data", "index", "manifest", "another file", "a file less"])
def test_changed_source_is_opened_again(corpus, what):
    before = opened(corpus)
    length = len(before)
    if what == "another file":
        for suffix in ("bin", "idx"):
            shutil.copy(corpus / f"f0_document.{suffix}", corpus / f"f{FILES}_document.{suffix}")
    elif what == "a file less":
        for suffix in ("bin", "idx"):
            (corpus / f"f3_document.{suffix}").unlink()
    elif what == "manifest":
        (corpus / "f3_document.bin.tokfmt.json").write_text("{}")
    else:
        path = corpus / ("f3_document.bin" if what == "data" else "f3_document.idx")
        content = path.read_bytes()
        path.unlink()
        path.write_bytes(content)
    with mock.patch("tokfmt.ops.source.recipe.find_sources", side_effect=LookupError), pytest.raises(LookupError):
        opened(corpus)
    after = len(opened(corpus))
    assert (after > length, after < length) == (what == "another file", what == "a file less")
