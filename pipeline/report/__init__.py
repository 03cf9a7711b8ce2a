"""Stage 4: ledgers -> one page. Computes no metric: arithmetic lives in queries/."""
