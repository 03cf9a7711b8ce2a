"""Stage 1: raw logs and public traces -> `events`, `rejects` and `files`."""
