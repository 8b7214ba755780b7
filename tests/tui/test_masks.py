"""Padding and trained targets: every command that counts or draws them has the numbers that the file says."""

import json
import re

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from amount import only
from browsing import browse, line, reader_text, tab_of
from click.testing import CliRunner

import tokfmt
from tokfmt.cli.main import cli

EOS, PAD, WIDTH = 9, 0, 12
DOCUMENTS = [[1, 2, 3, 4, EOS], [5, 6, EOS], [7, 8, 1, 2, 3, 4, 5, 6, 7, 8, EOS], [1, EOS]]
PROMPTS = [2, 1, 5, 1]  # The first tokens of each document, which are not trained.


class Expected:
    """What a file says of each row, counted by hand."""

    def __init__(self, path, trained, targets, padding, pad=EOS):
        self.path, self.trained, self.targets, self.padding, self.pad = path, trained, targets, padding, pad

    @property
    def view(self):
        return {} if self.path.suffix == ".toml" else {"view": "samples"}


def own_hdf5(home):
    """A stream of documents with masks, in windows of 12 that overlap by a token; tokfmt pads the last."""
    ids, counts = sum(DOCUMENTS, []), []
    for document, prompt in zip(DOCUMENTS, PROMPTS, strict=True):
        counts += [0] * prompt + [1] * (len(document) - prompt)
    np.array(ids, "<u2").tofile(home / "a.ds")
    (home / "a.ds.index").write_bytes(np.cumsum([len(one) for one in DOCUMENTS], dtype="<u8").tobytes())
    (home / "a.ds.metadata").write_text(f"x|2\n{len(ids)}\n{len(ids)} T")
    (home / "a.ds.loss").write_bytes(bytes(counts))
    tokfmt.convert(home / "a.ds", home / "own", eos=EOS, to_format="hdf5", to_options={"seq_len": WIDTH})
    trained, targets, padding = [], [], []
    for start in range(0, len(ids) - 1, WIDTH):
        following = counts[start + 1 : start + WIDTH + 1]
        trained.append(sum(following))
        targets.append([False, *map(bool, following[: WIDTH - 1])] + [False] * (WIDTH - 1 - len(following)))
        padding.append(WIDTH - len(following))
    return Expected(home / "own", trained, [row[:WIDTH] for row in targets], padding)


def rows_of_hdf5(home, *, inverted=False, shifted=True):
    """A document in each row, as tools for fine-tuning write them: the end of text is an input too."""
    rows, trained, targets, padding = [], [], [], []
    for document, prompt in zip(DOCUMENTS, PROMPTS, strict=True):
        fill = WIDTH - len(document)
        counts = [k >= prompt for k in range(len(document))]
        inputs = document + [PAD] * fill
        labels = document[1:] + [PAD] * (fill + 1) if shifted else inputs
        mask = (counts[1:] + [False] if shifted else counts) + [False] * fill
        rows.append([inputs, [int(one) for one in mask], labels])
        targets.append(counts + [False] * fill)
        trained.append(sum(counts))
        padding.append(fill)
    values = np.array(rows, "<i4")
    values[:, 1] ^= inverted
    home.joinpath("rows").mkdir()
    with h5py.File(home / "rows" / "examples_0_0.h5", "w") as file:
        file.create_dataset("data", data=values)
    return Expected(home / "rows", trained, targets, padding, PAD)


def packed(home):
    """Two rows of two documents each. A mask speaks of the next token, and no row is padded."""
    rows = [[0, 1], [2, 3]]
    columns = {name: [] for name in ("input_ids", "loss_mask", "seq_start_id")}
    trained, targets = [], []
    for row in rows:
        ids, mask, starts, flags = [], [], [], []
        for k in row:
            starts.append(len(ids))
            counts = [at >= PROMPTS[k] for at in range(len(DOCUMENTS[k]))]
            ids, mask, flags = ids + DOCUMENTS[k], [*mask, *counts[1:], False], flags + counts
        columns["input_ids"].append(ids)
        columns["loss_mask"].append([int(one) for one in mask])
        columns["seq_start_id"].append(starts)
        trained.append(sum(mask))
        targets.append(flags)
    pq.write_table(pa.table(columns), home / "packed.parquet")
    return Expected(home / "packed.parquet", trained, targets, [0, 0])


def labeled(home):
    """Rows of Hugging Face: a label of each token. The end of text has one, and nothing is padding."""
    labels = [[-100] * prompt + document[prompt:] for document, prompt in zip(DOCUMENTS, PROMPTS, strict=True)]
    pq.write_table(pa.table({"input_ids": DOCUMENTS, "labels": labels}), home / "labeled.parquet")
    targets = [[label != -100 for label in row] for row in labels]
    return Expected(home / "labeled.parquet", [sum(row) for row in targets], targets, [0] * 4)


