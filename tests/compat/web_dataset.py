"""WebDataset: its reader decodes what tokfmt writes, and its TarWriter writes what tokfmt reads."""

import gzip
import json
from pathlib import Path

import exchange
import webdataset


def read(corpus):
    folder = Path(corpus.ours)
    lines = [json.loads(line) for line in (folder / "manifest.jsonl").read_text().splitlines()]
    shards = [str(folder / f"{line['shard']}.tar") for line in lines]
    found = webdataset.WebDataset(shards, shardshuffle=False, empty_check=False)
    return exchange.documents([json.loads(gzip.decompress(one["json.gz"])) for one in found], corpus.documents)


def write(corpus):
    folder = Path(corpus.theirs)
    folder.mkdir()
    with webdataset.TarWriter(str(folder / "00000000.tar"), mtime=0) as out:
        for number, document in enumerate(corpus.documents):
            out.write({"__key__": f"{number:08d}", "json": document})


exchange.main({"webdataset": (read, write)})
