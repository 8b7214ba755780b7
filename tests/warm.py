"""What a process that forks commands has done before, once for all of them: imports, engines of the tokenizer."""

import importlib
import os
import pkgutil
from pathlib import Path

import tokfmt
from tokfmt.text import engine
from tokfmt.text.tokenizer import JsonMaker, load_tokenizer

TOKENIZER = Path(__file__).resolve().parents[1] / "fixtures" / "tokenizer"
OTHERS = (
    "fastokens", "h5py", "msgspec", "multiprocessing.synchronize", "numcodecs", "numpy.ma", "numpy.random",
    "rich.progress", "rich.table", "tokenizers", "xxhash",
)  # fmt: skip


def import_all(*also, without=()):
    """Import what commands import; torch and distributed take long, and are asked for by their own tests."""
    without = ("tokfmt.testing", "tokfmt.__main__", "tokfmt.torch", "tokfmt.mix.torch", *without)
    for found in pkgutil.walk_packages(tokfmt.__path__, "tokfmt."):
        if not found.name.startswith(without):
            importlib.import_module(found.name)
    for name in (*OTHERS, *also):
        importlib.import_module(name)


def load_engines():
    """Load both engines, and compare them in a process of its own, as they start threads, which no fork survives."""
    maker = load_tokenizer(str(TOKENIZER)).maker
    assert isinstance(maker, JsonMaker)
    known = maker.content, maker.parse
    for load in (engine.fast_engine, engine.reference_engine):
        load(maker.content, parse=maker.parse)
    pid = os.fork()
    if not pid:
        os._exit(engine._known_difference(*known) is not None)
    if os.waitpid(pid, 0)[1] == 0:
        compare, engine.first_difference = engine.first_difference, lambda *_: None
        engine._known_difference(*known)  # which is kept
        engine.first_difference = compare
