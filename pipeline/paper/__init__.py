"""The proof: published numbers recomputed, one row each, with a verdict that nobody types."""
