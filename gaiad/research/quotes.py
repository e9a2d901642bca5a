"""Picks what to quote: the sentences of the chosen pages that cover most of the question, by the rarity of its words.

Pure. A quote is one sentence, or a run of them that stay together; a short turn of a transcript is quoted whole.
"""

import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from gaiad.research.evidence import Evidence, Term, sentence_credit
from gaiad.research.sentences import Sentence, cut_at_word, split
from gaiad.research.words import stems
from gaiad.schemas import Page

TURN_MAX, QUOTE_MAX, SHORT = 400, 320, 90
DEFINES, OPENS_PAGE, IS_FRAGMENT, TELLS_WHEN = 0.15, 0.05, 0.25, 0.1
# Two quotes that share this much of the shorter one's words say the same (pages overlap).
SAME_WORDS = 0.8

Wanted = Literal["fact", "definition", "time"]

_TIME = re.compile(
    r"\b(?:\d{4}|yesterday|today|tomorrow|tonight|(?:last|next|this|past) \w+|ago|since|monday|tuesday|wednesday|"
    r"thursday|friday|saturday|sunday|january|february|march|april|may|june|july|august|september|october|november|december)\b",
    re.IGNORECASE,
)


class Quote(msgspec.Struct, frozen=True):
    """page.text[start:end], and how much of the question it covers (0 to about 1.3)."""

    page: Page
    start: int
    end: int
    score: float

    @property
    def text(self) -> str:
        return self.page.text[self.start : self.end]


def wanted(question: str) -> Wanted:
    """What a question asks of a sentence: when, what it is, or anything else."""
    lower = question.lower()
    if re.match(r"(?:when|what (?:date|day|year|month|time)|how long|since when)\b", lower):
        return "time"
    return "definition" if re.match(r"(?:what|who) (?:is|are|was|were|does \w+ mean)\b", lower) else "fact"


def pick(
    selected: Sequence[Evidence], terms: Sequence[Term], question: str, per_packet: int, total: int
) -> list[Quote]:
    """The best quotes of the selected pages, best first: at most `per_packet` of one packet and `total` in all."""
    want = wanted(question)
    candidates = []
    for item in selected:
        for quote in _candidates(item, terms, want):
            candidates.append((quote.score + 0.5 * item.relevance, quote))
    candidates.sort(key=lambda pair: -pair[0])
    chosen: list[Quote] = []
    for _, quote in candidates:
        same_packet = [other for other in chosen if other.page.packet_id == quote.page.packet_id]
        if len(chosen) < total and len(same_packet) < per_packet and not any(_repeats(quote, o) for o in chosen):
            chosen.append(quote)
    return chosen


def _candidates(item: Evidence, terms: Sequence[Term], want: Wanted) -> list[Quote]:
    page = item.page
    if page.section == "transcript" and page.speaker and len(page.text) <= TURN_MAX:
        start = len(page.text) - len(page.text.lstrip())
        end = len(page.text.rstrip())
        return [Quote(page, start, end, _score(page.text, page, terms, want))] if end > start else []
    sentences = split(page.text)
    scores = [_score(sentence.text, page, terms, want) for sentence in sentences]
    if sentences:
        scores[0] += OPENS_PAGE
    ranked = sorted(range(len(sentences)), key=lambda index: (-scores[index], index))
    return [_extend(page, sentences, scores, index) for index in ranked[:3]]


def _score(text: str, page: Page, terms: Sequence[Term], want: Wanted) -> float:
    score = sentence_credit(text, page.speaker, terms)
    if want == "definition" and re.search(r"\b(?:is|are|means|was|states|says|reads)\b|:\s", text):
        score += DEFINES
    if want == "time" and _TIME.search(text):
        score += TELLS_WHEN
    if len(text.split()) < 4 or text.endswith(":"):
        score -= IS_FRAGMENT
    return score


def _extend(page: Page, sentences: Sequence[Sentence], scores: Sequence[float], index: int) -> Quote:
    """The sentence and those after it that belong to it: while short, or while they too speak of the question."""
    first, last = index, index
    while last + 1 < len(sentences):
        following = sentences[last + 1]
        length = following.end - sentences[first].start
        short = sentences[last].end - sentences[first].start < SHORT or sentences[last].text.endswith(":")
        if length > QUOTE_MAX or not (short or scores[last + 1] >= 0.5 * scores[index] > 0):
            break
        last += 1
    start, end = sentences[first].start, sentences[last].end
    if end - start > TURN_MAX:
        end = cut_at_word(page.text, start, start + TURN_MAX)
    return Quote(page, start, end, scores[index])


def _repeats(quote: Quote, other: Quote) -> bool:
    if quote.page.page_id == other.page.page_id:
        return quote.start < other.end and other.start < quote.end
    mine, its = stems(quote.text), stems(other.text)
    smaller = min(len(mine), len(its))
    return smaller == 0 or len(mine & its) / smaller >= SAME_WORDS
