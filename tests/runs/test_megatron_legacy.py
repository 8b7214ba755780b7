"""Runs of Megatron-LM up to 23.06 and of GPT-NeoX, as upstream recorded them."""

import json
import shutil

import commands
import numpy as np
import pytest
from run_goldens import RUNS, findings, ids_of, pieces_of, read_by_ranks, recorded, shown, words_of

import tokfmt

PATHS = ("data/harbour", "data/meadow", "data/lantern")
BLEND = {"data_path": "0.35,data/harbour,0.4,data/meadow,0.25,data/lantern"}
NEOX = {"framework": "gpt-neox", "train_data_paths": ",".join(PATHS), "train_data_weights": "0.35,0.4,0.25"}
OVERFLOW = {"framework": "gpt-neox", "train_data_paths": "data/lantern"}
OF_OVERFLOW = "40ns_64sl_1234s_pack_until_overflowpi"
SETS = [
    ("megatron_lm_v2.6", "data", "expected_blend.json", {"framework": "megatron-lm", **BLEND}),
    ("megatron_lm_23.06", "cache", "expected_blend.json", {}),
    ("gpt_neox", "data", "expected_weights.json", NEOX),
    ("gpt_neox", "data", "expected_split_cycle.json",
     {"framework": "gpt-neox", "data_path": "data/meadow", "order": "40ns"}),
    ("gpt_neox", "data", "expected_overflow_ac.json", {**OVERFLOW, "order": f"{OF_OVERFLOW}_ac"}),
    ("gpt_neox", "data", "expected_overflow_noac.json", {**OVERFLOW, "order": OF_OVERFLOW}),
]  # fmt: skip
IDS = [f"{of_set} {name}" for of_set, _, name, _ in SETS]


@pytest.mark.parametrize(("of_set", "folder", "name", "options"), SETS, ids=IDS)
def test_every_sample_is_what_upstream_read(of_set, folder, name, options):
    record = recorded(of_set, name)["samples"]
    run = tokfmt.open(RUNS / of_set / folder, format="run", options={"root": str(RUNS / of_set), **options})
    width = run.info.sample_length
    assert len(run) >= len(record)
    for number, sample in record.items():
        found = run[int(number)].tolist()
        assert found == sample["text"][: len(found)]
        real = min(width, sum(length for *_, length in sample["pieces"]))
        assert len(found) >= real


@pytest.mark.parametrize(("of_set", "folder", "name", "options"), SETS[:3], ids=IDS[:3])
def test_pieces_are_documents_of_their_sources(of_set, folder, name, options):
    home = RUNS / of_set
    for number in (0, 7, 201):
        sample = recorded(of_set, name)["samples"][str(number)]
        (found,) = shown(home / folder, "--sample", number, root=home, **options)
        assert pieces_of(found) == [(sample["source"], *piece) for piece in sample["pieces"] if piece[2]]
        assert ids_of(found) == sample["text"]


