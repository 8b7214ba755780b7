"""python -P preparing_peer.py LINES TOKENIZER OUT: datatrove's pipeline, run by the Python of its own environment (see `preparing`).

The rules are those of tokfmt's `garbage`, in a LambdaFilter: datatrove's own quality filters decide otherwise, so that
nothing could be compared, and take longer (they part words with spaCy).
"""

import re
import sys
from collections import Counter
from pathlib import Path

import regex
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.filters import LambdaFilter
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.tokens import DocumentTokenizer
from tokenizers import Tokenizer

WORD = regex.compile(r"[^\p{L}\p{M}\p{N}]+")
RUN = re.compile(r"(\S)\1{4,}")


def keep(document):
    text = document.text
    words = text.split()
    if len(words) < 50 or len(text) < 200:
        return False
    solid, letters = sum(map(len, words)), len(WORD.sub("", text))
    if not letters or (solid - letters) / letters > 0.3:
        return False
    if sum(len(run[0]) for run in RUN.finditer(text)) / solid > 0.2:
        return False
    first = Counter(words[:1000])
    count = first.total()
    return len(first) / count >= 0.1 and max(first.values()) / count <= 0.3


if __name__ == "__main__":
    lines, tokenizer, out = map(Path, sys.argv[1:])
    coder = Tokenizer.from_file(str(tokenizer))
    steps = [
        JsonlReader(str(lines.parent), glob_pattern=lines.name),
        LambdaFilter(keep),
        DocumentTokenizer(str(out), str(tokenizer), eos_token=coder.id_to_token(coder.get_vocab_size() - 1), seed=1),
    ]
    LocalPipelineExecutor(steps, tasks=1, logging_dir=str(out / "logs"), skip_completed=False).run()
