"""`tokfmt overlap` as a function: hits against sets of n-grams, whatever the format, the executor and the tasks."""

import gzip
import json
import re
import tracemalloc

import commands
import numpy as np
import overlap_oracle as oracle
import pytest
from finishing import finish
from hypothesis import example, given, settings
from hypothesis import strategies as st
from paths import CORPUS, FIXTURES, TOKENIZER

import tokfmt
from tokfmt.errors import OptionError, TokenizerMismatchError, TokfmtError

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"
SOME = st.lists(st.lists(st.integers(0, 3), max_size=12), max_size=8)
TEXTS = st.lists(st.lists(st.sampled_from(["a", "B", "é", "東", "a-b", " ", ". ", "İ", "\u0301", "𠀀", "カ", "😀"]), max_size=14).map("".join), max_size=6)  # fmt: skip


def lines(path, texts, name="text"):
    path.write_text("".join(json.dumps({name: text}) + "\n" for text in texts))
    return path


def ids(path, sequences):
    return lines(path, sequences, "input_ids")


def facts(report, k=0):
    return {
        hit.item: (hit.ngrams, hit.found, hit.longest, hit.documents, [one.sequence for one in hit.examples])
        for hit in report.evals[k].hits
    }


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("overlap")


@given(SOME, SOME.filter(len), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
@example([[1, 2, 3, 1, 2, 3]], [[1, 2, 3, 1, 2, 3, 1]], 3)
def test_tokens_are_found_as_by_sets_in_lists(home, documents, evals, n):
    corpus, wanted = ids(home / "c.jsonl", documents), ids(home / "e.jsonl", evals)
    report = tokfmt.overlap(corpus, wanted, ngram=n, by="tokens", jobs=1)
    assert facts(report) == oracle.overlap(evals, documents, n)
    assert report.hit_documents == len(oracle.hit(evals, documents, n)) == report.evals[0].documents
    assert report.evals[0].short == sum(len(item) < n for item in evals)
    assert report.corpora[0].documents == len(documents)


@given(TEXTS, TEXTS.filter(len), st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_words_are_found_as_by_sets_in_lists(home, documents, evals, n):
    corpus, wanted = lines(home / "c.jsonl", documents), lines(home / "e.jsonl", evals)
    report = tokfmt.overlap(corpus, wanted, ngram=n, jobs=1)
    split = [oracle.words(text) for text in documents], [oracle.words(text) for text in evals]
    assert facts(report) == oracle.overlap(split[1], split[0], n)


def planted(rng, documents, evals, top):
    """Sequences of lengths from 0 to some thousands, with parts of items in some of them."""
    items = [rng.integers(0, top, rng.integers(3, 60)) for _ in range(evals)]
    corpus = [rng.integers(0, top, int(rng.pareto(1) * 20) % 5000) for _ in range(documents)]
    for k in range(0, documents, 7):
        item = items[int(rng.integers(evals))]
        at = int(rng.integers(len(corpus[k]) + 1))
        corpus[k] = np.concatenate([corpus[k][:at], item[: int(rng.integers(3, len(item) + 1))], corpus[k][at:]])
    return [one.tolist() for one in corpus], [one.tolist() for one in items]


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """A corpus of 60,000 tokens in several formats, the items, and what sets of n-grams find."""
    home = tmp_path_factory.mktemp("planted")
    documents, items = planted(np.random.default_rng(3), 900, 40, 30)
    corpus = ids(home / "c.jsonl", documents)
    for name in ("c.pbin", "c.zarr", "c.parquet", "c_text_document.bin"):
        tokfmt.convert(corpus, home / name, to_eos=999, allow_loss="empty-sequences")
    return home, ids(home / "e.jsonl", items), oracle.overlap(items, documents, 5)


@pytest.mark.parametrize("name", ["c.jsonl", "c.pbin", "c.zarr", "c.parquet", "c_text_document.bin"])
def test_every_format_has_the_same_hits(corpora, name):
    home, items, expected = corpora
    assert expected
    report = tokfmt.overlap(home / name, items, ngram=5, by="tokens", jobs=2)
    assert facts(report) == expected


def test_tasks_add_up_to_the_whole(corpora, tmp_path):
    home, items, expected = corpora
    how = {"ngram": 5, "by": "tokens"}
    sources = [home / "c.pbin", home / "c.jsonl", home / "c.parquet"]
    whole = tokfmt.overlap(sources, items, **how)
    for k in range(3):
        tokfmt.overlap(sources, items, **how, task=(k, 3), parts=tmp_path)
    listed = tmp_path / "list.jsonl"
    assert tokfmt.overlap(sources, items, **how, finish=True, parts=tmp_path, list=listed) == whole
    assert {number: one[3] for number, one in facts(whole).items()} == {k: 3 * one[3] for k, one in expected.items()}
    with pytest.raises(TokfmtError):  # other options than those of the tasks
        tokfmt.overlap(sources, items, by="tokens", ngram=6, finish=True, parts=tmp_path)
    next(tmp_path.glob("*-1-of-3.npz")).unlink()
    with pytest.raises(TokfmtError, match="1/3"):
        tokfmt.overlap(sources, items, **how, finish=True, parts=tmp_path)


@pytest.mark.parametrize(("name", "column"), [("counts", 0), ("open", 0), ("open", 2), ("examples", 0), ("examples", 1), ("examples", 4)])  # fmt: skip
def test_a_part_that_numbers_what_is_not_there_is_refused(corpora, tmp_path, name, column):
    home, items, _ = corpora
    how = {"ngram": 5, "by": "tokens", "parts": tmp_path}
    tokfmt.overlap(home / "c.pbin", items, **how, task=(0, 1))
    (part,) = tmp_path.glob("*.npz")
    with np.load(part) as file:
        arrays = dict(file)
    wrong = np.zeros((1, arrays[name].shape[1]), np.int64)
    for value in (1 << 40, -1):
        wrong[0, column] = value
        np.savez(part, **{**arrays, name: wrong})
        with pytest.raises(TokfmtError, match=part.name):
            tokfmt.overlap(home / "c.pbin", items, **how, finish=True)


def test_a_document_of_many_regions_is_one(tmp_path):
    """Documents of 0, 9 million and 30 tokens: n-grams over the borders of windows, regions and documents."""
    rng = np.random.default_rng(1)
    long = rng.integers(0, 60_000, 9_000_000, dtype=np.uint16)
    last = rng.integers(0, 60_000, 30, dtype=np.uint16)
    np.save(tmp_path / "c.npy", np.concatenate([long, [60_001], last, [60_001]]).astype(np.uint16))
    borders = [(1 << 20) - 3, (1 << 22) - 1, 2 << 22, len(long) - 8]
    items = [long[a : a + 20].tolist() for a in borders] + [last.tolist(), [*long[-10:].tolist(), *last[:10].tolist()]]
    evals = ids(tmp_path / "e.jsonl", items)
    for jobs in (1, 2):
        report = tokfmt.overlap(tmp_path / "c.npy", evals, by="tokens", ngram=8, eos=60_001, jobs=jobs)
        documents = [long.tolist()[k : k + 40] for k in (a - 10 for a in borders[:3])]
        documents += [long[-40:].tolist(), last.tolist()]
        found = {k: one[:3] for k, one in oracle.overlap(items, documents, 8).items()}
        assert {k: one[:3] for k, one in facts(report).items()} == found
        assert [one[4] for one in facts(report).values()] == [[0], [0], [0], [0], [1], [0, 1]]
        assert report.hit_documents == 2


def test_a_text_of_many_pieces_has_the_words_of_one(tmp_path):
    """A document of 2 MB with a word of 300,000 letters, and items over all borders of its pieces."""
    spelled = [f"w{k % 997}x{k}" for k in range(160_000)]
    spelled[70_000] = "y" * 300_000
    text = " ".join(spelled)
    evals = [" ".join(spelled[a : a + 14]) for a in range(0, 160_000 - 14, 1_777)]
    report = tokfmt.overlap(lines(tmp_path / "c.jsonl", [text]), lines(tmp_path / "e.jsonl", evals), jobs=1)
    assert [(hit.share, hit.longest, hit.examples[0].position) for hit in report.evals[0].hits] == [
        (1.0, 14, a + (a > 70_000))
        for a in range(0, 160_000 - 14, 1_777)  # The long word is two.
    ]


def test_an_instruction_that_all_items_have_counts_in_each(tmp_path):
    """10,000 items with one instruction, in 3,000 documents: counts are exact, examples are the first three."""
    begin = "choose the right answer to the question below and say why "
    evals = lines(tmp_path / "e.jsonl", [f"{begin} q{k} is it q{k} or q{k}" for k in range(10_000)])
    texts = [f"{k} {begin}" + (f"q{k} is it q{k} or q{k}" if k % 1000 == 7 else "") for k in range(3_000)]
    report = tokfmt.overlap(lines(tmp_path / "c.jsonl", texts), evals, ngram=8, jobs=1)
    hits = report.evals[0].hits
    assert len(hits) == 10_000 and {hit.documents for hit in hits} == {3_000} and report.hit_documents == 3_000
    assert {tuple(one.sequence for one in hit.examples) for hit in hits} == {(0, 1, 2)}
    assert [hit.item for hit in hits if hit.share == 1] == [7, 1007, 2007]


def test_items_that_share_n_grams_count_alone(tmp_path):
    """Two evals of 60 items over three IDs, which share n-grams in groups of all sizes."""
    rng = np.random.default_rng(8)
    sets = [[rng.integers(0, 3, rng.integers(2, 9)).tolist() for _ in range(60)] for _ in range(2)]
    documents = [rng.integers(0, 3, rng.integers(0, 12)).tolist() for _ in range(200)]
    corpus, evals = ids(tmp_path / "c.jsonl", documents), [ids(tmp_path / f"{k}.jsonl", sets[k]) for k in range(2)]
    for n in (3, 5):
        report = tokfmt.overlap(corpus, evals, by="tokens", ngram=n, jobs=1)
        for k in range(2):
            assert facts(report, k) == oracle.overlap(sets[k], documents, n)
            assert report.evals[k].documents == len(oracle.hit(sets[k], documents, n))


def test_fields_files_and_sets(tmp_path):
    evals = tmp_path / "e.jsonl"
    evals.write_text("".join(json.dumps({"q": f"is {k} odd", "a": {"b": f"yes {k} is"}}) + "\n" for k in range(5)))
    texts = ["Is 3 odd? Yes, 3 is.", "is 4 ODD\nyes", "odd yes 4"]
    with gzip.open(tmp_path / "c.jsonl.gz", "wt") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in texts)
    report = tokfmt.overlap(
        tmp_path / "c.jsonl.gz", [evals], ngram=4, field="q,a.b", list=tmp_path / "l.jsonl", expect="max_share <= 50%"
    )
    assert facts(report) == {3: (3, 3, 6, 1, [0]), 4: (3, 1, 4, 1, [1])}
    listed = [json.loads(line) for line in (tmp_path / "l.jsonl").read_text().splitlines()]
    parts = [
        [one[side][key] for key in ("before", "match", "after")] for one in listed for side in ("item", "document")
    ]
    assert parts == [
        ["", "is 3 odd\nyes 3 is", ""], ["", "Is 3 odd? Yes, 3 is", "."],
        ["", "is 4 odd\nyes", " 4 is"], ["", "is 4 ODD\nyes", ""],
    ]  # fmt: skip
    assert [(one["item"]["number"], one["document"]["number"]) for one in listed] == [(3, 0), (4, 1)]
    assert len(report.unmet) == 1
    both = [evals, lines(tmp_path / "two.jsonl", ["yes, 3 is odd?"])]
    report = tokfmt.overlap(
        tmp_path / "c.jsonl.gz", both, ngram=2, field=["a.b", "text"], expect=["max_share <= 1", "hit_items > 0"]
    )
    assert [(one.items, one.found, one.documents) for one in report.evals] == [(5, 3, 2), (1, 2, 1)]
    assert not report.unmet


def test_words_of_token_ids_and_tokens_of_text(tmp_path):
    text = json.loads(CORPUS.read_text().splitlines()[3])["text"]
    evals = lines(tmp_path / "e.jsonl", [text[10:300], "nobody wrote this " * 9])
    pack = tmp_path / "c.pbin"
    tokfmt.convert(CORPUS, pack, tokenizer=str(TOKENIZER))
    of_words = [tokfmt.overlap(path, evals, tokenizer=str(TOKENIZER)) for path in (CORPUS, pack)]
    assert facts(of_words[0]) == facts(of_words[1])
    assert facts(of_words[0])[0][4][0] == 3 and list(facts(of_words[0])) == [0]
    of_tokens = [
        tokfmt.overlap(path, evals, by="tokens", tokenizer=str(TOKENIZER), list=tmp_path / "l.jsonl")
        for path in (CORPUS, pack)
    ]
    assert facts(of_tokens[0]) == facts(of_tokens[1]) and facts(of_tokens[0])[0][4][0] == 3
    encoded = [[note for note in report.notes if "2 items of text, encoded with" in note] for report in of_tokens]
    assert [len(notes) for notes in encoded] == [0, 1]  # only IDs can be others than those of the tokenizer
    line, *_ = map(json.loads, (tmp_path / "l.jsonl").read_text().splitlines())
    assert line["item"]["match"] == line["document"]["match"] and line["item"]["match"] in text
    assert tokfmt.overlap(pack, evals).tokenizer is None  # by the manifest of the pack
    assert tokfmt.overlap(pack, pack, by="tokens", ngram=3).max_share == 1


def test_chats_are_what_their_messages_say(tmp_path):
    chat = [{"role": "user", "content": "one two\nthree"}, {"role": "assistant", "content": "four five"}]
    corpus = lines(tmp_path / "c.jsonl", [chat], "messages")
    evals = lines(tmp_path / "e.jsonl", ["two three four five"])
    assert facts(tokfmt.overlap(corpus, evals, ngram=4)) == {0: (1, 1, 4, 1, [0])}


@pytest.mark.parametrize(
    ("how", "names"),
    [
        ({"evals": []}, ["no path"]),
        ({"field": "answer"}, ["answer", "--field NAME"]),
        ({"field": ["a", "b"]}, ["2 for 1 eval"]),
        ({"ngram": 0}, ["ngram"]),
        ({"by": "bytes"}, ["words", "tokens"]),
        ({"by": "tokens"}, ["--tokenizer", "--by words"]),
        ({"paths": PACK, "evals": CORPUS}, ["--tokenizer", "--by tokens"]),
        ({"expect": "share=1"}, ["max_share"]),
        ({"task": (0, 2)}, ["--parts"]),
        ({"evals": "empty.jsonl"}, ["--with"]),
    ],
)
def test_errors_name_the_option(tmp_path, monkeypatch, how, names):
    monkeypatch.chdir(tmp_path)
    lines(tmp_path / "c.jsonl", ["one"])
    (tmp_path / "empty.jsonl").write_bytes(b"")
    given = {"paths": "c.jsonl", "evals": "c.jsonl", **how}
    with pytest.raises(TokfmtError) as caught:
        tokfmt.overlap(given.pop("paths"), given.pop("evals"), **given)
    assert all(name in str(caught.value) for name in names)


def test_another_tokenizer_is_refused(tmp_path):
    other = json.loads((TOKENIZER / "tokenizer.json").read_text())
    other["model"]["merges"] = other["model"]["merges"][:-1]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "tokenizer.json").write_text(json.dumps(other))
    pack, another = tmp_path / "c.pbin", tmp_path / "o.pbin"
    tokfmt.convert(CORPUS, pack, tokenizer=str(TOKENIZER))
    tokfmt.convert(CORPUS, another, tokenizer=str(tmp_path / "other"), eos=0)
    with pytest.raises(TokenizerMismatchError):
        tokfmt.overlap(pack, another, by="tokens")
    with pytest.raises(TokenizerMismatchError):
        tokfmt.overlap(pack, CORPUS, by="tokens", tokenizer=str(tmp_path / "other"))


