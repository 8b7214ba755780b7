"""From text to tokens and back: the tokenizer seam, ingestion into scratch shards."""
