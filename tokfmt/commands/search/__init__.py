"""Search for sequences by tokens, text or length."""
