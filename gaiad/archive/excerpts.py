"""The part of a page to show for a query: the window that holds most of what was asked for, cut between words."""

import re
from collections.abc import Sequence

from gaiad.archive.query_terms import QueryTerm

EXCERPT_CHARS = 240
_BREAK = re.compile(r"\s")
_SHORTEST_PREFIX = 3


def matcher(terms: Sequence[QueryTerm], phrases: Sequence[str] = ()) -> re.Pattern[str] | None:
    """A pattern for words that begin as a term and its stem do, and for phrases; None without any."""
    alternatives = [re.escape(phrase.strip()) for phrase in phrases if phrase.strip()]
    for term in terms:
        stem = term.stems[0]
        prefix = common_prefix(term.word, stem)
        if len(prefix) < _SHORTEST_PREFIX:
            alternatives.append(rf"\b{re.escape(term.word)}\b")
        else:
            alternatives.append(rf"\b{re.escape(prefix)}\w*")
    return re.compile("|".join(alternatives), re.IGNORECASE) if alternatives else None


def common_prefix(one: str, other: str) -> str:
    """What both begin with."""
    length = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:length]


def excerpt(text: str, pattern: re.Pattern[str] | None, width: int = EXCERPT_CHARS) -> str:
    """About `width` characters around the most distinct matches, on one line, "…" where something was cut off."""
    start, end = best_window(text, pattern, width)
    while start > 0 and not _BREAK.match(text[start - 1]) and start < end and not _BREAK.match(text[start]):
        start += 1
    cut = end
    while cut < len(text) and cut > start and not _BREAK.match(text[cut]) and not _BREAK.match(text[cut - 1]):
        cut -= 1
    end = cut if cut > start else end
    shown = " ".join(text[start:end].split())
    return f"{'…' if start > 0 else ''}{shown}{'…' if end < len(text.rstrip()) else ''}"


def best_window(text: str, pattern: re.Pattern[str] | None, width: int) -> tuple[int, int]:
    """Character span of at most `width` with the most distinct matched words, the earliest among equals."""
    if len(text) <= width:
        return 0, len(text)
    spans = (
        [(found.start(), found.end(), found.group().casefold()) for found in pattern.finditer(text)] if pattern else []
    )
    if not spans:
        return 0, width
    best, best_count = (spans[0][0], spans[0][1]), 0
    first = 0
    for last in range(len(spans)):
        while spans[last][1] - spans[first][0] > width and first < last:
            first += 1
        count = len({word for _, _, word in spans[first : last + 1]})
        if count > best_count:
            best, best_count = (spans[first][0], spans[last][1]), count
    slack = max(0, width - (best[1] - best[0]))
    start = max(0, min(best[0] - slack // 2, len(text) - width))
    return start, min(len(text), start + width)
