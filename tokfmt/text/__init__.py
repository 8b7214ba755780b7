"""Text to token IDs and back: tokenizers, engines, filters, and the ingestion of records."""
