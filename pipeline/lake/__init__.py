"""Parquet, manifest, catalog and SQL: what the stages share."""
