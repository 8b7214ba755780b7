"""Small tokenizers of the kinds that are out there, trained on our corpus: Llama 3's and Llama 2's."""

import json

from paths import CORPUS
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from tokfmt.text.decoding import ByteLevelDecoder

TEXTS = [json.loads(line)["text"] for line in CORPUS.read_text("utf-8").splitlines()]

LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def llama3_like():
    """Split by a regex, byte-level without one, a template that adds BOS."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(LLAMA3_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(
        TEXTS, trainers.BpeTrainer(vocab_size=2500, initial_alphabet=alphabet, show_progress=False)
    )
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>"])
    begin = tokenizer.token_to_id("<|begin_of_text|>")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", begin)]
    )
    return tokenizer


def sentencepiece_like():
    """Spaces to U+2581, no pre-tokenizer, unknown characters as <0xXX>: what Llama 2 looks like."""
    learned = Tokenizer(models.BPE())
    learned.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    learned.train_from_iterator(TEXTS[:60], trainers.BpeTrainer(vocab_size=900, show_progress=False))
    made = json.loads(learned.to_str())["model"]
    specials = ["<unk>", "<s>", "</s>"]
    pieces = [*specials, *(f"<0x{b:02X}>" for b in range(256)), *sorted(made["vocab"], key=made["vocab"].get)]
    vocab = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    merges = [tuple(m) for m in made["merges"]]
    tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens([AddedToken(s, normalized=False, special=True) for s in specials])
    return tokenizer


def byte_level(words):
    """A decoder of IDs that stand for these bytes each."""
    return ByteLevelDecoder(dict(enumerate(words)), lenient=True)
