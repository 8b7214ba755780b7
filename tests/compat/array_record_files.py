"""ArrayRecord: array_record reads what tokfmt writes, writes the same bytes of these records, and what tokfmt reads."""

from pathlib import Path

import exchange
from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter
from tfrecord import example_pb2


def read(corpus):
    records = ArrayRecordReader(corpus.ours).read_all()
    examples = [example_pb2.Example.FromString(record) for record in records]
    found = [list(one.features.feature["input_ids"].int64_list.value) for one in examples]
    told = exchange.documents(found, corpus.documents)
    again = corpus.home / "again.array_record"
    written(again, records, "group_size:1,uncompressed")
    exchange.same(Path(corpus.ours).read_bytes(), again.read_bytes())
    return f"{told}, the same bytes"


def written(path, records, options):
    out = ArrayRecordWriter(str(path), options)
    for record in records:
        out.write(record)
    out.close()


def example(columns):
    found = example_pb2.Example()
    for name, values in columns.items():
        found.features.feature[name].int64_list.value.extend(values)
    return found.SerializeToString()


def write(corpus):
    written(corpus.theirs, [example({"input_ids": document}) for document in corpus.documents], "group_size:7,zstd")
    written(corpus.rows, [example(row) for row in corpus.each_row], "group_size:1")


exchange.main({"arrayrecord": (read, write)})
