"""Numbers in a sentence with what they count: "about 40 people", "3-5 years", "90 minutes" (which is 1.5 hours).

Pure. A number is an interval: "more than 200" has no upper end. Numbers that name a thing ("chapter 3") are labels and
count nothing; years and the numbers of dates are taken out before.
"""

import functools
import math
import re

import msgspec

from gaiad.research.disagreement_words import disagreement_words
from gaiad.research.words import normalise, stem, stop_words

ROUGHLY = 0.15  # "about 40" is 34 to 46
_MULTIPLES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
_MOST_DECIMALS = 300  # a float has hardly a smaller last digit
_LOOKED_BACK = 60
"""Characters before a number, among which "no fewer than" and its like stand."""
_TIGHT_UNIT = re.compile(r"(?<=\d)(?=(?:ms|km|kg|mm|cm|mb|gb|kb|mib|gib|ml|min|h|s|m|g|l)\b)")


class Quantity(msgspec.Struct, frozen=True):
    """`low` to `high` of `unit` ("" when it counts nothing that is named); `text` is how it stands in the sentence.

    `step` is what its last digit counts, 0.0 for an interval or a rough number: "12.4 ms" has 0.0001 seconds.
    """

    low: float
    high: float
    unit: str
    text: str
    step: float = 0.0


class Numbers(msgspec.Struct, frozen=True):
    """What stands in a sentence; `rest` is the sentence, in lower case, without them and their units."""

    quantities: tuple[Quantity, ...]
    labels: tuple[str, ...]
    rest: str


@functools.cache
def _small() -> dict[str, int]:
    return {word: number for number, word in enumerate(disagreement_words().numbers)} | {"dozen": 12, "a dozen": 12}


@functools.cache
def _tens() -> dict[str, int]:
    return {word: 10 * number for number, word in enumerate(disagreement_words().tens, start=2)}


@functools.cache
def number_words() -> frozenset[str]:
    """The words without which, or a digit, no number is written."""
    return frozenset(part for word in (*_small(), *_tens()) for part in word.split())


@functools.cache
def _pattern() -> re.Pattern[str]:
    ones = "|".join(sorted(_small(), key=len, reverse=True))
    written = rf"(?:(?:{'|'.join(_tens())})(?:-(?:{ones}))?|{ones})\b"
    number = rf"(?:\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|\d+(?:\.\d+)?|{written})"
    low = rf"(?P<low>{number})(?: ?(?P<low_times>{'|'.join(_MULTIPLES)})\b)?"
    high = low.replace("<low", "<high")
    after = r"(?![\w:/]|-\d|[.,]\d)(?:(?P<percent> ?%)|[ -](?P<unit>[a-z]+)\b)?"
    return re.compile(rf"(?<![\w.,:/-])(?P<symbol>[$€£])?{low}(?: ?(?:-|–|to|and) ?{high})?{after}")


@functools.cache
def _label_pattern() -> re.Pattern[str]:
    names = "|".join(disagreement_words().labels)
    return re.compile(
        rf"\b(?P<name>{names})\.? #?(?P<number>\d+(?:\.\d+)*)(?!\w|[.,]\d| ?%)"
        r"|#(?P<bare>\d+)\b|@ ?(?P<cut>\d+)\b|\bat (?P<at>\d+)(?= (?:is|was|of|reached|rose|fell)\b)"
    )


def read_numbers(text: str) -> Numbers:
    """The quantities and labels of `text`; dates should be gone from it."""
    rest = _TIGHT_UNIT.sub(" ", text.lower())
    labels = [
        f"{match['name'] or 'number'} {match['number'] or match['bare'] or match['cut'] or match['at']}"
        for match in _label_pattern().finditer(rest)
    ]
    rest = _label_pattern().sub(" ", rest)
    quantities, pieces, last = [], [], 0
    for match in _pattern().finditer(rest):
        quantity = _quantity(match, rest[max(0, match.start() - _LOOKED_BACK) : match.start()])
        if quantity is None:
            continue
        quantities.append(quantity)
        pieces.append(rest[last : match.start()])
        last = match.end() if _is_measure(match) else match.end("high") if match["high"] else match.end("low")
        last = max(last, match.end("high_times"), match.end("low_times"))
    return Numbers(tuple(quantities), tuple(labels), " ".join([*pieces, rest[last:]]))


def written_numbers(text: str) -> dict[float, str]:
    """The numbers of `text` without their units, and how each is written; `one` is a pronoun more often than not."""
    found: dict[float, str] = {}
    for match in _pattern().finditer(text.lower()):
        for end in ("low", "high"):
            if match[end] and match[end] != "one":
                found.setdefault(_value(match[end], match[f"{end}_times"]), match[end])
    return found


def _is_measure(match: re.Match[str]) -> bool:
    return bool(match["percent"]) or (match["unit"] or "") in disagreement_words().units


def _quantity(match: re.Match[str], before: str) -> Quantity | None:
    unit, factor = _unit(match)
    if match["low"] == "one" and not factor:
        return None  # "the one that"
    factor = factor or 1.0
    words = re.split(r"[^a-z ]", before)[-1].rstrip()
    text = match.group().strip()
    ends = _ends(match, words)
    if ends is not None:
        return Quantity(ends[0] * factor, ends[1] * factor, unit, text)
    value = _value(match["low"], match["low_times"]) * factor
    table = disagreement_words()
    if _ends_with(words, table.about):
        return Quantity(value * (1 - ROUGHLY), value * (1 + ROUGHLY), unit, f"about {text}")
    if phrase := _ends_with(words, (*table.at_most, *table.at_least)):  # "no fewer than" before "fewer than"
        low, high = (-math.inf, value) if phrase in table.at_most else (value, math.inf)
        return Quantity(low, high, unit, f"{phrase} {text}")
    decimals = len(match["low"].partition(".")[2]) if match["low"][0].isdigit() else 0
    return Quantity(
        value, value, unit, text, factor * _MULTIPLES.get(match["low_times"], 1) / 10.0 ** min(decimals, _MOST_DECIMALS)
    )


def _ends(match: re.Match[str], words: str) -> tuple[float, float] | None:
    """The two ends of "3-5" or "between 3 and 5", None for a number alone."""
    if not match["high"]:
        return None
    joined = match.string[match.end("low") : match.start("high")]
    if "and" in joined and not _ends_with(words, ("between",)):
        return None
    low, high = (
        _value(match["low"], match["low_times"] or match["high_times"]),
        _value(match["high"], match["high_times"]),
    )
    return (low, high) if low < high else None


def _ends_with(words: str, phrases: tuple[str, ...]) -> str:
    """The longest phrase that `words` end with, "" for none."""
    found = [phrase for phrase in phrases if words == phrase or words.endswith(f" {phrase}")]
    return max(found, key=len, default="")


def _unit(match: re.Match[str]) -> tuple[str, float]:
    """The unit, and how many of it one is; 0.0 when it is a noun that is counted."""
    units = disagreement_words().units
    symbol = match["symbol"] or ("%" if match["percent"] else match["unit"] or "")
    if symbol in units:
        return units[symbol]
    word = normalise(symbol)
    return (stem(word), 0.0) if word and word not in stop_words() else ("", 0.0)


def _value(written: str, times: str | None) -> float:
    multiple = _MULTIPLES[times] if times else 1
    if written[0].isdigit():
        return float(written.replace(",", "")) * multiple
    if written in _small():
        return float(_small()[written]) * multiple
    tens, _, ones = written.partition("-")
    return float(_tens()[tens] + (_small()[ones] if ones else 0)) * multiple
