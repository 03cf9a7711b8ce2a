"""Failures from published rates, as events, when there is no log."""
