"""The Embedder port on word counts: texts with the same words are alike. Deterministic and without a process."""

import hashlib
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gaiad.base.ports import RequestContext
from gaiad.wire.status import ModelStatus

DIMENSION = 256


class WordEmbedder:
    """`calls` counts how often it was asked, `failure` is raised instead of an answer when it is set."""

    fingerprint = "word-counts:1"
    dimension = DIMENSION

    def __init__(self) -> None:
        self.calls = 0
        self.failure: Exception | None = None

    async def embed(self, texts: Sequence[str], call: RequestContext) -> NDArray[np.float32]:
        self.calls += 1
        if self.failure is not None:
            raise self.failure
        rows = np.full((len(texts), DIMENSION), 1e-3, dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in re.findall(r"\w+", text.lower()):
                row[int(hashlib.sha256(word.encode()).hexdigest(), 16) % DIMENSION] += 1
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def status(self) -> ModelStatus:
        raise AssertionError("nobody asks a summary's embedder for its status")
