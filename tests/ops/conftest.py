"""The fixtures of several files of tests/ops."""

from arranged import lists, pack
from made_corpora import corpora
from reels import reel

__all__ = ["corpora", "lists", "pack", "reel"]
