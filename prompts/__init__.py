"""Prompt texts as files and the loader that fills them with strict variables."""
