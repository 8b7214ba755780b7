"""The bits of the marks of a token: whether it is a target, and whether a document begins with it."""

from tokfmt.core.loss_mask import BEGINS, PADDING, TARGET

__all__ = ["BEGINS", "PADDING", "TARGET"]
