"""Text to tokens."""

import json
import pickle

from benchmarks.cases import case, convert
from benchmarks.data import HOME, tokenizer

CORPUS = HOME / "corpus.jsonl"


class TextToPack:
    def prepare(self):
        tokenizer()

    def tokfmt(self, out):
        convert(CORPUS, out / "x.pbin", tokenizer=str(tokenizer()))
        return CORPUS.stat().st_size


@case("text -> pack (peer: per document packing with tokenizers)", ">= 20", "bytes")
class AgainstTokenizers(TextToPack):
    def peer(self, out):
        from tokenizers import Tokenizer

        coder = Tokenizer.from_file(str(tokenizer() / "tokenizer.json"))
        eos = coder.get_vocab_size() - 1
        index, offset, total = [], 0, 0
        # a tenth of the corpus is enough to know its rate
        with open(CORPUS, "rb") as lines, open(out / "x.pbin", "wb") as pack:
            pack.write(b"\0" * 12)
            for line in lines:
                total += len(line)
                if total > 16_000_000:
                    break
                ids = coder.encode(json.loads(line)["text"], add_special_tokens=False).ids
                data = b"".join(i.to_bytes(2, "little") for i in [*ids, eos])
                pack.write(data)
                index.append((offset, len(data)))
                offset += len(data)
            pack.write(pickle.dumps(index))
        return total


@case("text -> pack (peer: bare fastokens, nothing written)", ">= 0.6", "bytes")
class AgainstFastokens(TextToPack):
    def peer(self, out):
        import msgspec
        from fastokens import Tokenizer

        coder = Tokenizer.from_json_str((tokenizer() / "tokenizer.json").read_text())
        decoder = msgspec.json.Decoder(dict[str, str])
        total = 0
        with open(CORPUS, "rb") as lines:
            for line in lines:
                total += len(line)
                coder.encode_batch_flat([decoder.decode(line)["text"]], add_special_tokens=False)
        return total