def test_a_tokenizer_without_an_id_is_refused(tmp_path):
    corpus = ids(tmp_path / "c.jsonl", [[1, 60_000]])
    tokfmt.convert(corpus, tmp_path / "c.npy", to_eos=0)
    for by in ("words", "tokens"):
        with pytest.raises(TokenizerMismatchError):
            tokfmt.overlap(tmp_path / "c.npy", CORPUS, by=by, tokenizer=str(TOKENIZER))


def test_rows_of_the_list_replace_only_a_list(tmp_path):
    corpus = lines(tmp_path / "c.jsonl", ["one two"])
    with pytest.raises(TokfmtError):
        tokfmt.overlap(corpus, corpus, ngram=2, list=corpus)
    assert corpus.read_text().startswith('{"text"')


def expected_rest(documents, items, n):
    out = oracle.hit(items, documents, n)
    return [k for k in range(len(documents)) if k not in out], out


@given(SOME.filter(len), SOME.filter(len), st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_a_conversion_without_overlap_has_exactly_the_others(home, documents, evals, n):
    corpus, wanted = ids(home / "c.jsonl", documents), ids(home / "e.jsonl", evals)
    rest, out = expected_rest(documents, evals, n)
    for name in ("o.jsonl", "o.pbin"):
        tokfmt.convert(
            corpus, home / name, overwrite=True, without={"with": wanted, "ngram": n, "by": "tokens"}, to_eos=9,
            rejects=home / "r.jsonl", jobs=1,
        )  # fmt: skip
        found = [json.loads(line)["input_ids"] for line in (home / "o.jsonl").read_text().splitlines()]
        if name == "o.pbin":
            with tokfmt.open(home / name, eos=9) as dataset:
                found = dataset[:].tolist()
        assert found == [documents[k] for k in rest]
        listed = [json.loads(line) for line in (home / "r.jsonl").read_text().splitlines()]
        assert [one["input_ids"] for one in listed] == [documents[k] for k in out]


@given(TEXTS.filter(len), TEXTS.filter(len), st.integers(1, 3), st.booleans())
@settings(max_examples=25, deadline=None)
def test_texts_without_overlap_are_exactly_the_others(home, documents, evals, n, in_recipe):
    corpus, wanted = lines(home / "c.jsonl", documents), lines(home / "e.jsonl", evals)
    rest, out = expected_rest(list(map(oracle.words, documents)), list(map(oracle.words, evals)), n)
    if in_recipe:
        recipe = home / "mix.toml"
        recipe.write_text(
            f'tokfmt = 1\ntokenizer = "{TOKENIZER}"\n[[source]]\npath = "c.jsonl"\nfilter = "clean"\n'
            f'[filter.clean]\nwithout = {{ with = ["e.jsonl"], ngram = {n} }}\n'
        )
        tokfmt.convert(recipe, home / "o.pbin", overwrite=True, rejects=home / "r.jsonl", jobs=1)
        found = [one.text for one in tokfmt.show(home / "o.pbin", ":", limit=0, tokenizer=str(TOKENIZER)).shown]
    else:
        without = {"with": [wanted], "ngram": n}
        tokfmt.convert(corpus, home / "o.jsonl", overwrite=True, without=without, rejects=home / "r.jsonl", jobs=1)
        found = [json.loads(line)["text"] for line in (home / "o.jsonl").read_text().splitlines()]
    assert found == [documents[k] for k in rest]
    listed = [json.loads(line) for line in (home / "r.jsonl").read_text().splitlines()]
    assert [one["text"] for one in listed] == [documents[k] for k in out]
    if in_recipe:
        assert [(one["record"], one["filter"], one["rule"]) for one in listed] == [(k, "clean", "without") for k in out]


def test_a_recipe_of_token_ids_without_overlap(corpora, tmp_path):
    home, items, _ = corpora
    for by, how in (("tokens", ""), ("words", f'tokenizer = "{TOKENIZER}"\n')):
        recipe = home / "mix.toml"
        recipe.write_text(
            f'tokfmt = 1\n{how}[[source]]\npath = "c.pbin"\nfilter = "clean"\n'
            f'[filter.clean]\nwithout = {{ with = "e.jsonl", ngram = 5, by = "{by}" }}\n'
        )
        tokfmt.convert(recipe, tmp_path / f"{by}.pbin", to_eos=999)
        whole = tokfmt.overlap(home / "c.pbin", items, ngram=5, by=by, tokenizer=str(TOKENIZER) if how else None)
        clean = tokfmt.overlap(
            tmp_path / f"{by}.pbin", items, ngram=5, by=by, tokenizer=str(TOKENIZER) if how else None
        )
        assert whole.hit_documents and not clean.hit_documents
        assert whole.corpora[0].documents - whole.hit_documents == clean.corpora[0].documents


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ('{ with = "e.jsonl", ngrams = 5 }', "ngrams"),
        ("{ ngram = 5 }", "no evals"),
        ('{ with = "none.jsonl", by = "tokens" }', "none.jsonl"),
        ('{ with = "e.jsonl" }', 'tokenizer = "NAME"'),
        ('{ with = "t.jsonl", by = "tokens" }', 'tokenizer = "NAME"'),
        ('{ with = "t.jsonl", by = "tokens" }', 'by = "words"'),
    ],
)
def test_a_recipe_says_what_is_wrong_with_its_evals(tmp_path, rule, said):
    ids(tmp_path / "c.jsonl", [[1, 2]])
    ids(tmp_path / "e.jsonl", [[1, 2]])
    lines(tmp_path / "t.jsonl", ["a b"])
    recipe = tmp_path / "mix.toml"
    recipe.write_text(f'tokfmt = 1\n[[source]]\npath = "c.jsonl"\nfilter = "f"\n[filter.f]\nwithout = {rule}\n')
    with pytest.raises(TokfmtError) as caught:
        tokfmt.convert(recipe, tmp_path / "o.pbin", to_eos=3)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"field": ["q"]}, "--without-opt field=NAME "),
        ({"by": "tokens"}, "--without-opt by=words"),
        ({"with": "e.jsonl"}, "--without-opt by=tokens"),
        ({"with": "e.jsonl", "field": ["input_ids"]}, "ids_field"),
    ],
)
def test_a_conversion_names_its_own_options_of_evals(tmp_path, monkeypatch, how, said):
    monkeypatch.chdir(tmp_path)
    corpus = lines(tmp_path / "c.jsonl", ["a b"])
    ids(tmp_path / "e.jsonl", [[1, 2]])
    with pytest.raises(TokfmtError) as caught:
        tokfmt.convert(corpus, tmp_path / "o.jsonl", without={"with": "c.jsonl", **how})
    assert said in str(caught.value)
    assert not re.search(r"--(field|by)\b", str(caught.value))