def stored(home):
    """The samples of a recipe, a document in each, padded with the separator: the end of text is no padding."""
    pq.write_table(pa.table({"input_ids": [one[:-1] for one in DOCUMENTS]}), home / "a.parquet")
    keys = f'tokfmt = 1\nseq_len = {WIDTH}\npack = "document"\nto_eos = {EOS}\n'
    (home / "a.toml").write_text(f'{keys}[[source]]\npath = "a.parquet"\n')
    return home / "a.toml"


def of_recipe(home):
    path = stored(home)
    targets, padding = [], []
    for document in DOCUMENTS:
        targets.append([False] + [True] * (len(document) - 1) + [False] * (WIDTH - len(document)))
        padding.append(WIDTH - len(document))
    return Expected(path, [sum(row) for row in targets], targets, padding)


def of_stored_recipe(home):
    wanted = of_recipe(home)
    tokfmt.convert(wanted.path, home / "stored", to_format="hdf5")
    return Expected(home / "stored", wanted.trained, wanted.targets, wanted.padding)


CASES = {
    "own HDF5": own_hdf5,
    "HDF5 rows": rows_of_hdf5,
    "an inverted mask": lambda home: rows_of_hdf5(home, inverted=True),
    "labels that are not shifted": lambda home: rows_of_hdf5(home, shifted=False),
    "packed rows": packed,
    "labeled rows": labeled,
    "a recipe": of_recipe,
    "a stored recipe": of_stored_recipe,
}


