"""`tokfmt overlap` against the usual method: the n-grams of the evals as tuples in a Python set, and a look-up at every position.

lm-evaluation-harness and datatrove look for 13-grams of words so. The peer splits words by a regular expression, in
lower case; it counts hits and no more. 20,000 items have 70 words or tokens each; 200 of them are planted in the corpus.
"""

import json
import random
import re

import numpy as np

import tokfmt
from benchmarks.cases import case
from benchmarks.data import HOME, ROOT, ids
from benchmarks.statistics import pack

N = 13
ITEMS, LENGTH, PLANTED = 20_000, 70, 200
FEW = 4_000_000  # words or tokens that the peer reads
WORDS = 24_000_000
PLACE = HOME / "overlap"
WORD = re.compile(r"[^\W_]+")


def words():
    """A corpus of shuffled words of fixtures, of alphabets, in documents of 500, and evals."""
    corpus, evals = PLACE / "corpus.jsonl", PLACE / "words.jsonl"
    if not evals.exists():
        PLACE.mkdir(parents=True, exist_ok=True)
        texts = [json.loads(line)["text"] for line in (ROOT / "fixtures" / "text" / "corpus.jsonl").open()]
        spelled, rng = [word for word in " ".join(texts).split() if max(word) < "\u3000"], random.Random(4)
        with corpus.open("w") as out:
            documents = [rng.choices(spelled, k=500) for _ in range(WORDS // 500)]
            out.writelines(json.dumps({"text": " ".join(one)}, ensure_ascii=False) + "\n" for one in documents)
        items = [rng.choice(documents)[:LENGTH] for _ in range(PLANTED)]
        items += [rng.choices(spelled, k=LENGTH) for _ in range(ITEMS - PLANTED)]
        evals.write_text("".join(json.dumps({"text": " ".join(item)}, ensure_ascii=False) + "\n" for item in items))
    return corpus, evals


def tokens():
    """The 500 M token IDs of the statistics, and evals."""
    evals = PLACE / "tokens.jsonl"
    if not evals.exists():
        PLACE.mkdir(parents=True, exist_ok=True)
        rng, stream = np.random.default_rng(4), ids(FEW)
        at = rng.integers(0, FEW - LENGTH, PLANTED)
        items = [stream[a : a + LENGTH] for a in at] + [rng.integers(0, 50_000, LENGTH) for _ in range(ITEMS - PLANTED)]
        evals.write_text("".join(json.dumps({"input_ids": item.tolist()}) + "\n" for item in items))
    return pack(), evals


def hits(wanted, documents):
    """The usual method."""
    held = {tuple(item[k : k + N]) for item in wanted for k in range(len(item) - N + 1)}
    found = read = 0
    for document in documents:
        found += sum(tuple(document[k : k + N]) in held for k in range(len(document) - N + 1))
        read += len(document)
        if read >= FEW:
            break
    assert found
    return read


def texts(path):
    return (WORD.findall(json.loads(line)["text"].lower()) for line in path.open())


@case("overlap by words (peer: a Python set of 13-grams)", goal=">= 4", unit="words")
class ByWords:
    prepare = staticmethod(words)

    def peer(self, out):
        corpus, evals = words()
        return hits(texts(evals), texts(corpus))

    def tokfmt(self, out):
        report = tokfmt.overlap(*words(), jobs=1)
        assert report.hit_items >= PLANTED
        return WORDS


@case("overlap by tokens (peer: a Python set of 13-grams)", goal=">= 20, >= 40 M/s", unit="tokens")
class ByTokens:
    prepare = staticmethod(tokens)

    def peer(self, out):
        _, evals = tokens()
        wanted = [json.loads(line)["input_ids"] for line in evals.open()]
        return hits(wanted, [ids(FEW).tolist()])

    def tokfmt(self, out):
        source, evals = tokens()
        report = tokfmt.overlap(source, evals, by="tokens", jobs=1)
        return report.corpora[0].documents and 500_000_000
