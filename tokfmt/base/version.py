"""State the version of tokfmt, for what tokfmt writes and prints."""

__version__ = "0.1.0"
