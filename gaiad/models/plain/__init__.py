"""Models without weights: one quotes, one reads from a script."""
