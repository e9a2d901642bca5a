"""Data files every layer reads: limits, words and registries, with the loader that checks them once.

A value lives here when it comes from a seed document or from a vocabulary and a user never sets it; what a
user may set lives in config.toml. Nothing is read at import: each loader reads its file on first use.
"""
