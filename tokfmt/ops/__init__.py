"""The commands as functions that return data."""
