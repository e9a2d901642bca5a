"""What router and redactor cost a stream: characters a second, and how much later the first words are seen.

A model without delay writes pieces of 20 characters; they go through the marker parser, as Act's text does, and through
the router for the page, where everything is scrubbed. With a model that has a pace, time passes by its clock between
pieces and by ours within them: a text that waits for its next piece waits that long.
"""

import random
import time
from collections.abc import Iterator, Sequence

from gaiad.base.markers import MarkerParser
from gaiad.bench.rows import Row, percentile
from router.redact import RedactionSettings
from router.routed import RoutedTurn
from router.routing import Routing, make_routing

PIECE = 20  # characters
_TOKEN = 4
_PACE_S = 1 / 30
_CHARACTERS = 50_000
_BEST_OF = 20  # the best is what it takes while the machine does nothing else
_ANSWERS = 500
_ANSWER_CHARACTERS = 600
_EVERY = 5  # sentences of a mixed text, one of which holds an item
_WORDS = [
    "the",
    "council",
    "met",
    "in",
    "garden",
    "and",
    "talked",
    "about",
    "sensors",
    "which",
    "were",
    "installed",
    "last",
    "week",
    "near",
    "river",
    "gate",
    "because",
    "nobody",
    "could",
    "read",
    "them",
    "any",
    "more",
    "while",
    "it",
    "rained",
    "a",
    "lot",
    "so",
    "keeper",
    "will",
    "write",
    "down",
    "what",
    "was",
    "decided",
]
_MARKED = "RESPONSE: "


class Way:
    """One answer on its way to the page."""

    def __init__(self, routing: Routing) -> None:
        self._parser = MarkerParser("tolerant", "RESPONSE")
        self._turn = RoutedTurn(routing, "web_chat")

    def feed(self, piece: str) -> str:
        """What the reader sees now."""
        return "".join([self._delta(one.text) for one in self._parser.feed(piece) if one.kind == "text"])

    def finish(self) -> str:
        """What the reader sees at the end."""
        rest = "".join([self._delta(one.text) for one in self._parser.finish() if one.kind == "text"])
        held = [told["text"] for name, told in self._turn.feed("stage_done", {}) if name == "delta"]  # type: ignore[index]
        return rest + "".join(held)

    def _delta(self, text: str) -> str:
        return "".join([told["text"] for _, told in self._turn.feed("delta", {"text": text})])  # type: ignore[index]


def measure_router() -> list[Row]:
    """Throughput on plain and on mixed text, then the delay of the first words."""
    routing = make_routing({}, {}, RedactionSettings(names=["Jane Doe", "Ada Moor"], phrases=["project nightjar"]))
    routing.rules.read_tables()
    rows = [
        Row(what=f"router and redactor on {what}, pieces of {PIECE}", value=rate, unit="MB/s a core", aim=">= 1")
        for what, rate in (
            ("plain prose", _best_rate(routing, prose(random.Random(1), _CHARACTERS))),
            (
                f"text with an item in each {_EVERY}th sentence",
                _best_rate(routing, mixed(random.Random(2), _CHARACTERS)),
            ),
        )
    ]
    for what, opening, piece, pace_s, aim in (
        ("no delay", _MARKED, PIECE, 0.0, "<= 30"),
        ("30 pieces a second", _MARKED, PIECE, _PACE_S, "<= 30"),
        (f"30 pieces of {_TOKEN} characters a second", _MARKED, _TOKEN, _PACE_S, ""),
        ("no delay, no marker", "", PIECE, 0.0, "<= 30"),
        ("30 pieces a second, no marker, which may be a preamble", "", PIECE, _PACE_S, ""),
    ):
        late = list(_delays_ms(routing, opening, piece, pace_s))
        rows.append(Row(what=f"first words later by, {what}", value=percentile(late), unit="ms p95", aim=aim))
    return rows


def rate(routing: Routing, text: str) -> float:
    """Million characters in a second of a core: what else the machine does at the time is left out."""
    pieces = _pieces(text, PIECE)
    way = Way(routing)
    started = time.thread_time()
    for piece in pieces:
        way.feed(piece)
    way.finish()
    return len(text) / (time.thread_time() - started) / 1e6


def delay_s(routing: Routing, opening: str, text: str, piece: int, pace_s: float) -> float:
    """Seconds from the piece that holds the text's first letter until the reader sees any of it."""
    way = Way(routing)
    began = len(opening) // piece
    for number, one in enumerate(_pieces(opening + text, piece)):
        started = time.perf_counter()
        seen = way.feed(one)
        took = time.perf_counter() - started
        if seen:
            return max(number - began, 0) * pace_s + took
    started = time.perf_counter()
    way.finish()
    return (number - began) * pace_s + time.perf_counter() - started


def prose(chance: random.Random, characters: int) -> str:
    """Sentences and paragraphs without anything to take out."""
    return "".join(_until(characters, _sentences(chance, 0)))


def mixed(chance: random.Random, characters: int) -> str:
    """The same with addresses, numbers, keys and names, and what only looks like them."""
    return "".join(_until(characters, _sentences(chance, _EVERY)))


def _best_rate(routing: Routing, text: str) -> float:
    return max(rate(routing, text) for _ in range(_BEST_OF))


def _delays_ms(routing: Routing, opening: str, piece: int, pace_s: float) -> Iterator[float]:
    chance = random.Random(3)
    for _ in range(_ANSWERS):
        yield 1000 * delay_s(routing, opening, mixed(chance, _ANSWER_CHARACTERS), piece, pace_s)


def _pieces(text: str, size: int) -> list[str]:
    return [text[place : place + size] for place in range(0, len(text), size)]


def _until(characters: int, sentences: Iterator[str]) -> Iterator[str]:
    while characters > 0:
        sentence = next(sentences)
        characters -= len(sentence)
        yield sentence


def _sentences(chance: random.Random, every: int) -> Iterator[str]:
    while True:
        words = [chance.choice(_WORDS) for _ in range(chance.randint(6, 18))]
        if every and chance.randrange(every) == 0:
            words.insert(chance.randrange(len(words)), _item(chance))
        end = chance.choice([". ", "? ", ".\n\n", ", and so on. "])
        yield f"{words[0][:1].upper()}{words[0][1:]} {' '.join(words[1:])}{end}"


def _item(chance: random.Random) -> str:
    def digits(count: int) -> str:
        return "".join(str(chance.randrange(10)) for _ in range(count))

    kinds: Sequence[str] = (
        f"{chance.choice(_WORDS)}.{chance.choice(_WORDS)}@acme.org",
        f"+49 30 {digits(6)}",
        f"(212) 555-{digits(4)}",
        f"4{digits(3)} {digits(4)} {digits(4)} {digits(4)}",
        f"DE{digits(2)} {digits(4)} {digits(4)} {digits(4)} {digits(4)} {digits(2)}",
        ".".join(str(chance.randrange(1, 255)) for _ in range(4)),
        f"/home/{chance.choice(_WORDS)}/notes.txt",
        chance.choice(["Jane Doe", "Ada Moor", "project nightjar"]),
        f"ghp_{''.join(chance.choice('abcdefXYZ0189') for _ in range(36))}",
        f"20{digits(2)}-11-05 at 10:{digits(2)}",
        f"version {digits(1)}.{digits(1)}.{digits(1)}.{digits(1)}",
        f"{digits(3)} pieces",
    )
    return chance.choice(kinds)
