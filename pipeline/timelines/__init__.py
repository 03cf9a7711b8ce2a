"""Stage 2: events -> timelines."""
