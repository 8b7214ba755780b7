"""The fast engine against the reference, on strings made to part them; what happens when they do part."""

import random

from paths import TOKENIZER

from tokfmt.text.engine import Fastokens, Reference


def ids(engine, text):
    return engine.encode([text])[0].tolist()


def test_a_word_of_a_megabyte():
    rng = random.Random(1)
    word = "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=1 << 20))
    content = (TOKENIZER / "tokenizer.json").read_bytes()
    assert ids(Fastokens(content, parse=False), word) == ids(Reference(content, parse=False), word)
