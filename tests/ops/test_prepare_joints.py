"""Recipes of text where quotas, filters, equal texts, passes, kinds of files, ledgers and shards meet, by an oracle."""

import json

import numpy as np
from amount import examples
from filter_oracle import broken
from finishing import finish
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import TOKENIZER
from tokenizers import Tokenizer

import tokfmt
from tokfmt.errors import ConversionError

EOS = 4095
PLAIN = Tokenizer.from_file(str(TOKENIZER / "tokenizer.json"))
MARK = "---"
WORDS = ["sea", "fog", "harbour", "tower", "Ærø", "字", "!!!!!!!!", "x" * 30]
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join), min_size=1, max_size=14)
SOURCE = st.fixed_dictionaries({
    "texts": TEXTS, "kind": st.sampled_from(["lines", "files", "split"]), "filter": st.booleans(),
    "quota": st.none() | st.integers(5, 120), "epochs": st.integers(1, 3),
})  # fmt: skip
RULES = {"min_words": 2, "max_word_share": 0.6}


def order(seed, count):
    """How documents are drawn: by words of a counter-based generator, whose key says what they are for."""
    keys = np.random.Philox(key=34 << 64 | seed, counter=0).random_raw(max(1, count))[:count]
    return sorted(range(count), key=lambda number: (keys[number], number))


def stored(home, number, source):
    """The texts of a source as files, what the recipe says of it, and where each record is."""
    texts, name = source["texts"], f"s{number}"
    if source["kind"] == "lines":
        (home / f"{name}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        return f'path = "{name}.jsonl"', texts, [(f"{name}.jsonl", k) for k in range(len(texts))]
    if source["kind"] == "files":
        (home / name).mkdir()
        for k, text in enumerate(texts):
            (home / name / f"t{k}.txt").write_text(text)
        return f'path = "{name}"', texts, [(f"{name}/t{k}.txt", 0) for k in range(len(texts))]
    texts = [f"{text}\n" for text in texts]
    (home / f"{name}.txt").write_text(f"{MARK}\n".join(texts))
    places = [(f"{name}.txt", k) for k in range(len(texts))]
    return f'path = "{name}.txt"\noptions = {{ separator = "{MARK}" }}', texts, places


def oracle(sources, seed, *, dedup):
    """What of each source is kept: number and place of each document, in order; None where a quota cannot be filled."""
    seen, found = set(), []
    for source, texts, places in sources:
        kept, total, full, quota = [], 0, False, source["quota"]
        encoded = [PLAIN.encode(text, add_special_tokens=False).ids for text in texts]
        for number in order(seed, len(texts)):
            if source["filter"] and broken(texts[number], RULES):
                continue
            if dedup and texts[number] in seen:
                continue
            if quota is not None and total + len(encoded[number]) > quota:
                if not total:
                    return None
                full = True
                break
            seen.add(texts[number])
            kept.append(number)
            total += len(encoded[number])
        rows = [sorted(kept)]
        if quota is not None and not full:
            if quota > total * source["epochs"]:
                return None
            left, again = quota % total, []
            for number in kept:
                if len(encoded[number]) > left:
                    break
                left -= len(encoded[number])
                again.append(number)
            rows = [sorted(kept)] * (quota // total) + [sorted(again)]
        found += [(encoded[number], places[number]) for row in rows for number in row]
    return found


@given(
    made=st.lists(SOURCE, min_size=1, max_size=3), seed=st.integers(0, 9), dedup=st.booleans(), shards=st.integers(0, 2)
)
@settings(max_examples=examples(40))
def test_filters_quotas_duplicates_and_tasks_together(tmp_path_factory, made, seed, dedup, shards):
    """Tokens and origins equal those of the oracle, or the error names the short source; tasks change nothing."""
    home = tmp_path_factory.mktemp("joints")
    kinds = [stored(home, number, source) for number, source in enumerate(made)]
    sources = [(source, texts, places) for source, (_, texts, places) in zip(made, kinds, strict=True)]
    lines = ["tokfmt = 1", f'tokenizer = "{TOKENIZER}"', f"seed = {seed}", f'dedup = "{"exact" if dedup else "none"}"']
    for source, (words, _, _) in zip(made, kinds, strict=True):
        lines += ["[[source]]", words, f"epochs = {source['epochs']}" if source["quota"] is not None else ""]
        lines += [f"tokens = {source['quota']}"] if source["quota"] is not None else []
        lines += ['filter = "some"'] if source["filter"] else []
    lines += ["[filter.some]", *(f"{rule} = {value}" for rule, value in RULES.items())]
    (home / "mix.toml").write_text("\n".join(lines) + "\n")
    wanted, words = oracle(sources, seed, dedup=dedup), {"eos": EOS, "ledger": True, "executor": "serial", "jobs": 1}
    try:
        for index in range(shards):
            tokfmt.convert(home / "mix.toml", home / "a.pbin", task=(index, shards), **words)
        if shards:
            finish(home / "a.pbin", executor="serial", jobs=1)
        else:
            tokfmt.convert(home / "mix.toml", home / "a.pbin", **words)
    except ConversionError as error:
        assert wanted is None, error
        assert "short by" in str(error) or "gives nothing to its quota" in str(error)
        return
    assert wanted is not None
    with tokfmt.open(home / "a.pbin", eos=EOS) as dataset:
        assert [row.tolist() for row in dataset] == [ids for ids, _ in wanted]
    listed = json.loads((home / "a.pbin.ledger.json").read_text())["sources"]
    rows = np.load(home / "a.pbin.ledger")
    found = [(listed[row["source"]]["paths"][0], int(row["record"])) for row in rows]
    assert found == [place for _, place in wanted]