def test_a_selection_that_is_no_table_of_evals_names_the_option(tmp_path):
    with pytest.raises(OptionError, match="--select"):
        tokfmt.convert(PACK, tmp_path / "o.jsonl", select="without:x")


def test_a_recipe_of_text_names_its_key_of_the_fields_of_evals(tmp_path):
    lines(tmp_path / "c.jsonl", ["a b"])
    (tmp_path / "mix.toml").write_text(
        f'tokfmt = 1\ntokenizer = "{TOKENIZER}"\n[[source]]\npath = "c.jsonl"\nfilter = "f"\n'
        '[filter.f]\nwithout = { with = "c.jsonl", field = ["q"] }\n'
    )
    with pytest.raises(TokfmtError) as caught:
        tokfmt.convert(tmp_path / "mix.toml", tmp_path / "o.pbin")
    assert 'field = ["NAME"]' in str(caught.value) and "--" not in str(caught.value)


def test_evals_are_sources_of_what_is_written(tmp_path):
    """They are not overwritten, a resumed conversion notices that one has changed, and the manifest names them."""
    corpus, evals = ids(tmp_path / "c.jsonl", [[1, 2], [3, 4]]), ids(tmp_path / "e.jsonl", [[1, 2]])
    recipe, other = tmp_path / "mix.toml", ids(tmp_path / "f.jsonl", [[3, 4]])
    recipe.write_text(
        'tokfmt = 1\n[[source]]\npath = "c.jsonl"\nfilter = "f"\n[filter.f]\n'
        'without = { with = "f.jsonl", ngram = 2, by = "tokens" }\n'
    )
    how = {"without": {"with": evals, "ngram": 2, "by": "tokens"}}
    for source, words, eval_ in ((corpus, how, evals), (recipe, {}, other)):
        with pytest.raises(TokfmtError):
            tokfmt.convert(source, eval_, overwrite=True, to_eos=9, **words)
        out = tmp_path / f"{source.stem}.pbin"
        tokfmt.convert(source, out, to_eos=9, resume=True, **words)
        assert str(eval_.name) in (tmp_path / f"{source.stem}.pbin.tokfmt.json").read_text()
        ids(eval_, [[7, 7], [8, 8]])
        with pytest.raises(TokfmtError):
            tokfmt.convert(source, out, to_eos=9, resume=True, **words)


