"""docs/prepare.md with datatrove as the page has it installed: its Python is run, and MinHash, which the page names.

    python data_trove_page.py HOME

HOME is a directory in which the sample of `tokfmt demo` is written. What was compared is left in `said.json`, as by the other scripts.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import MinhashDedupBuckets, MinhashDedupCluster, MinhashDedupFilter, MinhashDedupSignature
from exchange import same
from tokenizers import Tokenizer

import tokfmt
from tokfmt.integrations.datatrove import TokfmtReader, TokfmtWriter, finish
from tokfmt.sample import write_sample

PAGE = Path(__file__).parents[2] / "docs" / "prepare.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TEXTS = ("sample/corpus.jsonl", "sample/more.jsonl")  # of the recipe that the page reads


def texts_of(path):
    return [json.loads(line)["text"] for line in Path(path).read_text().splitlines()]


def encoded(texts):
    tokenizer = Tokenizer.from_file("sample/tokenizer/tokenizer.json")
    return [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]


def stored(path):
    with tokfmt.open(path) as found:
        return [row.tolist() for row in found]


def blocks():
    """Each block that imports datatrove, run as a script; the filter of the page leaves out texts with an address."""
    found = [block for block in BLOCK.findall(PAGE.read_text()) if "datatrove" in block]
    if not found:
        raise SystemExit(f"{PAGE.name} has no block with datatrove")
    for number, block in enumerate(found):
        Path(f"block_{number}.py").write_text(block)
        subprocess.run([sys.executable, f"block_{number}.py"], check=True)
        kept = [text for path in TEXTS for text in texts_of(path) if not re.search("https?://", text)]
        same(stored("corpus.pbin"), encoded(kept))
    return f"{len(found)} block, {len(kept)} documents"


def minhash():
    """Four texts, each a second time with another last word: one of each pair is kept, by any of datatrove's hashes."""
    texts = [text for text in texts_of(TEXTS[0]) if len(text.split()) > 100][:4]
    near = [text.rsplit(None, 1)[0] + " otherwise" for text in texts]
    Path("near.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in [*texts, *near]))
    steps = [
        [TokfmtReader("near.jsonl"), MinhashDedupSignature("signatures")],
        [MinhashDedupBuckets("signatures", "buckets")],
        [MinhashDedupCluster("buckets", "out")],
        [TokfmtReader("near.jsonl"), MinhashDedupFilter("out"), TokfmtWriter("kept.pbin")],
    ]
    tasks = (1, 14, 1, 1)  # a task for each of the 14 buckets that MinhashConfig has if nothing else is asked for
    for number, (pipeline, count) in enumerate(zip(steps, tasks, strict=True)):
        LocalPipelineExecutor(pipeline, tasks=count, workers=1, logging_dir=f"minhash/{number}").run()
    finish("kept.pbin", tokenizer="sample/tokenizer")
    kept = stored("kept.pbin")
    for pair in zip(encoded(texts), encoded(near), strict=True):
        if sum(one in kept for one in pair) != 1:
            raise SystemExit("MinHash keeps both of two texts that differ in one word, or none")
    return f"{len(texts)} of {2 * len(texts)} by MinHash"


def main():
    os.chdir(sys.argv[1])
    write_sample(Path("sample"))
    Path("said.json").write_text("{}")
    Path("said.json").write_text(json.dumps({"read": f"{blocks()}; {minhash()}", "written": False}))


if __name__ == "__main__":
    main()
