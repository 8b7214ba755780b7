"""The fixtures of several files of tests/ops."""

from reels import reel

__all__ = ["reel"]
