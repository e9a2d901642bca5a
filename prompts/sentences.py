"""An extractive summary: the sentences that say most of a text, word for word and in their order (GCP 4.2, first pass).

Maximal marginal relevance over sentence embeddings: near the middle of the text, far from what is already chosen.
Similarities are rounded before they are compared and ties go to the earlier sentence, so that a different batch or
thread count gives the same summary. Pure but for numpy.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from textwrap import wrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

MOST_SENTENCES = 64
MOST_CHARACTERS = 6_000
LONGEST_SENTENCE = 400
_RELEVANCE = 0.5
_DECIMALS = 4
_END = re.compile(r"(?<=[.!?…。！？])[\"'”’)\]]*\s+|\s*[\r\n]+\s*")
_TELLING = re.compile(r"\d+|\b[^\W\d_a-z]\w*")


def split_sentences(text: str) -> list[str]:
    """Sentences and lines without surrounding white space, in order; nothing but white space is lost.

    One of more than LONGEST_SENTENCE characters is cut between words: a log or a table has no full stops.
    """
    cuts = [0, *(found.end() for found in _END.finditer(text)), len(text)]
    pieces = (text[start:stop].strip() for start, stop in pairwise(cuts))
    return [part for piece in pieces if piece for part in _short_enough(piece)]


def most_telling(sentences: Sequence[str], most: int = MOST_SENTENCES, characters: int = MOST_CHARACTERS) -> list[str]:
    """At most `most`: of each equal stretch of the text the sentence with most names and numbers for its length.

    Fewer when they are long, about `characters` in all: embedding costs time by the word, and every part of a long text
    should have its say.
    """
    unique = list(dict.fromkeys(sentences))
    size = sum(map(len, unique))
    limit = min(most, max(1, characters * len(unique) // max(1, size)))
    if len(unique) <= limit:
        return unique
    bounds = [index * len(unique) // limit for index in range(limit + 1)]
    return [max(unique[start:stop], key=_telling) for start, stop in pairwise(bounds)]


def choose_sentences(vectors: "Vectors", costs: Sequence[int], limit: int) -> list[int]:
    """Indexes of sentences in the order of their worth, together at most `limit` tokens; perhaps none.

    `vectors` has a unit row for each sentence, `costs` its tokens.
    """
    import numpy as np

    middle = vectors.mean(axis=0)
    length = float(np.linalg.norm(middle))
    relevance = np.round(vectors @ (middle / length if length else middle), _DECIMALS)
    likeness = np.round(vectors @ vectors.T, _DECIMALS)
    nearest = np.zeros(len(costs), dtype=np.float32)
    left, open_, chosen = limit, np.ones(len(costs), dtype=bool), list[int]()
    while True:
        open_ &= np.asarray(costs) <= left
        if not open_.any():
            return chosen
        worth = np.round(_RELEVANCE * relevance - (1 - _RELEVANCE) * nearest, _DECIMALS)
        best = int(np.argmax(np.where(open_, worth, -np.inf)))
        chosen.append(best)
        open_[best] = False
        left -= costs[best]
        nearest = np.maximum(nearest, likeness[best])


def _short_enough(sentence: str) -> list[str]:
    if len(sentence) <= LONGEST_SENTENCE:
        return [sentence]
    wrapped = wrap(sentence, LONGEST_SENTENCE, expand_tabs=False, replace_whitespace=False, break_on_hyphens=False)
    return [part for line in wrapped if (part := line.strip())]


def _telling(sentence: str) -> float:
    return len(_TELLING.findall(sentence)) / (len(sentence) + 20)
