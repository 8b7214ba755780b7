"""Any terminal: from 40x12 to 200x60, of few colors or none, with scripts whose width is its own; left as it was."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import unicodedata
from types import SimpleNamespace

import numpy as np
import pytest
from amount import only
from browsers import program
from browsing import PACK, browse, line, tab_of
from paths import CORPUS, FIXTURES, ROOT, TOKENIZER
from rich.cells import cell_len
from textual.widgets import Footer

from tokfmt.ops.source.open import open_source
from tokfmt.tui.widgets.frame import DatasetLine, FindBar, KeyBar, Summary

SIZES = [(40, 12), (60, 16), (80, 24), (120, 36), (200, 60)]
SCRIPTS = [
    "हिन्दी में लिखा हुआ किताब का पन्ना " * 12,
    "தமிழ் மொழி கொடுத்த புத்தகம் " * 9,
    "emoji ❤️ 👍🏽 👩‍🚀 🇩🇪 1️⃣ ☺️ and 中文 かな 한국어 ไทยกำ " * 6,
    "e\u0301a\u0308 combining\n\u0301 begins with a sign\nবাংলা മലയാളം ಕನ್ನಡ తెలుగు 한" * 4,
]


@pytest.fixture(autouse=True)
def _own_place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


# the screen, without a terminal


@pytest.mark.parametrize("size", [SIZES[0], SIZES[2], SIZES[4]], ids=str)
def test_every_dialog_is_whole_with_its_border_and_its_keys(size):
    async def steps(app, press):
        await press("b")
        for key in ("g", "slash", "f", "e", "S", "B", "question_mark", "i", "d"):
            await press(key)
            assert len(app.screen_stack) == 2, key
            box, footer = app.screen.query_one(".box"), app.screen.query_one(Footer)
            assert box.region.x >= 0, key
            assert box.region.y >= 0, key
            assert box.region.right <= size[0], key
            assert box.region.bottom <= size[1] - 1, (key, box.region)
            for widget in box.query("Input, #saying, #meaning"):
                if widget.styles.display != "none" and widget.size.height:
                    assert widget.region.bottom < box.region.bottom, (key, widget)
                    assert widget.region.right < box.region.right, (key, widget)
            keys = " ".join(str(one.description) for one in footer.query("FooterKey"))
            assert "Cancel" in keys or "Close" in keys, key
            assert footer.region.bottom == size[1]
            await press("escape")

    browse([PACK, CORPUS], steps, size=size)


THEMES = ["tokyo-night", "catppuccin-latte", "ansi-dark"]
DRAWN = [(size, theme) for theme in THEMES for size in SIZES]


@pytest.mark.parametrize(("size", "theme"), only([DRAWN[k] for k in (0, 4, 7, 12)], DRAWN))
def test_every_tab_is_drawn_at_every_size(size, theme):
    async def steps(app, press):
        app.theme = theme
        for key in "12345":
            await press(key)
            for label in app.query(".tab"):
                text = str(label.render())
                assert label.size.width >= cell_len(text), (key, text)
            assert str(app.query_one(f"#label-{app.entry.name}").render()).startswith(f"{key} {app.entry.title}")
            assert "? Help" in line(app.query_one(KeyBar), 0)
            assert app.tab.size.height == size[1] - 2

    browse([PACK, CORPUS], steps, size=size, tokenizer=str(TOKENIZER))


def test_the_first_line_leaves_out_the_format_first_and_the_counts_never():
    facts = Summary("corpus.pbin", "modalities", "184 documents · 17,450 tokens")
    seen = [facts.within(cells) for cells in range(80, 0, -1)]
    assert seen[0] == "corpus.pbin · modalities · 184 documents · 17,450 tokens"
    assert all("184 documents · 17,450 tokens" in one for one in seen)
    assert list(dict.fromkeys(seen))[:3] == [
        seen[0],
        "corpus.pbin · 184 documents · 17,450 tokens",
        "corpus.pb… · 184 documents · 17,450 tokens",
    ]

    async def steps(app, press):
        assert "tokens" in str(app.query_one(DatasetLine).render())

    browse([PACK], steps, size=(90, 24))


def test_the_name_of_the_dataset_is_worth_more_than_its_tokens():
    facts = Summary("corpus.pbin", "modalities", "184 documents", "17,450 tokens")
    seen = list(dict.fromkeys(facts.within(cells) for cells in range(80, 0, -1)))
    assert seen[2] == "corpus.pb… · 184 documents · 17,450 tokens"
    assert "corpus.pbin · 184 documents" in seen
    assert seen[-2:] == ["corpu… · 184 documents", "184 documents"]


def of_dataset(app):
    """The facts in the first line, if all of them are drawn."""
    place = app.query_one(DatasetLine)
    text = str(place.render())
    assert cell_len(text) <= place.content_size.width, text
    return text


def test_the_first_line_numbers_the_datasets():
    async def steps(app, press):
        assert "(1 of 2, d)" in of_dataset(app)
        await press("d", "j", "enter")
        assert of_dataset(app).startswith("corpus.jsonl (2 of 2, d)")

    browse([PACK, CORPUS], steps)


@pytest.mark.parametrize("columns", [60, 72, 80, 100])
def test_name_and_rows_are_in_the_first_line_beside_a_filter_and_a_comparison(columns):
    async def steps(app, press):
        assert "D_2by" in of_dataset(app)
        assert "42 documents" in of_dataset(app)
        await press("5")
        assert "42 documents" in of_dataset(app)
        await press("1", "f", *"len>40", "enter")
        assert str(app.query_one("#filtered").render()).endswith("F lists all")
        assert columns < 72 or "42 documents" in of_dataset(app)
        await press("F")
        titles = [str(label.render()) for label in app.query(".tab")]
        assert ("2 Index" in titles) == (columns >= 85)

    browse([PACK, CORPUS], steps, size=(columns, 24), tokenizer=str(TOKENIZER))


def test_the_line_of_a_search_keeps_its_keys_in_any_width():
    search = SimpleNamespace(
        words="a long expression of words", marks=True, failure="", running=True, cancelled=False, rate=10_000_000.0,
        scope=SimpleNamespace(singular="document"), job=SimpleNamespace(share=0.18, done=7_470_000, unit="tokens"),
        results=SimpleNamespace(hits=1158, sequences=1149, capped=False),
    )  # fmt: skip

    async def steps(app, press):
        bar = app.query_one(FindBar)
        for columns in (160, 120, 100, 80, 60):
            await press.pilot.resize_terminal(columns, 24)
            bar.say(search)
            await press.pilot.pause()
            text = line(bar, 0)
            assert re.search("n next +N previous +esc stops$", text.rstrip()), columns
            assert "1,158… hits" in text
            assert "18%" in text
            assert ("tokens, 10.0M/s" in text) == (columns == 160)

    browse([PACK], steps)


def styles(reader):
    """The styles of the tokens in the first line, the cursor first."""
    return [segment.style for segment in reader.render_line(0)]


def test_neighbors_have_different_shades_also_where_tokens_are_within_a_character():
    async def steps(app, press):
        reader = tab_of(app).reader
        shown = [run.token for one in reader.lines for run in one.runs]
        assert len(set(shown)) < reader.scroll.roll.span.length  # signs of the script are tokens of their own
        for y, one in enumerate(reader.lines[:3]):
            tokens = [run.token for run in one.runs]
            shades = [segment.style.bgcolor for segment in reader.render_line(y)][: len(tokens)]
            for k in range(1 if y else 2, len(tokens)):
                assert (shades[k] != shades[k - 1]) == (tokens[k] != tokens[k - 1])

    browse([CORPUS], steps, tokenizer=str(TOKENIZER))


def test_tokens_are_told_apart_without_colors(monkeypatch):
    async def colors(app, press):
        await press("down", "up")
        assert not any(style.underline for style in styles(tab_of(app).reader)[1:])

    async def none(app, press):
        found = styles(tab_of(app).reader)
        assert {bool(style.underline) for style in found} == {True, False}
        await press("tab")
        assert any(style.reverse for style in styles(tab_of(app).reader))
        assert any(segment.style.reverse for segment in tab_of(app).list.render_line(1)) or tab_of(app).reader.has_focus

    async def few(app, press):
        app.screen.add_class("-few-colors")
        await press("tab", "shift+tab")
        assert any(style.underline for style in styles(tab_of(app).reader)[1:])

    browse([PACK], colors, tokenizer=str(TOKENIZER))
    browse([PACK], few, tokenizer=str(TOKENIZER))
    monkeypatch.setenv("NO_COLOR", "1")
    browse([CORPUS], none, tokenizer=str(TOKENIZER))


# in a terminal


class Tmux:
    """The browser in tmux, in a window of some size."""

    def __init__(self, home, size, *words, **environment):
        self._tmux = [program("tmux"), "-S", str(home / "socket"), "-f", "/dev/null"]
        # a worker of pytest has a size in its environment, which outweighs that of a terminal
        here = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self._env = {**here, "XDG_STATE_HOME": str(home / "state"), "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}
        given = " ".join(f"{name}={value}" for name, value in environment.items())
        command = f"env {given} {sys.executable} -m tokfmt browse {' '.join(map(str, words))}; echo left with $?; exec sleep 60"
        self.tell("new-session", "-d", "-x", str(size[0]), "-y", str(size[1]), command)

    def tell(self, *words):
        return subprocess.run(
            [*self._tmux, *words], capture_output=True, encoding="utf-8", env=self._env, check=True, cwd=ROOT
        ).stdout

    def keys(self, *keys):
        self.tell("send-keys", *keys)

    def resize(self, columns, lines):
        self.tell("resize-window", "-x", str(columns), "-y", str(lines))

    def screen(self, *words):
        return self.tell("capture-pane", "-p", *words)

    def until(self, holds):
        for _ in range(1200):
            seen = self.screen()
            if holds(seen):
                return seen
            time.sleep(0.05)
        raise AssertionError(f"did not appear in:\n{seen}")

    def await_text(self, text):
        return self.until(lambda seen: text in seen)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.tell("kill-server")


@pytest.fixture
def scripts(tmp_path):
    path = tmp_path / "scripts.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in SCRIPTS * 9))
    return path


def test_borders_stay_in_their_column_in_a_terminal_of_its_own_widths(scripts, tmp_path):
    """tmux draws vowel signs in cells of their own, and emoji of several characters as it likes."""
    with Tmux(tmp_path, (80, 24), scripts) as tmux:
        tmux.await_text("begins with")
        for keys in (("Down",), ("Down", "Down"), ("Tab", "PageDown"), ("w",), ("w", "W"), ("W", "z"), ("z", "G")):
            tmux.keys(*keys)
            time.sleep(0.3)
            tmux.until(lambda seen: whole(seen, 80))
        for columns, lines in SIZES:
            tmux.resize(columns, lines)
            tmux.keys("g", "g")
            time.sleep(0.3)
            tmux.until(lambda seen, columns=columns: whole(seen, columns))


def whole(seen, columns):
    """Whether the lines between the first and the last end in the last column, each with a border or a scrollbar."""
    lines = [one.rstrip() for one in seen.rstrip("\n").split("\n")][1:-1]
    ends = all(one.endswith(("╮", "│", "╯")) for one in lines)
    return ends and {sum(map(of_tmux, one)) for one in lines} == {columns}


def of_tmux(char):
    signs = unicodedata.category(char) == "Mc"
    return 1 if signs else 2 if 0x1F3FB <= ord(char) <= 0x1F3FF else cell_len(char)


@pytest.mark.parametrize(
    "way",
    ["q", "C-q", ": q Enter", "g : Escape q", "Z Z", "Z j Q Z Q", signal.SIGTERM, signal.SIGINT, signal.SIGHUP],
    ids=str,
)
def test_the_screen_is_left_as_it_was(way, tmp_path):
    flags = "#{alternate_on} #{cursor_flag} #{mouse_any_flag} #{mouse_sgr_flag} #{keypad_flag}"
    with Tmux(tmp_path, (80, 24), PACK) as tmux:
        tmux.await_text("464 2068")
        assert tmux.tell("display-message", "-p", flags).split()[0] == "1"
        if isinstance(way, str):
            for key in way.split():
                tmux.keys(key)
                time.sleep(0.2)
        else:
            pid = int(tmux.tell("display-message", "-p", "#{pane_pid}"))
            children = subprocess.run(
                ["ps", "-o", "pid=,args=", "--ppid", str(pid)], capture_output=True, text=True, check=True
            )
            browser = next(one for one in children.stdout.splitlines() if "tokfmt" in one)
            os.kill(int(browser.split()[0]), way)
        seen = tmux.await_text("left with")
        assert tmux.tell("display-message", "-p", flags).split() == ["0", "1", "0", "0", "0"]
        assert "╭" not in seen
        assert f"left with {0 if isinstance(way, str) else 128 + way}" in seen


def test_keys_that_arrive_at_once_reach_what_the_keys_before_them_open(tmp_path):
    """As over a slow connection: what was typed meanwhile is in one packet."""
    with Tmux(tmp_path, (80, 24), CORPUS) as tmux:
        tmux.await_text("begins with")
        tmux.keys("G", "g", "g", "j", "j")
        tmux.await_text("─ record 2 ·")
        tmux.keys("g", "17", "Enter", "j")
        tmux.await_text("─ record 18 ·")
        tmux.keys("g", "27", "C-j", "j")  # a line feed is the Enter of a terminal that no program has set up
        tmux.await_text("─ record 28 ·")
        tmux.keys("g", "g", "/", "the", "Enter", "n", "f", "len>500", "Enter", "3", "1")
        tmux.await_text("▼ len>500")
        tmux.await_text("the   hit 2 of")
        tmux.keys("?", "j", "q", "3", "?", "q", ":", "q", "Enter")
        tmux.await_text("left with 0")


def test_ctrl_l_draws_over_what_another_program_wrote(tmp_path):
    with Tmux(tmp_path, (80, 24), PACK) as tmux:
        tmux.await_text("found 2 times")  # the last that is drawn
        with open(tmux.tell("display-message", "-p", "#{pane_tty}").strip(), "w") as terminal:
            terminal.write("\x1b7\x1b[9;9Hno carrier\x1b8")
        tmux.await_text("no carrier")
        tmux.keys("C-l")
        tmux.until(lambda seen: "no carrier" not in seen)


def test_a_copy_arrives_in_the_buffer_of_tmux(tmp_path):
    start, stop = open_source([PACK]).reader.offsets(0, 1).tolist()
    ids = open_source([PACK]).reader.tokens(start, stop)
    with Tmux(tmp_path, (100, 24), PACK) as tmux:
        tmux.await_text("464 2068")
        tmux.keys("C")
        tmux.await_text("Copied")
        assert np.array_equal(np.array(tmux.tell("show-buffer").split(), int), ids)


@pytest.mark.parametrize(("name", "value"), [("TERM", "linux"), ("NO_COLOR", "1")])
def test_sixteen_colors_and_none(name, value, tmp_path):
    with Tmux(tmp_path, (80, 24), CORPUS, "--tokenizer", TOKENIZER, **{name: value}) as tmux:
        tmux.until(lambda _: re.search(r"\x1b\[(\d+;)*4m", tmux.screen("-e")))  # tokens are underlined
        drawn = tmux.screen("-e")
        shades = {int(one) for one in re.findall(r"[34]8;5;(\d+)", drawn)}
        if name == "TERM":
            assert not shades  # which the terminal would have to choose colors for
        else:
            assert shades <= {*range(232, 256), 16, 59, 102, 145, 188, 231}  # grays
            assert not re.search(r"\x1b\[(\d+;)*(3[1-6]|4[1-6]|9[1-6]|10[1-6])m", drawn)


# the clipboard of a machine


def fake(path, code, out):
    path.write_text(f"#!/bin/sh\ncat > {out}\nexit {code}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(("name", "needs", "code", "title", "says"), [
    ("wl-copy", "WAYLAND_DISPLAY", 0, "Copied", "in the clipboard (wl-copy)"),
    ("xclip", "DISPLAY", 0, "Copied", "in the clipboard (xclip)"),
    ("tmux", "TMUX", 0, "Copied", "in the buffer of tmux (prefix ] pastes it)"),
    ("xclip", "DISPLAY", 1, "Sent to the terminal", "The terminal may ignore it"),
    ("xclip", "NOTHING", 0, "Sent to the terminal", "The terminal may ignore it"),
])  # fmt: skip
def test_a_copy_says_where_it_went(name, needs, code, title, says, tmp_path, monkeypatch):
    programs = tmp_path / "programs"
    programs.mkdir()
    fake(programs / name, code, tmp_path / "taken")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv(needs, "x")

    async def steps(app, press):
        await press("c")
        told = list(app._notifications)[-1]
        assert told.title == title
        assert says in told.message
        assert "of document 0 as text" in told.message
        assert app.clipboard

    browse([PACK], steps, tokenizer=str(TOKENIZER))
    taken = tmp_path / "taken"
    assert (taken.exists() and taken.read_text() == "The quick brown") == (needs != "NOTHING") or taken.read_text()


def test_a_link_that_nothing_takes_is_not_said_to_be_in_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))

    async def steps(app, press):
        await press("y")
        told = list(app._notifications)[-1].message
        assert told.startswith("tokfmt browse ")
        assert told.endswith(". The terminal may ignore it")
        await press("C")
        assert list(app._notifications)[-1].message.endswith("e writes a file")

    browse([PACK], steps)


def test_a_finding_and_its_bytes_and_the_part_that_holds_them_are_in_step():
    async def steps(app, press):
        await press("3", "enter")
        tab = app.tab
        assert app.entry.name == "index"
        assert tab.hex.has_focus
        field = tab.parts.field
        assert field is not None
        assert field.offset <= tab.hex.at < field.offset + max(1, field.length)
        assert field.name in str(tab.query_one("#field").render())
        await press("home", "up")  # to the header
        assert tab.parts.field.offset == 0
        assert "To the sequence" not in line(app.query_one(KeyBar), 0)
        while "To the sequence" not in line(app.query_one(KeyBar), 0):
            await press("down")
        await press("enter")
        assert app.entry.name == "sequences"

    browse([FIXTURES / "modalities" / "E_D_2byte_gpt2.pbin"], steps)


def test_the_key_to_a_sequence_is_listed_where_there_is_one():
    async def steps(app, press):
        await press("3")
        table = app.tab.list
        for _ in range(table.row_count):
            listed = "To the sequence" in line(app.query_one(KeyBar), 0)
            assert ("l List" in line(app.query_one(KeyBar), 0)) == listed
            await press("s")
            went = app.entry.name == "sequences"
            assert listed == went
            if went:
                await press("backspace")
            await press("down")

    browse([FIXTURES / "modalities" / "E_D_2byte_gpt2.pbin"], steps, size=(160, 36))
