"""A decoder whose vocabulary cannot write some bytes."""

from pathlib import Path
from unittest.mock import patch

import msgspec

from gaiad.models.gguf import tiny_gguf
from tests.makers.llama_files import TINY_LLAMA, write_tiny_llama

_NORMAL = 1


def write_poor_llama(path: Path, missing: bytes, words: tuple[str, ...] = ()) -> Path:
    """As the tiny decoder, but the tokens of the `missing` bytes show their names, as in "<0xE9>", and not the byte.

    `words` become tokens of their own.
    """
    whole = tiny_gguf.vocabulary

    def poorer(shape: tiny_gguf.LlamaShape) -> tuple[list[bytes], list[float], list[int]]:
        tokens, scores, types = whole(shape)
        for value in missing:
            types[3 + value] = _NORMAL
        if ord(" ") in missing:
            tokens[3 + 256] = b"<space>"
        return tokens, scores, types

    with patch.object(tiny_gguf, "vocabulary", poorer):
        return write_tiny_llama(path, msgspec.structs.replace(TINY_LLAMA, defined=(*TINY_LLAMA.defined, *words)))
