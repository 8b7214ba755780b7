"""Any terminal: from 40x12 to 200x60, of few colors or none, with scripts whose width is its own; left as it was."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import unicodedata

import numpy as np
import pytest
from amount import FUZZ_ONLY
from browsers import program
from browsing import PACK, browse, notes, tab_of
from paths import CORPUS, ROOT, TOKENIZER
from rich.cells import cell_len
from textual.widgets import Footer, Input

import tokfmt

SIZES = [(40, 12), (60, 16), (80, 24), (120, 36), (200, 60)]
SCRIPTS = [
    "हिन्दी में लिखा हुआ किताब का पन्ना " * 12,
    "தமிழ் மொழி கொடுத்த புத்தகம் " * 9,
    "emoji ❤️ 👍🏽 👩‍🚀 🇩🇪 1️⃣ ☺️ and 中文 かな 한국어 ไทยกำ " * 6,
    "e\u0301a\u0308 combining\n\u0301 begins with a sign\nবাংলা മലയാളം ಕನ್ನಡ తెలుగు 한" * 4,
]


# the screen, without a terminal


@FUZZ_ONLY
@pytest.mark.parametrize("size", [SIZES[0], SIZES[2], SIZES[4]], ids=str)
def test_every_dialog_is_whole_with_its_lines_and_its_keys(size):
    async def steps(app, press):
        for key in ("g", "slash", "f", "e"):
            await press(key)
            prompt = app.screen.query_one("Prompt").region
            assert prompt.bottom == size[1], key
            assert app.screen.query_one(Input).region.bottom == size[1], key
            await press("escape")
        await press("d")
        assert len(app.screen_stack) == 2
        box, footer = app.screen.query_one(".box"), app.screen.query_one(Footer)
        assert box.region.x >= 0
        assert box.region.y >= 0
        assert box.region.right <= size[0]
        assert box.region.bottom <= size[1] - 1, box.region
        keys = " ".join(str(one.description) for one in footer.query("FooterKey"))
        assert "Cancel" in keys
        assert footer.region.bottom == size[1]

    browse([PACK, CORPUS], steps, size=size)


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


@FUZZ_ONLY
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


@FUZZ_ONLY
def test_borders_stay_in_their_column_in_a_terminal_of_its_own_widths(scripts, tmp_path):
    """tmux draws vowel signs in cells of their own, and emoji of several characters as it likes."""
    with Tmux(tmp_path, (80, 24), scripts) as tmux:
        tmux.await_text("begins with")
        for keys in (("Down",), ("Down", "Down"), ("Tab", "PageDown"), ("z", "G")):
            tmux.keys(*keys)
            time.sleep(0.3)
            tmux.until(lambda seen: whole(seen, 80))
        for columns, lines in SIZES:
            tmux.resize(columns, lines)
            tmux.keys("Home")
            time.sleep(0.3)
            tmux.until(lambda seen, columns=columns: whole(seen, columns))


def whole(seen, columns):
    """Whether the lines between the tabs and the keys end in the last column, each with a border or a scrollbar."""
    lines = [one.rstrip() for one in seen.rstrip("\n").split("\n")][2:-1]
    ends = all(one.endswith(("╮", "│", "╯")) for one in lines)
    return ends and {sum(map(of_tmux, one)) for one in lines} == {columns}


def of_tmux(char):
    signs = unicodedata.category(char) == "Mc"
    return 1 if signs else 2 if 0x1F3FB <= ord(char) <= 0x1F3FF else cell_len(char)


@FUZZ_ONLY
@pytest.mark.parametrize(
    "way",
    ["q", "C-q", "g Escape q", signal.SIGTERM, signal.SIGINT, signal.SIGHUP],
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


@FUZZ_ONLY
def test_keys_that_arrive_at_once_reach_what_the_keys_before_them_open(tmp_path):
    """As over a slow connection: what was typed meanwhile is in one packet."""
    with Tmux(tmp_path, (80, 24), CORPUS) as tmux:
        tmux.await_text("begins with")
        tmux.keys("G", "g", "g", "j", "j")
        tmux.await_text("─ record 2 ·")
        tmux.keys("g", "17", "Enter", "j")
        tmux.await_text("─ record 18 ·")
        tmux.keys("g", "g", "/", "the", "Enter", "n", "f", "len>500", "Enter", "3", "1")
        tmux.await_text("▼ len>500")
        tmux.await_text("the   hit 2 of")
        tmux.keys("?", "j", "?", "3", "?", "?", "q")
        tmux.await_text("left with 0")


def test_a_copy_arrives_in_the_buffer_of_tmux(tmp_path):
    start, stop = tokfmt.open(PACK).reader.offsets(0, 1).tolist()
    ids = tokfmt.open(PACK).reader.tokens(start, stop)
    with Tmux(tmp_path, (100, 24), PACK) as tmux:
        tmux.await_text("464 2068")
        tmux.keys("c")
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


def fake(path, code, out):
    path.write_text(f"#!/bin/sh\ncat > {out}\nexit {code}\n")
    path.chmod(0o755)


@FUZZ_ONLY
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
        told = list(notes(app))[-1]
        assert told.message.startswith(f"{title}: ")
        assert says in told.message
        assert "of document 0 as text" in told.message
        assert app.clipboard

    browse([PACK], steps, tokenizer=str(TOKENIZER))
    taken = tmp_path / "taken"
    assert (taken.exists() and taken.read_text() == "The quick brown") == (needs != "NOTHING") or taken.read_text()


@FUZZ_ONLY
def test_a_link_that_nothing_takes_is_not_said_to_be_in_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))

    async def steps(app, press):
        await press("y")
        told = list(notes(app))[-1].message
        assert "tokfmt browse " in told
        assert told.endswith(". The terminal may ignore it")
        await press("c")
        assert list(notes(app))[-1].message.endswith("e writes a file")

    browse([PACK], steps)
