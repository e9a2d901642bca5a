"""Picks what to quote: the sentences of the chosen pages that cover most of the question, by the rarity of its words.

Pure. A quote is one sentence, or a run of them that stay together; a short turn of a transcript is quoted whole.
"""

import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from gaiad.research.assertions import read_assertion
from gaiad.research.contradictions import compare
from gaiad.research.evidence import Evidence, Term, sentence_credit
from gaiad.research.field_labels import labelled, only_field, value_of
from gaiad.research.sentences import Sentence, cut_at_word, lead_end, split
from gaiad.research.words import rarity, stems
from gaiad.schemas import Page

TURN_MAX, QUOTE_MAX, LIST_MAX, SHORT = 400, 320, 700, 90
DEFINES, NAMES_IT, OPENS_PAGE, IS_FRAGMENT, IS_LABELLED, TELLS_WHEN, IS_PROSE = 0.35, 0.1, 0.05, 0.25, 0.15, 0.1, 0.05
# What the turn after a question inherits of the question's score: it is likely the answer.
ANSWERS = 0.95
# Two quotes that share this much of the shorter one's words say the same (pages overlap).
SAME_WORDS = 0.8
# Two quotes of one paragraph with no more characters than this between them are quoted as one, with what lies between.
JOINED = 200
_FIELDS = ("header", "behavior", "integrity")  # pages of fields that are about the packet, not of what it says

Want = Literal["fact", "definition", "time"]

_TIME = re.compile(
    r"\b(?:\d{4}|yesterday|today|tomorrow|tonight|(?:last|next|this|past) \w+|ago|since|monday|tuesday|wednesday|"
    r"thursday|friday|saturday|sunday|january|february|march|april|may|june|july|august|september|october|november|december)\b",
    re.IGNORECASE,
)


