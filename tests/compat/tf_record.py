"""TFRecord: the package tfrecord reads what tokfmt writes, and its writer writes what tokfmt reads."""

import exchange
from tfrecord.reader import tfrecord_loader
from tfrecord.writer import TFRecordWriter


def read(corpus):
    loader = tfrecord_loader(corpus.ours, None, {"input_ids": "int"})
    return exchange.documents([one["input_ids"].tolist() for one in loader], corpus.documents)


def write(corpus):
    out = TFRecordWriter(corpus.theirs)
    for document in corpus.documents:
        out.write({"input_ids": (document, "int")})
    out.close()
    out = TFRecordWriter(corpus.rows)
    for row in corpus.each_row:
        out.write({name: (values, "int") for name, values in row.items()})
    out.close()


exchange.main({"tfrecord": (read, write)})
