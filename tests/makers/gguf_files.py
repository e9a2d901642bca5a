"""Makes small GGUF files for tests: a random BERT that embeds for real, and damaged copies of it."""

from pathlib import Path

import numpy as np

from gaiad.models.gguf.bert_gguf import SPECIAL_TOKENS, BertShape, write_bert_gguf

TINY_BERT = BertShape(name="tiny-bert", context=64, embedding=32, feed_forward=64, heads=2, layers=2)
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,;:!?-_'\"()[]{}/"


def write_tiny_bert(path: Path, shape: BertShape = TINY_BERT, seed: int = 3) -> Path:
    """A BERT of random weights whose vocabulary is letters, so that every text has a token for each of them."""
    pieces = [*SPECIAL_TOKENS, *_LETTERS, *(f"##{letter}" for letter in _LETTERS)]
    random = np.random.default_rng(seed)

    def tensor(name: str, dimensions: tuple[int, ...]) -> np.ndarray:
        if name.endswith("norm.weight"):
            return np.ones(dimensions, dtype=np.float32)
        scale = 1.0 if name == "token_embd.weight" else 0.2
        return (random.standard_normal(dimensions) * scale).astype(np.float32)

    write_bert_gguf(path, shape, pieces, tensor)
    return path


def truncated(source: Path, target: Path, keep: float) -> Path:
    """The first part of a file."""
    data = source.read_bytes()
    target.write_bytes(data[: int(len(data) * keep)])
    return target


def flipped(source: Path, target: Path, position: int, mask: int = 0xFF) -> Path:
    """The file with one byte changed."""
    data = bytearray(source.read_bytes())
    data[position] ^= mask
    target.write_bytes(data)
    return target