@pytest.mark.parametrize(("of_set", "folder", "name", "options"), SETS, ids=IDS)
def test_each_rank_reads_its_share_of_a_step(of_set, folder, name, options):
    home, record = RUNS / of_set, recorded(of_set, name)
    for phase in record["arguments"]["phases"]:
        steps = [step for step in record["steps"] if step["phase"] == phase["name"]]
        consumed = 8 * phase.get("iteration", steps[0]["step"])
        how = {
            **options, "root": home, "batch_size": 8, "micro_batch_size": phase["micro_batch_size"],
            "world_size": phase["data_parallel"], "consumed": consumed,
        }  # fmt: skip
        if "cycle" in name:
            how["samples"] = consumed + 8 * len(steps)
        for step in (steps[0], steps[len(steps) // 2], steps[-1]):
            found = read_by_ranks(home / folder, step["step"], **how)
            assert found == [[sample for micro in rank for sample in micro] for rank in step["ranks"]]


@pytest.mark.parametrize(("of_set", "folder", "name", "options"), SETS, ids=IDS)
def test_a_document_is_found_in_the_samples_that_read_it(of_set, folder, name, options):
    """Every sample that upstream recorded with a document of a source, and no other of those."""
    home, truth = RUNS / of_set, {}
    record = recorded(of_set, name)["samples"]
    width = 65
    for number, sample in record.items():
        used, final = 0, [piece for piece in sample["pieces"] if piece[2]]
        texts = sample["text"]
        for document, _, length in final:
            if used < width and length:
                truth.setdefault((sample["source"], document), set()).add(int(number))
            used += length
        assert len(texts) == width
    if "overflow" in name:  # upstream reads a document of the last window before it gives another sample
        truth = {key: {one for one in found if record[str(one)]["window"] != 39} for key, found in truth.items()}
    words = words_of({"root": home, **options})
    for (source, document), samples in sorted(truth.items())[::9]:
        done = commands.run(
            "show", home / folder, "--from", "run", "--seen", f"{source}#{document}", "--json", *words, check=0
        )
        found = {one["sample"] for one in json.loads(done.stdout)["reads"]} & {int(one) for one in record}
        assert found >= samples
        assert "overflow" in name or found == samples
        assert all(document in {piece[0] for piece in record[str(one)]["pieces"]} for one in found)


@pytest.mark.parametrize(("of_set", "folder", "name", "options"), SETS[:4], ids=IDS[:4])
def test_whole_orders_have_no_finding_and_damaged_ones_have(of_set, folder, name, options, tmp_path):
    shutil.copytree(RUNS / of_set, tmp_path / "set")
    home = tmp_path / "set"
    assert findings(home / folder, root=home, **options) == set()
    for shuffle in (home / folder).glob("*shuffle_idx.npy"):
        order = np.load(shuffle)
        order[3] = order[4]
        np.save(shuffle, order)
    assert findings(home / folder, root=home, **options) == {"TF813"}
    shutil.copytree(RUNS / of_set / folder, home / folder, dirs_exist_ok=True)
    for suffix in ("bin", "idx"):
        shutil.copy(home / "data" / f"harbour.{suffix}", home / "data" / f"meadow.{suffix}")
    assert "TF814" in findings(home / folder, root=home, **options)


def test_the_folder_stays_the_dataset_and_says_that_a_run_is_in_it():
    home = RUNS / "megatron_lm_v2.6"
    done = commands.run("info", home / "data" / "harbour.bin", "--json", check=0)
    facts = json.loads(done.stdout)
    assert facts["format"] == "megatron" and any("--from run" in note for note in facts["notes"])


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"framework": "megatron-lm"}, "data_path"),
        ({"framework": "gpt-neox", "train_data_paths": "data/lantern"}, "order"),
        (
            {"framework": "gpt-neox", "train_data_paths": "data/meadow", "train_data_weights": "1,2"},
            "train_data_weights",
        ),
        ({"framework": "megatron-lm", "data_path": "x,data/meadow"}, "data_path"),
    ],
)
def test_a_missing_fact_is_named(options, word):
    home = RUNS / "gpt_neox"
    done = commands.run("info", home / "data", "--from", "run", *words_of({"root": home, **options}))
    assert done.returncode in (2, 3)
    assert word in done.stderr


def test_a_damaged_description_is_an_error(tmp_path):
    home = tmp_path / "set"
    shutil.copytree(RUNS / "megatron_lm_23.06", home)
    for text in (home / "cache").glob("*.dsc"):
        for content in (b"", b"\xff\xfe", text.read_bytes().replace(b"length 64", b"length 0"), b"Blendable dataset\n"):
            before = text.read_bytes()
            text.write_bytes(content)
            done = commands.run("stats", home / "cache", "--from", "run", "--from-opt", f"root={home}")
            assert done.returncode in (0, 2, 3), done.stderr
            text.write_bytes(before)


