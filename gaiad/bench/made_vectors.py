"""Made-up vectors for measurements of speed and recall: a mixture of clusters, drawn from a seed.

They stand in for embeddings where making those would take hours. Clusters are of very different sizes and inside one
no direction is preferred, so neighbours are hard to tell apart: an index that finds these finds embeddings too.
"""

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
CLUSTERS = 1000
SPREAD = 1.0
"""Length of the noise beside a centre's 1: two vectors of one cluster have a cosine of about 1 / (1 + SPREAD ** 2)."""
DESCRIPTION = f"made up: a mixture of {CLUSTERS} clusters of unequal size, cosine inside one about 0.5; no embeddings"


class Mixture:
    """Unit vectors of `dimension` around random centres; the same arguments give the same vectors."""

    def __init__(self, dimension: int, seed: int = 1) -> None:
        self._seed = seed
        source = np.random.default_rng(seed)
        self._centres = _unit(source.normal(size=(CLUSTERS, dimension)).astype(np.float32))

    def draw(self, count: int, stream: int) -> Vectors:
        """(count, dimension) float32, rows of length 1; each `stream` number gives others."""
        source = np.random.default_rng((self._seed, stream))
        chosen = np.minimum(CLUSTERS ** source.random(count), CLUSTERS - 1).astype(np.int64)  # few clusters have most
        dimension = self._centres.shape[1]
        noise = source.standard_normal((count, dimension), np.float32) * np.float32(SPREAD / np.sqrt(dimension))
        return _unit(self._centres[chosen] + noise)


def recall(found: list[set[int]], truth: list[set[int]]) -> float:
    """The mean share of the true neighbours that were found; 1.0 when there is nothing to find."""
    shares = [len(some & wanted) / len(wanted) for some, wanted in zip(found, truth, strict=True) if wanted]
    return sum(shares) / len(shares) if shares else 1.0


def _unit(rows: Vectors) -> Vectors:
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows
