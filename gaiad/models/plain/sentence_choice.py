"""Which sentences of the given texts answer a question, by the words they share with it. Pure and deterministic.

A shared word counts for more the fewer of the sentences have it; words without a topic do not count at all.
"""

import functools
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

import msgspec
import Stemmer

from constants.load import load

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_END = re.compile(
    r"(?<=[.!?…])[\"'”’)\]]*\s+(?=[\"'“‘(\[]?[A-Z0-9À-Þ¿¡])"  # a full stop, and a capital after it
    r"|(?<=[。！？])"
    r"|\n\s*\n|\n\s*(?=[-*•#>]\s|\d{1,3}[.)]\s)"  # an empty line, a list mark, a heading
)
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|cf|vs|etc|approx|Mr|Mrs|Ms|Dr|Prof|St|No|Fig|Sec|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)"
    r"|(?:^|[\s(])[A-Z])\.$"
)
_ABBREVIATION_LENGTH = 9
_WORTH_OF_BEST = 0.5


class Quote(msgspec.Struct, frozen=True):
    """A sentence as it stands, and the packet it is from."""

    text: str
    source: str


class _WordList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    words: tuple[str, ...]


def sentences(text: str) -> list[str]:
    """The sentences of `text` in order, without the white space between them."""
    found: list[str] = []
    start = 0
    for match in _END.finditer(text):
        if _ABBREVIATION.search(text[max(start, match.start() - _ABBREVIATION_LENGTH) : match.start()]):
            continue
        found.append(text[start : match.end()].strip())
        start = match.end()
    found.append(text[start:].strip())
    return [sentence for sentence in found if sentence]


def choose(question: str, texts: Sequence[Quote]) -> list[Quote]:
    """Sentences that answer `question`, the best first and equals in order; the same words once.

    Only those worth half as much as the best: the rest shares a word by chance.
    """
    pool = [Quote(sentence, text.source) for text in texts for sentence in sentences(text.text)]
    wanted = topic_words(question)
    shared = [wanted & topic_words(quote.text) for quote in pool]
    spread = Counter(word for words in shared for word in words)
    worth = [sum(math.log1p(len(pool) / spread[word]) for word in sorted(words)) for words in shared]
    enough = _WORTH_OF_BEST * max(worth, default=0.0)
    fitting = [place for place, value in enumerate(worth) if value > 0.0 and value >= enough]
    once: dict[str, Quote] = {}
    for place in sorted(fitting, key=lambda place: -worth[place]):  # a stable sort: equals stay in order
        once.setdefault(" ".join(pool[place].text.lower().split()), pool[place])
    return list(once.values())


def topic_words(text: str) -> set[str]:
    """The stems of the words that carry a topic; accents count alike, composed with their letters or not."""
    written = unicodedata.normalize("NFC", text)
    words = {re.sub(r"['’]", "", word.lower().removesuffix("'s").removesuffix("’s")) for word in _WORD.findall(written)}
    return {_stem(word) for word in words if word and word not in _stop_words()}


@functools.lru_cache(maxsize=16_384)
def _stem(word: str) -> str:
    return str(_stemmer().stemWord(word))


@functools.cache
def _stemmer() -> Stemmer.Stemmer:
    return Stemmer.Stemmer("porter")


@functools.cache
def _stop_words() -> frozenset[str]:
    return frozenset(load("stop_words.toml", _WordList).words)
