"""Decoder GGUFs for tests, made by the same code as those of the measurements."""

from gaiad.models.gguf.made_gguf import CHAT_TEMPLATE, DEFINED, HALF_BILLION, SPECIAL, TINY_LLAMA, write_tiny_llama

__all__ = ["CHAT_TEMPLATE", "DEFINED", "HALF_BILLION", "SPECIAL", "TINY_LLAMA", "write_tiny_llama"]
