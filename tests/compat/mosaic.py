"""MosaicML streaming: StreamingDataset and MDSWriter."""

import exchange
import numpy as np
from streaming import MDSWriter, StreamingDataset


def read(corpus):
    found = StreamingDataset(local=corpus.ours, shuffle=False, batch_size=1)
    return exchange.documents(
        [found[number]["input_ids"].tolist() for number in range(len(found))], corpus.ours_stored
    )  # fmt: skip


def write(corpus):
    with MDSWriter(out=corpus.theirs, columns={"input_ids": "ndarray:uint32"}, hashes=["sha1"]) as out:
        for document in corpus.stored:
            out.write({"input_ids": np.array(document, np.uint32)})
    with MDSWriter(out=corpus.rows, columns=dict.fromkeys(corpus.columns, "ndarray:int64")) as out:
        for row in corpus.each_row:
            out.write({name: np.array(values, np.int64) for name, values in row.items()})


exchange.main({"mds": (read, write)})