def run(*words):
    done = CliRunner().invoke(cli, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("case", CASES)
def test_padding_and_trained_targets_are_counted_alike(case, tmp_path):
    wanted = CASES[case](tmp_path)
    given = [word for item in wanted.view.items() for word in ("--from-opt", "=".join(item))]
    count = len(wanted.targets)

    text = run("show", wanted.path, f"0:{count}", "--samples", *given)
    assert [int(n) for n in re.findall(r"(\d+) counted in the loss", text)] == wanted.trained
    shown = json.loads(run("show", wanted.path, f"0:{count}", "--samples", "--json", *given))["shown"]
    assert [one["padding"] for one in shown] == wanted.padding

    found = tokfmt.stats(wanted.path, options=wanted.view).datasets[0]
    total = sum(map(len, wanted.targets))
    assert total - found.masked.count == sum(wanted.trained)
    assert (found.padding.count if found.padding else 0) == sum(wanted.padding)

    for name, counts in (
        ("padding", wanted.padding),
        ("masked", [len(row) - n for row, n in zip(wanted.targets, wanted.trained, strict=True)]),
    ):
        for number in {*counts}:
            found = json.loads(run("show", wanted.path, f"{name}=={number}", "--json", *given))
            assert [one["index"] for one in found["shown"]] == [k for k, one in enumerate(counts) if one == number]


def styles_of(app):
    """The styles of each token in the reader, by its position."""
    reader, found = tab_of(app).reader, {}
    for y, shown in enumerate(reader.lines):
        for run, segment in zip(shown.runs, reader.render_line(y), strict=False):
            found.setdefault(run.token, segment.style)
    return found


@pytest.mark.parametrize("case", only(("own HDF5", "labeled rows"), CASES))
def test_the_browser_draws_what_is_not_trained(case, tmp_path):
    """Trained tokens have a ground, and others none; the end of text is as it is trained, and padding is one line."""
    wanted = CASES[case](tmp_path)

    async def steps(app, press):
        row = len(wanted.targets) - 1
        await press("G", "tab", "end")
        reader = tab_of(app).reader
        scroll, targets = reader.scroll, wanted.targets[row]
        filled = len(targets) - wanted.padding[row]
        assert scroll.roll.row == row
        assert scroll.roll.padded == filled
        assert [scroll.is_trained(token) for token in range(scroll.roll.padded)] == targets[:filled]
        if not all(targets[1:filled]):
            styles = styles_of(app)
            grounds = {targets[token]: styles[token].bgcolor for token in range(scroll.roll.padded - 1)}
            assert len(set(grounds.values())) == len(grounds)
        if wanted.padding[row]:
            words = f"⋯ {wanted.padding[row]} × {wanted.pad} padding"
            words += "; the first is a trained label" if targets[filled] else ""
            assert reader_text(app).splitlines()[-1] == words

    browse([wanted.path], steps, options=wanted.view)


def test_an_end_of_text_that_pads_as_well_is_drawn_as_it_is_trained(tmp_path):
    """Rows of 12, padded with the end of text: the first one is the label of the last token, and is trained."""
    rows = []
    for document, prompt in zip(DOCUMENTS, PROMPTS, strict=True):
        fill = WIDTH - len(document)
        mask = [int(k + 1 >= prompt) for k in range(len(document) - 1)] + [0] * (fill + 1)
        rows.append([document + [EOS] * fill, mask, document[1:] + [EOS] * (fill + 1)])
    tmp_path.joinpath("rows").mkdir()
    with h5py.File(tmp_path / "rows" / "examples_0_0.h5", "w") as file:
        file.create_dataset("data", data=np.array(rows, "<i4"))

    async def steps(app, press):
        await press("down", "down", "up")  # to the row of two tokens and an end of text
        scroll = tab_of(app).reader.scroll
        assert [scroll.is_trained(token) for token in range(3)] == [False, True, True]
        assert [run.token for shown in tab_of(app).reader.lines for run in shown.runs][:3] == [0, 1, 2]
        assert reader_text(app).splitlines()[-1] == f"⋯ 10 × {EOS} padding; the first is a trained label"
        await press("down", "enter")
        assert "12 = 4 prompt + 6 trained + 2 padding" in line(tab_of(app).strip, 0)
        for key, row, token in (
            ("right_curly", 2, 5),
            ("right_curly", 2, 10),
            ("left_curly", 2, 5),
            ("left_square", 1, 0),
        ):
            await press(f"{key}_bracket")
            assert tab_of(app).where == (row, token)

    browse([tmp_path / "rows"], steps, options={"view": "samples", "mask": "loss", "stride": "per-document"})


def test_a_recipe_states_its_padding(tmp_path):
    """In the first line, above the list, and in the strip of each sample: the number that the file says."""
    wanted = CASES["a recipe"](tmp_path)
    share = sum(wanted.padding) / (len(wanted.padding) * WIDTH)

    async def steps(app, press):
        assert f"{len(wanted.padding) * WIDTH} positions · {share:.1%} padding" in str(app.query_one("#card").render())
        assert f"{share:.1%} padding" in str(app.query_one("#packing").render())
        for row, padding in enumerate(wanted.padding):
            assert f"· {1 - padding / WIDTH:>4.0%} " in line(tab_of(app).list, 1 + row)

    browse([wanted.path], steps, size=(160, 36))


def test_a_sample_whose_loss_begins_elsewhere_is_told_apart(tmp_path):
    """Of 12 prompts that end with 7 8, one is trained from its middle on, one not at once, and one has another end."""
    rows = [([k, 20 + k, 7, 8], [40 + k, 60 + k, EOS]) for k in range(12)]
    rows[9] = [9, 29, 5, 8], rows[9][1]
    labels = [[-100] * 4 + answer for _, answer in rows]
    labels[3][1:4] = rows[3][0][1:4]
    labels[5][4] = -100
    ids = [prompt + answer for prompt, answer in rows]
    pq.write_table(pa.table({"input_ids": ids, "labels": labels}), tmp_path / "odd.parquet")
    words = {3: "3 trained tokens up to “7 8”; 9 of 12", 5: "1 untrained token after", 9: "no “7 8”, which 9 of 12"}

    async def steps(app, press):
        for row in (0, 3, 5, 9):
            await press("g", *str(row), "enter")
            strip = tab_of(app).strip
            shown = " ".join(line(strip, y).rstrip() for y in range(strip.size.height))
            assert ("▲" in shown) == (row in words)
            assert words.get(row, "") in shown
            assert "7 = 4 prompt + 3 trained + 0 padding" in shown or row in words
            assert "…" not in shown
        rows = tab_of(app).list
        await press("home")
        assert [row for row in range(12) if "▲" in line(rows, rows.head + row)] == [3, 5, 9]
        for key, row in (("n", 3), ("n", 5), ("N", 3), ("n", 5), ("n", 9), ("n", 9)):
            await press(key)
            assert tab_of(app).where[0] == row

    for columns in (120, 80):  # a narrow strip has a line for the facts, and two for what is odd
        browse([tmp_path / "odd.parquet"], steps, size=(columns, 24))


def test_a_line_feed_that_ends_prompts_and_is_in_them_is_nothing_odd(tmp_path):
    ids = [[k, 7, 20 + k, 30 + k, 7, 40 + k, EOS] for k in range(12)]
    labels = [[-100] * 5 + row[5:] for row in ids]
    pq.write_table(pa.table({"input_ids": ids, "labels": labels}), tmp_path / "rows.parquet")

    async def steps(app, press):
        strip = tab_of(app).strip
        assert "7 = 5 prompt + 2 trained + 0 padding" in line(strip, 0)
        assert strip.size.height == 1, "the number of tokens of the only document is not said twice"

    browse([tmp_path / "rows.parquet"], steps)


def test_samples_with_prompts_come_before_documents_without(tmp_path):
    """The documents of HDF5 have no masks, so a dataset of prompts and answers opens with its samples."""
    row = [1, 2, 3, 4, 5, EOS, PAD, PAD], [0, 0, 0, 1, 1, 0, 0, 0], [2, 3, 4, 5, EOS, PAD, PAD, PAD]
    (tmp_path / "rows").mkdir()
    with h5py.File(tmp_path / "rows" / "examples_0_0.h5", "w") as file:
        file.create_dataset("data", data=np.array([row] * 4, "<i4"))

    async def steps(app, press):
        assert tab_of(app).session.view.name == "samples"
        await press("v")
        assert tab_of(app).session.view.name == "documents"

    browse([tmp_path / "rows"], steps)
