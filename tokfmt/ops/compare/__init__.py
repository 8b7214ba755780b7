"""Are two datasets alike? One hash of a sequence, one alignment, and `tokfmt diff`."""
