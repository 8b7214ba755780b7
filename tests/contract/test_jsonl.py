"""jsonl (ids) under the laws of every format; the oracle is json and readlines."""

import json

from tokfmt.formats.jsonl import FORMAT
from tokfmt.testing.contract import FormatContract


class TestIds(FormatContract):
    format = FORMAT
    filename = "x.jsonl"
    max_id = 2**32 - 1
    write_variants = ({}, {"ids_field": ".sample.ids"})

    def read_options(self, options):
        return options

    def oracle(self, path, options):
        found = []
        with open(path, "rb") as file:
            for line in file.readlines():
                assert line.endswith(b"\n")
                record = json.loads(line)
                assert line == json.dumps(record).encode() + b"\n"
                for key in options.get("ids_field", "input_ids").lstrip(".").split("."):
                    (record,) = [record[key]]
                found.append(record)
        return found