def test_samples_in_the_order_of_training(tmp_path):
    """Pythia published its samples shuffled: sequence k of the index is sample k, with its last label."""
    rng = np.random.default_rng(7)
    rows = rng.integers(1, 500, (40, 17)).tolist()
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"input_ids": row}) + "\n" for row in rows))
    commands.run(
        "convert", tmp_path / "rows.jsonl", tmp_path / "document.bin", "--to", "megatron", "--to-eos", "none", check=0
    )
    (tmp_path / "run.toml").write_text(
        'tokfmt = 1\n[run]\nframework = "gpt-neox"\npreshuffled = true\ndata_path = ["document"]\nbatch_size = 8\n'
        "micro_batch_size = 2\nworld_size = 2\n"
    )
    run = tokfmt.open(tmp_path / "run.toml")
    assert [run[k].tolist() for k in range(40)] == [row[:16] for row in rows]
    assert read_by_ranks(tmp_path / "run.toml", 3) == [[24, 25, 28, 29], [26, 27, 30, 31]]
    assert [ids_of(one) for one in shown(tmp_path / "run.toml", "--sample", 33)] == [rows[33]]
    done = commands.run("show", tmp_path / "run.toml", "--seen", "document#33", "--json", check=0)
    assert [(one["sample"], one["step"], one["rank"]) for one in json.loads(done.stdout)["reads"]] == [(33, 4, 0)]
    assert findings(tmp_path / "run.toml") == set()


def test_data_that_are_not_shuffled_samples_are_refused(tmp_path):
    home = RUNS / "gpt_neox"
    options = {"framework": "gpt-neox", "preshuffled": "true", "root": home}
    for paths, word in (("", "data_path"), ("data/meadow,data/lantern", "data_path")):
        done = commands.run("info", home / "data", "--from", "run", *words_of({**options, "data_path": paths}), check=2)
        assert word in done.stderr
    done = commands.run(
        "stats", home / "data", "--from", "run", *words_of({**options, "data_path": "data/meadow"}), check=3
    )
    assert "meadow.idx" in done.stderr
    assert findings(home / "data", data_path="data/meadow", **options) == {"TF812"}


def test_an_index_that_is_zero_from_an_entry_on_is_found(tmp_path):
    """The published shuffle of Pythia's seed 2 is: the finding names the entries."""
    shutil.copytree(RUNS / "gpt_neox", tmp_path / "set")
    (shuffle,) = (tmp_path / "set" / "data").glob("meadow_train_indexmap_40ns*shuffle_idx.npy")
    order = np.load(shuffle)
    assert (order[5:20] != 0).all()
    order[5:20] = 0
    np.save(shuffle, order)
    options = {"framework": "gpt-neox", "data_path": "data/meadow", "order": "40ns", "root": tmp_path / "set"}
    done = commands.run(
        "check", "--deep", tmp_path / "set" / "data", "--from", "run", "--json", *words_of(options), check=1
    )
    (report,) = json.loads(done.stdout)["datasets"]
    (finding,) = [one for one in report["findings"] if one["code"] == "TF813"]
    again = [k for k, window in enumerate(order.tolist()) if window in order[:k].tolist()]
    assert f"the entries {again[0]} to {again[-1]}" in finding["message"]


def test_sequences_of_an_index_are_what_a_run_read_whatever_its_documents(tmp_path):
    """Upstream reads sequences: an index whose documents hold two of them gives the same samples."""
    shutil.copytree(RUNS / "gpt_neox", tmp_path / "set")
    options = {"framework": "gpt-neox", "data_path": "data/meadow", "order": "40ns", "root": tmp_path / "set"}
    before = tokfmt.open(tmp_path / "set" / "data", format="run", options={k: str(v) for k, v in options.items()})
    index = tmp_path / "set" / "data" / "meadow.idx"
    raw = index.read_bytes()
    count, documents = np.frombuffer(raw, "<u8", 2, 18)
    ends = np.frombuffer(raw, "<i8", int(documents), len(raw) - 8 * int(documents))
    assert ends.tolist() == list(range(int(count) + 1))
    pairs = np.unique(np.append(ends[::2], count)).astype("<i8")
    head = raw[:26] + np.array([len(pairs)], "<u8").tobytes() + raw[34 : len(raw) - 8 * int(documents)]
    index.write_bytes(head + pairs.tobytes())
    after = tokfmt.open(tmp_path / "set" / "data", format="run", options={k: str(v) for k, v in options.items()})
    assert [row.tolist() for row in after] == [row.tolist() for row in before]
