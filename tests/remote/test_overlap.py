"""`tokfmt overlap` of objects of a bucket, with evals, parts of tasks and the list of hits in it: as of files."""

import json
import shutil

from paths import CORPUS, FIXTURES

import tokfmt

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"


def test_corpora_evals_parts_and_lists_of_a_bucket(server, bucket, tmp_path):
    shutil.copy(PACK, bucket / "c.pbin")
    shutil.copy(CORPUS, bucket / "c.jsonl")
    (bucket / "e.jsonl").write_text("".join(CORPUS.read_text().splitlines(keepends=True)[3:9]))
    how = {"ngram": 9}
    local = tokfmt.overlap(CORPUS, bucket / "e.jsonl", **how)
    for k in range(2):
        tokfmt.overlap("s3://bkt/c.jsonl", "s3://bkt/e.jsonl", **how, task=(k, 2), parts="s3://bkt/parts")
    done = tokfmt.overlap(
        "s3://bkt/c.jsonl", "s3://bkt/e.jsonl", **how, finish=True, parts="s3://bkt/parts", list="s3://bkt/hits.jsonl"
    )
    assert local.hit_items == 6
    assert [(hit.item, hit.found, hit.documents) for hit in done.evals[0].hits] == [
        (hit.item, hit.found, hit.documents) for hit in local.evals[0].hits
    ]
    lines = [json.loads(line) for line in (bucket / "hits.jsonl").read_text().splitlines()]
    assert len(lines) == sum(len(hit.examples) for hit in done.evals[0].hits)
    assert {one["document"]["path"] for one in lines} == {"s3://bkt/c.jsonl"}
    of_tokens = [tokfmt.overlap(one, PACK, by="tokens", ngram=30).hit_items for one in (PACK, "s3://bkt/c.pbin")]
    assert of_tokens[0] == of_tokens[1] > 0
