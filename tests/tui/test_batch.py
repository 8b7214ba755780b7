"""The batch of a training step, as a picture: its samples are those that `show --step` prints."""

import json
import shutil

import commands
import pytest
from browsing import browse, line, notes
from paths import FIXTURES, TOKENIZER

MIX, RUN = FIXTURES / "recipe" / "mix.toml", FIXTURES / "runs" / "megatron_core"


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def shown(app):
    return app.screen.query_one("BatchList")


def parts_on(app):
    """The samples on the screen: number, rank, and source and document of each part."""
    found = shown(app)
    return [
        (row.number, row.rank, [(part.source, part.document) for part in found.parts[at].parts])
        for at, row in enumerate(found.step.rows)
    ]


def printed(*words):
    document = json.loads(commands.run("show", *words, "--json").stdout)
    return [
        (one["sample"], one["rank"], [(part["source"], part["sequence"]) for part in one["parts"]])
        for one in document["shown"]
    ]


def test_a_step_of_a_recipe_is_that_of_show():
    expected = printed(MIX, "--step", "1", "--batch-size", "8", "--world-size", "2")

    async def steps(app, press):
        await press("b", "b", *["backspace"] * 2, *"8/2", "enter", "right_square_bracket")
        assert shown(app).step.step == 1
        assert [one[:2] for one in parts_on(app)] == [one[:2] for one in expected]
        for (_, _, parts), (_, _, wanted) in zip(parts_on(app), expected, strict=True):
            assert parts == wanted[: len(parts)]  # a last position may be only a label
        await press("left_square_bracket", "left_square_bracket")
        assert shown(app).step.step == 0

    browse([MIX], steps)


def test_the_question_for_a_row_names_a_step_of_the_batches_that_there_are():
    async def steps(app, press):
        await press("g")
        assert "25*8 step 25 of batches of 8" in str(app.screen.query_one("#meaning").render())

    browse([RUN / "run.toml"], steps)


def test_a_run_shows_its_own_batches_and_ranks():
    expected = printed(RUN / "run.toml", "--step", "1")

    async def steps(app, press):
        await press("b", "g", "1", "enter")
        assert parts_on(app) == expected
        assert "2 ranks" in str(app.screen.query_one("#batch-title").render())
        assert line(shown(app), 0).lstrip().startswith("r0")

    browse([RUN / "run.toml"], steps)


def test_enter_reads_a_document_and_o_leads_from_a_run_to_it(tmp_path):
    home = tmp_path / "run"
    shutil.copytree(RUN, home)

    async def steps(app, press):
        await press("b", "down", "right")
        row, parts = shown(app).step.rows[1].row, shown(app).parts[1]
        part = parts.parts[min(1, len(parts.parts) - 1)]
        await press("enter")
        assert type(app.screen).__name__ != "BatchScreen"
        assert app.session.where == (row, part.start)
        await press("O")
        assert app.session.path.name.startswith(part.source)
        assert app.session.where[0] == part.document

    browse([home / "run.toml"], steps)


@pytest.mark.parametrize("name", ["hdf5/summarization", "parquet/default_int64_mask_labels.parquet", "hdf5/new_vsl"])
def test_rows_of_a_file_are_batches_of_the_size_that_the_user_sets(name):
    async def steps(app, press):
        await press("b", "b", *["backspace"] * 2, *"4", "enter", "right_square_bracket")
        assert [row.number for row in shown(app).step.rows] == [4, 5, 6, 7]
        for at, parts in shown(app).parts.items():
            trained = parts.trained is not None and parts.prompts
            assert ("trained" in line(shown(app), at)) == bool(trained)
        await press("b", *["backspace"] * 2, *"0", "enter", "escape")  # no size
        assert len(shown(app).step.rows) == 4

    browse([FIXTURES / name], steps)


def test_documents_are_no_batch():
    async def steps(app, press):
        await press("b")
        assert type(app.screen).__name__ != "BatchScreen"

    browse([FIXTURES / "modalities" / "D_2byte_gpt2.pbin"], steps)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_lines_fit(width):
    async def steps(app, press):
        await press("b")
        for y in range(shown(app).size.height):
            assert len(line(shown(app), y)) <= shown(app).size.width

    browse([MIX], steps, size=(width, 20))


def test_text_is_shown_once_the_tokenizer_is_loaded():
    async def steps(app, press):
        await press("b")
        text = app.screen.query_one("#batch-text")
        ids = str(text.render())
        assert set(ids.split()) <= {word for word in ids.split() if word.isdecimal()}
        app.use_tokenizer(str(TOKENIZER))
        await press()
        assert str(text.render()) != ids, "without a move of the cursor"

    browse([MIX], steps)


def test_o_leads_from_a_batch_to_the_source_and_the_way_back_is_named():
    async def steps(app, press):
        await press("b", "down", "down", "down", "right")
        part = shown(app).parts[3].parts[1]
        await press("O")
        assert app.session.where == (part.document, part.first)
        assert "⌫" in str(app.screen.query_one("#keys").render())
        await press("backspace")
        assert (shown(app).cursor, shown(app).part) == (3, 1)

    browse([MIX], steps)


def test_o_states_why_a_batch_leads_nowhere():
    async def steps(app, press):
        await press("b", "O")
        assert "ledger" in notes(app)[-1].message
        assert shown(app)

    browse([FIXTURES / "hdf5" / "summarization"], steps)


@pytest.mark.parametrize("width", [80, 120])
def test_a_batch_states_the_number_of_steps_and_whether_attention_crosses_documents(width):
    async def steps(app, press):
        await press("b")
        assert "of 45" in str(app.screen.query_one("#batch-title").render()), "360 samples, 8 at each step"
        place = app.screen.query_one("#batch-place")
        assert "attention crosses documents" in "".join(line(place, y) for y in range(place.size.height))

    browse([RUN / "run.toml"], steps, size=(width, 24))
