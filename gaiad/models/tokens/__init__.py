"""Tokenizers and chat templates: the child that holds vocabularies, and who asks it."""
