"""Stage 3: timelines and policies -> ledgers."""
