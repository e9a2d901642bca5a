"""A decoder for conversations in tests, made by the same code as that of the measurements."""

from tests.bench.made_session import write_chat_llama

__all__ = ["write_chat_llama"]
