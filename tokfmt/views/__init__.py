"""One reader over a reader each: concat, separated, split at a separator, slice, without empties."""
