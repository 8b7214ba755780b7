"""Where a long text may be cut so that its pieces have the IDs of the whole, by the tokenizer."""

import json

import numpy as np
import pytest
from paths import TOKENIZER
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from tokfmt.text.decoding import Content
from tokfmt.text.long_texts import NOWHERE, cuts_of


def changed(part):
    """Our tokenizer with something else about it."""
    content = json.loads((TOKENIZER / "tokenizer.json").read_text())
    part(content)
    return content


def added(**token):
    plain = {"id": 4096, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    return lambda content: content["added_tokens"].append(plain | token)


@pytest.mark.parametrize(
    ("part", "borders", "words"),
    [
        (lambda content: content.pop("version"), True, True),
        (added(content="<tool>"), True, True),
        (added(content="the"), True, False),
        (added(content="of the"), False, False),
        (added(content="a "), False, False),
        (added(content=",", single_word=True), False, False),
        (added(content="\nx"), False, False),
        (added(content="the", rstrip=True), False, False),
        (added(content="the", lstrip=True), False, False),
        (lambda content: content["pre_tokenizer"].update(add_prefix_space=True), False, False),
        (lambda content: content["pre_tokenizer"].update(use_regex=False), False, False),
        (lambda content: content.update(pre_tokenizer=None), False, False),
        (lambda content: content.update(normalizer={"type": "Prepend", "prepend": "_"}), False, False),
        (lambda content: content.update(normalizer={"type": "NFC"}), True, True),
        (lambda content: content["model"].update(end_of_word_suffix="</w>"), True, False),
        (lambda content: content["model"]["vocab"].update({"a" * 300: 4097}), True, False),
    ],
)
def test_where_a_tokenizer_may_be_cut(part, borders, words):
    content = Content(np.frombuffer(json.dumps(changed(part)).encode(), np.uint8), str(id(part)))
    cuts = cuts_of(content)
    assert (cuts.borders, bool(cuts.lengths)) == (borders, words)


def test_an_unknown_split_is_not_cut():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_tokens([AddedToken("a b")])
    for step in (pre_tokenizers.Split("x", "isolated"), pre_tokenizers.Metaspace(), pre_tokenizers.Digits()):
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([step])
        content = Content(np.frombuffer(tokenizer.to_str().encode(), np.uint8), repr(step))
        assert cuts_of(content) is NOWHERE
