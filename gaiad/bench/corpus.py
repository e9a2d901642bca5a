"""A made-up archive for measurements: packets in the reference dialect whose words follow Zipf's law, from a seed.

Words are invented, so that nothing here looks like a real quality test; it serves speed and size only.
"""

import random
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path

from gaiad.clock import to_iso

_NAMESPACE = "http://ai-collaboration.org/transmission-packet"
_ONSETS = ("b", "c", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "br", "st", "tr")
_RHYMES = ("a", "e", "i", "o", "u", "ar", "en", "il")
_SYLLABLES = [onset + rhyme for onset in _ONSETS for rhyme in _RHYMES]
_SPEAKERS = ("Mara", "Prime", "Lite", "CodeMind")
_MODELS = ("Gemini 2.5 Pro", "Claude Sonnet 4.5", "GPT-5", "Hermes 4")
_START = datetime(2024, 1, 1, tzinfo=UTC)


class Vocabulary:
    """`size` invented words; word i is drawn with weight 1 / (i + 2)."""

    def __init__(self, seed: int, size: int = 8000) -> None:
        source = random.Random(seed)
        words: dict[str, None] = {}
        while len(words) < size:
            words["".join(source.choices(_SYLLABLES, k=source.choice((1, 2, 2, 3))))] = None
        self.words = list(words)
        self._cumulative = list(accumulate(1 / (rank + 2) for rank in range(size)))

    def draw(self, source: random.Random, count: int) -> list[str]:
        """`count` words, common ones often."""
        return source.choices(self.words, cum_weights=self._cumulative, k=count)


def make_packet(number: int, seed: int, vocabulary: Vocabulary, turns: int, words_per_turn: int) -> tuple[str, str]:
    """(packet id, XML) of packet `number`."""
    source = random.Random(f"{seed}/{number}")
    moment = _START + timedelta(minutes=37 * number)
    packet_id = moment.strftime("tp-%Y%m%d-%H%M%S")
    topic = " ".join(vocabulary.draw(source, 4)).capitalize()
    lines = [
        f"{source.choice(_SPEAKERS)}: {' '.join(vocabulary.draw(source, words_per_turn)).capitalize()}."
        for _ in range(turns)
    ]
    summary = " ".join(vocabulary.draw(source, 25)).capitalize() + "."
    transcript = "\n".join(lines)
    xml = f"""<?xml version="1.0" encoding="UTF-8"?>
<tp:transmissionPacket xmlns:tp="{_NAMESPACE}" version="2.0" id="{packet_id}">
  <tp:header>
    <tp:id>{packet_id}</tp:id>
    <tp:packet_created>{to_iso(moment)}</tp:packet_created>
    <tp:model>{source.choice(_MODELS)}</tp:model>
    <tp:researcher>Mara</tp:researcher>
    <tp:topic>{topic}</tp:topic>
    <tp:challenge_phrases><tp:item>Give me the hard truth</tp:item></tp:challenge_phrases>
  </tp:header>
  <tp:behaviorProfile>
    <tp:behavioralMetrics>
      <tp:metric><tp:name>critical_thinking</tp:name><tp:value>{source.random():.2f}</tp:value></tp:metric>
    </tp:behavioralMetrics>
    <tp:tags><tp:item>bench</tp:item></tp:tags>
  </tp:behaviorProfile>
  <tp:body>
    <tp:summary>{summary}</tp:summary>
    <tp:transcript>{transcript}</tp:transcript>
  </tp:body>
</tp:transmissionPacket>
"""
    return packet_id, xml


def write_packets(folder: Path, first: int, count: int, *, turns: int = 8, words_per_turn: int = 30) -> int:
    """Write packets `first` to `first + count - 1` as files; returns their bytes in all."""
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = Vocabulary(seed=7)
    size = 0
    for number in range(first, first + count):
        packet_id, xml = make_packet(number, 7, vocabulary, turns, words_per_turn)
        size += (folder / f"{packet_id}.xml").write_bytes(xml.encode())
    return size


BANDS = {"common": slice(0, 100), "middling": slice(100, 1000), "rare": slice(1000, None)}
"""Ranks of the vocabulary by how common its words are: a common word stands on 3 to 80 % of all pages, a middling one
on 0.3 to 3 %, a rare one on fewer."""


def make_queries(count: int, seed: int = 11) -> list[str]:
    """Questions of two to five words, from common to rare in equal parts."""
    source = random.Random(seed)
    words = Vocabulary(seed=7).words
    bands = [words[part] for part in BANDS.values()]
    return [" ".join(source.sample(bands[number % 3], source.randint(2, 5))) for number in range(count)]


def queries_by_band(count: int, seed: int) -> dict[str, list[str]]:
    """The same questions, `count` in all, under the name of how common their words are."""
    made = make_queries(count, seed)
    return {band: made[number :: len(BANDS)] for number, band in enumerate(BANDS)}