_COUNTS = {"two": 2, "three": 3, "four": 4, "five": 5, "2": 2, "3": 3, "4": 4, "5": 5}
_ANNOUNCES = re.compile(r"\b(two|three|four|five|[2-5])(?: \w+){0,2}[.:]?$", re.IGNORECASE)
_PREFIX = (
    r"\s*(?:[-*>#]+[ \t]+)?(?:\[[^\]\n]{{1,30}}\][ \t]*)?(?:\*\*|__)?{name}"
    r"(?: \([^)\n]{{1,40}}\))?(?:\*\*|__)?:(?:\*\*|__)?\s*"
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


class Wanted(msgspec.Struct, frozen=True):
    """What a question asks of a sentence; `name` is the thing to be defined, or the question's own phrase."""

    want: Want
    name: str


def wanted(question: str) -> Wanted:
    """When, what it is, or anything else."""
    lower = question.lower().strip(" ?.!")
    if re.match(r"(?:when|what (?:date|day|year|month|time)|how long|since when)\b", lower):
        return Wanted("time", "")
    match = re.match(r"(?:what|who) (?:is|are|was|were|does|do) (?:the |a |an )?(.+?)(?: mean)?$", lower)
    return Wanted("definition", match[1]) if match else Wanted("fact", "")


def pick(
    selected: Sequence[Evidence],
    terms: Sequence[Term],
    question: str,
    per_packet: int,
    total: int,
    *,
    fields: bool = False,
) -> list[Quote]:
    """The best quotes of the selected pages, best first: at most `per_packet` of one packet and `total` in all.

    `fields` says that the question asks for what stands in the fields of packets, as their metrics do.
    """
    want = wanted(question)
    terms = _telling(terms, selected)
    candidates: list[tuple[float, Quote]] = []
    for item in selected if fields else _telling_pages(selected):
        found = _candidates(item.page, terms, want)
        answers = [_answer_to(quote, item.neighbours) for quote in found if quote.text.endswith("?")]
        found += [answer for answer in answers if answer]
        candidates += [(quote.score + 0.5 * item.relevance, quote) for quote in found]
    candidates.sort(key=lambda pair: (_tells_little(pair[1].text, fields=fields), -pair[0]))
    chosen: list[Quote] = []
    for _, quote in candidates:
        same_packet = [other for other in chosen if other.page.packet_id == quote.page.packet_id]
        if chosen and _tells_little(quote.text, fields=fields):
            break
        if len(chosen) < total and len(same_packet) < per_packet and not any(_repeats(quote, o) for o in chosen):
            chosen.append(quote)
    return chosen


def _tells_little(text: str, *, fields: bool) -> int:
    """1 for a field by itself, 2 for a question: quoted when there is nothing else."""
    return 2 if text.endswith("?") else int(only_field(text) and not fields)


def _telling_pages(selected: Sequence[Evidence]) -> list[Evidence]:
    """Without the fields of packets that have something else to quote: a page chosen too, or one beside them."""
    spoken = {item.page.packet_id for item in selected if item.page.section not in _FIELDS}
    kept = []
    for item in selected:
        if item.page.section not in _FIELDS:
            kept.append(item)
        elif item.page.packet_id not in spoken:
            beside = (near for near in item.neighbours if _content_of(near, item.page))
            kept.append(msgspec.structs.replace(item, page=next(beside, item.page), neighbours=()))
    return kept


def _content_of(page: Page, fields: Page) -> bool:
    return page.packet_id == fields.packet_id and page.section in ("summary", "content", "transcript")


def joined(quotes: Sequence[Quote], between: int = JOINED) -> list[Quote]:
    """Quotes of one paragraph with at most so many characters `between` them as one, in the place of the first of them:
    what lies between a comparison and a decision is the reason."""
    kept: list[Quote] = []
    for quote in quotes:
        near = next((other for other in kept if _nearly_touch(quote, other, between)), None)
        if near is None:
            kept.append(quote)
            continue
        both = Quote(near.page, min(near.start, quote.start), max(near.end, quote.end), near.score)
        kept[kept.index(near)] = both
    return kept


def _nearly_touch(quote: Quote, other: Quote, most: int) -> bool:
    if quote.page.page_id != other.page.page_id or quote.text.endswith("?") or other.text.endswith("?"):
        return False
    first, second = sorted((quote, other), key=lambda one: one.start)
    between = quote.page.text[first.end : second.start]
    fields = any(labelled(line.lstrip()) for line in f"{between}{second.text}".split("\n")[1:])
    near = len(between.strip()) <= most and "\n\n" not in between and not fields
    return near and second.end - first.start <= LIST_MAX


def _telling(terms: Sequence[Term], selected: Sequence[Evidence]) -> list[Term]:
    """The terms weighed anew for these pages: what stands in every sentence here, or in their topic, tells little."""
    sentences = [stems(sentence.text) for item in selected for sentence in split(item.page.text)]
    counts = {term.word: sum(term.said_in(sentence) for sentence in sentences) for term in terms}
    here = rarity(counts, len(sentences))
    topics = [stems(item.page.topic) for item in selected]
    anew = []
    for term in terms:
        given = sum(term.said_in(topic) for topic in topics) / len(topics) if topics else 0.0
        anew.append(
            msgspec.structs.replace(term, weight=term.weight * (0.5 + 0.5 * here[term.word]) * (1 - 0.5 * given))
        )
    return anew


def _candidates(page: Page, terms: Sequence[Term], want: Wanted) -> list[Quote]:
    begin = spoken_from(page)
    end = len(page.text.rstrip())
    if page.speaker and end - begin <= TURN_MAX:
        return [Quote(page, begin, end, _score(page.text[begin:end], page, terms, want))] if end > begin else []
    sentences = [sentence for sentence in split(page.text) if sentence.end > begin]
    if sentences and sentences[0].start < begin:
        sentences[0] = Sentence(page.text[begin : sentences[0].end], begin, sentences[0].end)
    scores = [_score(sentence.text, page, terms, want) for sentence in sentences]
    if sentences:
        scores[0] += OPENS_PAGE
    ranked = sorted(range(len(sentences)), key=lambda index: (-scores[index], index))
    return [_of_value(_extend(page, sentences, scores, index)) for index in ranked[:3]]


def _of_value(quote: Quote) -> Quote:
    """Without the name of the field that it is the value of."""
    if quote.page.section in _FIELDS:
        return quote
    start, end = value_of(quote.text)
    return msgspec.structs.replace(quote, start=quote.start + start, end=quote.start + end)


def spoken_from(page: Page) -> int:
    """Where what is said begins: after white space and, on a turn's first page, after the speaker's name."""
    if page.speaker:
        match = re.match(_PREFIX.format(name=re.escape(page.speaker)), page.text)
        if match:
            return match.end()
    return len(page.text) - len(page.text.lstrip())


def _answer_to(quote: Quote, neighbours: Sequence[Page]) -> Quote | None:
    """The turn after a turn that asks, quoted from its start."""
    if not quote.page.speaker:
        return None
    wanted_place = (quote.page.packet_id, quote.page.section, quote.page.sequence + 1)
    for page in neighbours:
        if (page.packet_id, page.section, page.sequence) == wanted_place and page.speaker:
            start = spoken_from(page)
            end = lead_end(page.text, start, QUOTE_MAX)
            return Quote(page, start, end, ANSWERS * quote.score) if end > start else None
    return None


def _score(text: str, page: Page, terms: Sequence[Term], want: Wanted) -> float:
    score = sentence_credit(text, page.speaker, terms)
    if page.section in ("content", "summary"):
        score += IS_PROSE
    if want.want == "definition":
        score += _defines(text, want.name)
    if want.want == "time" and _TIME.search(text):
        score += TELLS_WHEN
    if len(text.split()) < 4 or text.endswith(":") or (text[0].islower() and page.text.lstrip().startswith(text)):
        score -= IS_FRAGMENT
    if not page.speaker and not re.search(r"[.!?…:\"”’)]$", text):
        score -= IS_LABELLED
    return score


def _defines(text: str, name: str) -> float:
    """More when the sentence says what `name` is than when it only names it."""
    lower = " ".join(text.lower().split())
    if re.search(
        rf"\b{re.escape(name)}[\"'”’)]*\s*(?::|,? (?:is|are|means|was|were|states|says|reads|stands for)\b(?! for\b))",
        lower,
    ):
        return DEFINES
    return NAMES_IT if name in lower else 0.0


def _extend(page: Page, sentences: Sequence[Sentence], scores: Sequence[float], index: int) -> Quote:
    """The sentence and those after it in its paragraph that belong to it: while short, while they too speak of the
    question, or as many as it announces ("The criticisms were three.")."""
    last = index
    announced = _announced(sentences[index].text)
    limit = LIST_MAX if announced else QUOTE_MAX
    while last + 1 < len(sentences):
        following = sentences[last + 1]
        if labelled(following.text):
            break
        length = following.end - sentences[index].start
        colon = sentences[last].text.endswith(":")
        if length > limit or (not colon and "\n\n" in page.text[sentences[last].end : following.start]):
            break
        short = sentences[last].end - sentences[index].start < SHORT
        on_topic = scores[last + 1] >= 0.5 * scores[index] > 0
        if not (colon or short or on_topic or last - index < announced):
            break
        last += 1
    start, end = sentences[index].start, sentences[last].end
    if end - start > LIST_MAX:
        end = cut_at_word(page.text, start, start + LIST_MAX)
    return Quote(page, start, end, scores[index])


def _announced(sentence: str) -> int:
    """How many things a short sentence says will follow; 0 for none."""
    match = _ANNOUNCES.search(sentence) if len(sentence) <= 160 else None
    return _COUNTS.get(match[1].lower(), 0) if match else 0


def _repeats(quote: Quote, other: Quote) -> bool:
    if quote.page.page_id == other.page.page_id:
        return quote.start < other.end and other.start < quote.end
    mine, its = stems(quote.text), stems(other.text)
    smaller = min(len(mine), len(its))
    return smaller == 0 or (len(mine & its) / smaller >= SAME_WORDS and not _disagrees(quote, other))


def _disagrees(quote: Quote, other: Quote) -> bool:
    """Whether two packets say in nearly the same words what cannot both be, or not quite the same."""
    if quote.page.packet_id == other.page.packet_id:
        return False
    read = [[read_assertion(s.text, q.page.timestamp, q.page.speaker) for s in split(q.text)] for q in (quote, other)]
    relations = (compare(one, another) for one in read[0] for another in read[1])
    return any(relation is not None and relation.kind != "agreement" for relation in relations)
