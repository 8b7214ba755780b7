"""`--bos` names an ID that is no content where a sequence begins, and `--to-bos` one that a destination stores there."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from amount import examples, pairs
from by_hand import megatron, pack
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_tokenizers import llama3_like
from paths import CORPUS

import tokfmt
from tokfmt.cli.main import cli
from tokfmt.errors import ConversionError, LossyConversionError, OptionError, UnendedError

BOS, EOS, OTHER = 5, 7, 6
DOCUMENTS = [[BOS, 1, 2, EOS], [3, EOS], [BOS, 4, BOS, EOS], [BOS, EOS], [BOS, BOS, 8, EOS], [9, EOS]]
CONTENTS = [[1, 2], [3], [4, BOS], [], [BOS, 8], [9]]
LED = [True, False, True, True, True, False]
INDEXED = {"megatron": "out_document.bin", "modalities": "out.pbin", "datatrove": "out.ds", "mds": "m", "litdata": "l"}
FLAT = {"flat-tokens": "o.zarr", "parquet": "o.parquet", "jsonl": "o.jsonl"}


def nanogpt(path, documents):
    path.write_bytes(np.array(sum(documents, []), "<u2").tobytes())
    return path


def jsonl(path, documents):
    path.write_text("".join(json.dumps({"input_ids": one}) + "\n" for one in documents))
    return path


def parquet(path, documents):
    pq.write_table(pa.table({"input_ids": pa.array(documents, pa.list_(pa.uint16()))}), path)
    return path


MAKERS = {"x_document.bin": megatron, "x.pbin": pack, "train.bin": nanogpt, "x.jsonl": jsonl, "x.parquet": parquet}


def beside(path, name="o"):
    """An empty directory."""
    (path / name).mkdir(exist_ok=True)
    return path / name


def laid(documents, to_bos=None, bos=BOS):
    """What an index stores: a naive list, and the five numbers of leads."""
    found, fates = [], []
    for document in documents:
        had = document[:1] == [bos]
        content = document[had:]
        wanted = to_bos if isinstance(to_bos, int) else bos if had and to_bos is None else None
        found += [*([] if wanted is None else [wanted]), *content]
        fates.append(
            ("dropped" if had else "bare")
            if wanted is None
            else "added"
            if not had
            else "kept"
            if wanted == bos
            else "replaced"
        )
    return found, {name: fates.count(name) for name in ("kept", "replaced", "added", "dropped", "bare")}


def lists(path, **how):
    with tokfmt.open(path, **how) as dataset:
        return [one.tolist() for one in dataset]


def manifest_of(path):
    return json.loads(path.with_name(f"{path.name}.tokfmt.json").read_bytes())


@pytest.mark.parametrize("eos", ["none", EOS])
@pytest.mark.parametrize("name", MAKERS)
def test_a_lead_is_no_content(name, eos, tmp_path):
    if name == "train.bin" and eos == "none":
        pytest.skip("only separators mark its sequences")
    path = MAKERS[name](tmp_path / name, DOCUMENTS)
    wanted = [one + [EOS] * (eos == "none") for one in CONTENTS]
    assert lists(path, eos=eos, bos=BOS) == wanted
    assert lists(path, eos=eos) == [
        one[: None if eos == "none" else -1] for one in DOCUMENTS
    ]  # Without --bos it is content.
    with tokfmt.open(path, eos=eos, bos=BOS) as dataset:
        assert [dataset[k].tolist() for k in range(len(dataset))] == wanted
        assert dataset.tokens(0, dataset.info.tokens).tolist() == sum(wanted, [])
    report = tokfmt.stats(path, eos=eos, bos=BOS).datasets[0]
    assert (report.sequences, report.tokens) == (len(wanted), sum(map(len, wanted)))
    if eos == EOS:
        assert report.separators.count == len(DOCUMENTS)
    if name != "x.jsonl":  # The tokens of lines are not counted before they are read.
        assert tokfmt.info(path, eos=eos, bos=BOS).tokens == sum(map(len, wanted))
    other = [[BOS, *one, *[EOS] * (eos == EOS)] for one in wanted]
    assert tokfmt.diff(path, MAKERS[name](beside(tmp_path) / name, other), eos=eos, bos=BOS).identical
    shown = CliRunner().invoke(cli, ["show", str(path), ":", "--eos", str(eos), "--bos", str(BOS), "--json"])
    assert [one["ids"] for one in json.loads(shown.stdout)["shown"]] == wanted
    assert tokfmt.check(path, eos=eos, bos=BOS, deep=True)[0].tokens == sum(map(len, wanted))


def test_tokens_of_a_line_are_counted_from_its_lead(tmp_path):
    with tokfmt.open(jsonl(tmp_path / "x.jsonl", DOCUMENTS), eos=EOS, bos=BOS) as dataset:
        reader: Any = dataset.reader
        places = [reader.axis.locate(position).detail for position in range(3)]
    assert places == ["token 1 of record 0", "token 2 of record 0", "token 0 of record 1"]


@pytest.mark.parametrize(("source", "to", "to_bos"), pairs(MAKERS, INDEXED, [None, BOS, OTHER, "none"]))
def test_where_an_index_bounds_leads_are_kept_replaced_added_or_dropped(source, to, to_bos, tmp_path):
    path = MAKERS[source](tmp_path / source, DOCUMENTS)
    out = beside(tmp_path) / INDEXED[to]
    done = tokfmt.convert(path, out, to_format=to, eos=EOS, bos=BOS, to_bos=to_bos, verify=True)
    tokens, counts = laid(DOCUMENTS, to_bos)
    assert sum(lists(out, eos="none", bos="none"), []) == tokens
    assert done.leads == counts
    assert sum(done.leads.values()) == sum(done.separators.values()) == len(DOCUMENTS)
    stated = manifest_of(out)
    id_, stored = (BOS, "none") if to_bos == "none" else (to_bos or BOS, "before")
    assert (stated["bos_id"], stated["bos_stored"], stated["leads"]) == (id_, stored, counts)
    assert lists(out) == CONTENTS  # The manifest says what is a lead.
    assert tokfmt.check(out, deep=True)[0].counts == ({"TF948": 1} if to_bos is None else {})


@pytest.mark.parametrize("shuffle", [None, 3])
@pytest.mark.parametrize("split", [None, "train=0.5,validation=0.5"])
@pytest.mark.parametrize("source", ["x.pbin", "x.jsonl"])
def test_a_shuffle_and_splits_take_leads_along(source, split, shuffle, tmp_path):
    documents = [[*[BOS] * (k % 3 > 0), k + 10, *[EOS] * (k != 4)] for k in range(40)]
    path = MAKERS[source](tmp_path / source, documents)
    done = tokfmt.convert(path, tmp_path / "o.pbin", eos=EOS, bos=BOS, shuffle=shuffle, split=split, verify=True)
    outs = [tmp_path / f"o.{name}.pbin" for name in ("train", "validation")] if split else [tmp_path / "o.pbin"]
    found = [one for out in outs for one in lists(out, eos="none", bos="none")]
    assert sorted(found) == sorted([*one, *[EOS] * (k == 4)] for k, one in enumerate(documents))
    assert done.leads == {"kept": 26, "replaced": 0, "added": 0, "dropped": 0, "bare": 14}
    contents = sorted([k + 10] for k in range(40))
    assert sorted(one for out in outs for one in lists(out)) == contents


@pytest.mark.parametrize(("to", "name"), [*FLAT.items(), ("nanogpt", "train.bin"), ("hdf5", "o.h5")])
def test_where_contents_or_separators_bound_leads_are_left_out_and_counted(to, name, tmp_path):
    documents = [[BOS, 1, EOS], [2, EOS], [BOS, 3, 4, EOS]]
    out, options = beside(tmp_path) / name, {"layout": "corpus"} if to == "hdf5" else {}
    done = tokfmt.convert(
        pack(tmp_path / "x.pbin", documents), out, to_format=to, to_options=options, eos=EOS, bos=BOS, verify=True
    )
    assert done.leads == {"kept": 0, "replaced": 0, "added": 0, "dropped": 2, "bare": 1}
    assert (manifest_of(out)["bos_id"], manifest_of(out)["bos_stored"]) == (BOS, "none")
    assert lists(out) == [[1], [2], [3, 4]]


@pytest.mark.parametrize(
    ("to", "name"),
    [("nanogpt", "train.bin"), ("llmc", "o_train_1.bin"), ("parquet", "o.parquet"), ("jsonl", "o.jsonl")],
)
def test_a_lead_that_is_asked_for_is_in_front_of_every_sequence(to, name, tmp_path):
    out = beside(tmp_path) / name
    documents = [[BOS, 1, EOS], [2, EOS]]
    done = tokfmt.convert(
        pack(tmp_path / "x.pbin", documents), out, to_format=to, eos=EOS, to_bos=OTHER, bos=BOS, verify=True
    )
    assert done.leads == {"kept": 0, "replaced": 1, "added": 1, "dropped": 0, "bare": 0}
    assert lists(out, bos="none") == [[OTHER, 1], [OTHER, 2]]
    assert lists(out) == [[1], [2]]


@pytest.mark.parametrize("to", [*INDEXED.items(), ("parquet", "o.parquet"), ("nanogpt", "train.bin")])
@pytest.mark.parametrize("name", MAKERS)
def test_a_lead_that_is_there_already_is_not_added_again(name, to, tmp_path):
    path, out = MAKERS[name](tmp_path / name, DOCUMENTS), beside(tmp_path) / to[1]
    done = tokfmt.convert(path, out, to_format=to[0], eos=EOS, to_bos=BOS, verify=True)
    assert lists(out, bos="none") == [[BOS, *one] for one in CONTENTS]
    assert (done.leads["kept"], done.leads["added"]) == (sum(LED), len(LED) - sum(LED))
    again = tokfmt.convert(path, out, to_format=to[0], eos=EOS, bos="none", to_bos=BOS, overwrite=True)
    assert again.leads["added"] == len(LED)
    assert lists(out, bos="none") == [[BOS, *[BOS] * has, *one] for has, one in zip(LED, CONTENTS)]


def test_where_runs_of_separators_are_padding_leads_are_a_loss(tmp_path):
    path, out = pack(tmp_path / "x.pbin", [[BOS, 1, EOS], [2, EOS]]), tmp_path / "s.bin"
    with pytest.raises(LossyConversionError, match="leads") as error:
        tokfmt.convert(path, out, to_format="stage1", seq_len=4, eos=EOS, bos=BOS)
    assert error.value.losses == ["leads"]
    done = tokfmt.convert(path, out, to_format="stage1", seq_len=4, eos=EOS, bos=BOS, allow_loss="leads", verify=True)
    assert (list(done.losses), done.leads["dropped"], lists(out)) == (["leads"], 1, [[1], [2]])
    out.unlink()
    tokfmt.convert(path, tmp_path / "t.bin", to_format="stage1", seq_len=4, eos=EOS, bos=BOS, to_bos="none")
    tokfmt.convert(path, tmp_path / "u.bin", to_format="stage1", seq_len=4, eos=EOS, bos=BOS, to_bos=OTHER)
    assert lists(tmp_path / "u.bin", bos="none") == [[OTHER, 1], [OTHER, 2]]


def test_one_id_marks_boundaries_or_is_a_lead(tmp_path):
    path = nanogpt(tmp_path / "train.bin", DOCUMENTS)
    with pytest.raises(OptionError) as error:
        tokfmt.open(path, eos=EOS, bos=EOS)
    assert error.value.name == "bos"
    with pytest.raises(OptionError) as error:
        tokfmt.convert(path, beside(tmp_path) / "train.bin", to_format="nanogpt", eos=EOS, to_bos=EOS)
    assert error.value.name == "to_bos"
    both = megatron(tmp_path / "b_document.bin", [[EOS, 1, EOS], [EOS, 2, 3, EOS], [EOS]])
    assert lists(both, eos=EOS, bos=EOS) == [[1], [2, 3], []]


def test_a_separator_at_the_beginning_names_bos(tmp_path):
    path = pack(tmp_path / "x.pbin", [[BOS, 1, EOS], [BOS, 2, EOS]])
    with pytest.raises(LossyConversionError, match=f"--bos {BOS}"):
        tokfmt.convert(path, beside(tmp_path) / "train.bin", to_format="nanogpt", eos=EOS, to_eos=BOS)
    tokfmt.convert(path, beside(tmp_path, "p") / "train.bin", to_format="nanogpt", eos=EOS, to_eos=BOS, bos=BOS)
    assert np.fromfile(beside(tmp_path, "p") / "train.bin", "<u2").tolist() == [1, BOS, 2, BOS]


def test_an_exception_that_was_not_looked_at_changes_nothing(tmp_path):
    documents = [[*[BOS] * (k not in {3001, 7003}), k % 4 + 1, EOS] for k in range(12_000)]
    path = megatron(tmp_path / "x_document.bin", documents)
    done = tokfmt.convert(path, tmp_path / "o.pbin", eos=EOS, bos=BOS, to_bos=OTHER)
    assert done.leads == {"kept": 0, "replaced": 11_998, "added": 2, "dropped": 0, "bare": 0}
    with tokfmt.open(tmp_path / "o.pbin", eos="none", bos="none") as dataset:
        assert dataset.tokens(0, dataset.info.tokens).tolist() == laid(documents, OTHER)[0]
    with tokfmt.open(path, eos=EOS, bos=BOS) as dataset, pytest.raises(UnendedError) as error:
        dataset[3001]
    assert (error.value.sequence, error.value.found) == (3001, 3001 % 4 + 1)
    tokfmt.convert(path, tmp_path / "back_document.bin", eos=EOS, bos=BOS, to_format="megatron")
    assert (tmp_path / "back_document.bin").read_bytes() == path.read_bytes()


def test_files_whose_manifests_disagree_are_not_read_as_one(tmp_path):
    for name, bos in (("a.parquet", BOS), ("b.parquet", "none")):
        tokfmt.convert(pack(tmp_path / f"{name}.pbin", [[BOS, 1, EOS]]), tmp_path / name, eos=EOS, to_bos=bos, bos=BOS)
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    with pytest.raises(tokfmt.TokfmtError, match="--bos"):
        tokfmt.convert(paths, tmp_path / "c.zarr")
    tokfmt.convert(paths, tmp_path / "c.zarr", bos="none")
    assert lists(tmp_path / "c.zarr") == [[BOS, 1], [1]]


def test_sources_with_different_leads_need_one(tmp_path):
    for name, bos in (("a.pbin", BOS), ("b.ds", OTHER)):
        tokfmt.convert(pack(tmp_path / f"x-{name}.pbin", [[1, EOS]]), tmp_path / name, eos=EOS, to_bos=bos)
    paths = [tmp_path / "a.pbin", tmp_path / "b.ds"]
    with pytest.raises(ConversionError, match="--to-bos"):
        tokfmt.convert(paths, tmp_path / "c.pbin")
    done = tokfmt.convert(paths, tmp_path / "c.pbin", to_bos=BOS)
    assert (done.leads["kept"], done.leads["replaced"]) == (1, 1)


LISTS = st.lists(st.lists(st.sampled_from([1, 2, BOS]), max_size=4), min_size=1, max_size=8)


@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(contents=LISTS, led=st.lists(st.booleans(), min_size=8, max_size=8), to=st.sampled_from(list(INDEXED.items())))
def test_through_another_index_and_back_each_byte_is_the_same(contents, led, to, tmp_path_factory):
    home = tmp_path_factory.mktemp("law")
    documents = [[*[BOS] * has, *content, EOS] for has, content in zip(led, contents)]
    path = megatron(home / "x_document.bin", documents)
    done = tokfmt.convert(path, home / to[1], to_format=to[0], eos=EOS, bos=BOS, executor="serial")
    assert done.leads == laid(documents)[1]
    tokfmt.convert(home / to[1], home / "back_document.bin", to_format="megatron", executor="serial")
    for suffix in (".bin", ".idx"):
        assert (home / f"back_document{suffix}").read_bytes() == path.with_suffix(suffix).read_bytes()


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """A tokenizer whose template puts an ID in front of a text, and that ID."""
    made, place = llama3_like(), tmp_path_factory.mktemp("tokenizer")
    made.save(str(place / "tokenizer.json"))
    (place / "tokenizer_config.json").write_text('{"eos_token": "<|end_of_text|>"}')
    return place, made


def test_a_bos_of_the_tokenizer_is_noted_written_and_left_out_of_comparisons(tokenizer, tmp_path):
    place, made = tokenizer
    begin, end = made.token_to_id("<|begin_of_text|>"), made.token_to_id("<|end_of_text|>")
    texts = [json.loads(line)["text"] for line in CORPUS.read_text("utf-8").splitlines()]
    done = tokfmt.convert(CORPUS, tmp_path / "plain.pbin", tokenizer=str(place))
    assert any(f"--to-bos {begin}" in note for note in done.notes)
    done = tokfmt.convert(CORPUS, tmp_path / "led.pbin", tokenizer=str(place), to_bos=begin, verify=True)
    assert not any("--to-bos" in note for note in done.notes)
    wanted = [[*one.ids, end] for one in made.encode_batch(texts)]
    assert lists(tmp_path / "led.pbin", eos="none", bos="none") == wanted
    by_others = pack(tmp_path / "x.pbin", wanted)  # no manifest
    for path in (tmp_path / "plain.pbin", tmp_path / "led.pbin", by_others):
        (report,) = tokfmt.check(path, deep=True, against=CORPUS, tokenizer=str(place))
        assert not [one for one in report.findings if one.severity == "error"], report.findings
        assert "TF925" not in {one.code for one in report.findings}


def test_a_lead_that_no_sequence_has_is_not_stated(tmp_path):
    """Of what no sequence has or gets, the result and the manifest say nothing."""
    path = megatron(tmp_path / "x_document.bin", [[1, 2, EOS], [3, EOS]])
    done = tokfmt.convert(path, tmp_path / "o.pbin", eos=EOS, bos=BOS)
    assert done.lead == {"bos_id": None, "stored": None}
    assert json.loads((tmp_path / "o.pbin.tokfmt.json").read_text())["bos_id"] is None