def test_without_in_tasks_and_with_a_selection(corpora, tmp_path):
    home, items, _ = corpora
    how = {"without": {"with": items, "ngram": 5, "by": "tokens"}}
    tokfmt.convert(home / "c.pbin", tmp_path / "whole.pbin", **how)
    for k in range(2):
        tokfmt.convert(home / "c.pbin", tmp_path / "tasks.pbin", task=(k, 2), **how)
    finish(tmp_path / "tasks.pbin")
    assert (tmp_path / "tasks.pbin").read_bytes() == (tmp_path / "whole.pbin").read_bytes()
    with pytest.raises(OptionError):
        tokfmt.convert(home / "c.pbin", tmp_path / "o.pbin", select="0:3", **how)


def peak(*paths, **how):
    tokfmt.overlap(*paths, **how, jobs=1)  # what is imported, and tables that stay
    tracemalloc.start()
    try:
        tokfmt.overlap(*paths, **how, jobs=1)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "texts",
    [
        ["a b " * 200_000],
        ["a b c d e"] * 40_000,
        [" ".join(f"{k:x}" for k in range(60_000))],
        ["東京" * 60_000],
    ],
    ids=["letters", "items", "distinct", "ideographs"],
)
def test_memory_follows_the_evals(tmp_path, texts):
    """At most 60 times their size, and 40 MiB for windows of the corpus; a corpus of hits takes no more."""
    evals, size = lines(tmp_path / "e.jsonl", texts), sum(len(text.encode()) for text in texts)
    assert peak(lines(tmp_path / "c.jsonl", ["a b c"]), evals, ngram=5) < 60 * size + (40 << 20)
    few = lines(tmp_path / "few.jsonl", ["a b a b a b", texts[0][:40]])
    assert peak(lines(tmp_path / "c.jsonl", texts * 4), few, ngram=5) < 128 << 20


def test_short_items_are_reported(tmp_path):
    evals = lines(tmp_path / "e.jsonl", ["two words", "one of more than three words"])
    corpus = lines(tmp_path / "c.jsonl", ["here are two words of many", "nothing"])
    report = tokfmt.overlap(corpus, evals, ngram=4, expect=["hit_items == 0", "short_items == 0"])
    assert report.short_items == 1 and [text.split()[1] for text in report.unmet] == ["short_items"]
    words = ("convert", corpus, tmp_path / "o.jsonl", "--without", evals, "--without-opt", "ngram=4")
    assert "1 item of evals with fewer than 4 words" in commands.run(*words, check=0).stderr
