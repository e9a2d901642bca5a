"""What a why-question is answered with: the sentence that gives the reason often follows the one that has the words.

Pure. "A fourth objection was raised and withdrawn. ... It does not, because the memo is only a signpost."
"""

import re
from collections.abc import Sequence

import msgspec

from gaiad.research.evidence import Evidence
from gaiad.research.quotes import LIST_MAX, Quote
from gaiad.research.sentences import split
from gaiad.schemas import Page

_WHY = re.compile(
    r"(?:and |but |so )?(?:why|how come|for what reason|what (?:is|was|were) the reasons?)\b", re.IGNORECASE
)
_REASON = re.compile(
    r"(?:(?<=\s)['’]cause|\bbecause|\b(?:since|so that|therefore|thus|hence|due to|owing to|thanks to|reasons?|"
    r"in order to|otherwise|"
    r"that is why|that['’]s why|which is why|as a result))\b",
    re.IGNORECASE,
)
SENTENCES_ON = 2
"""Sentences after a quote among which its reason is looked for."""


def asks_why(question: str) -> bool:
    return _WHY.match(question.strip()) is not None


def gives_reason(text: str) -> bool:
    """Whether a word says that it does."""
    return bool(_REASON.search(text))


def with_reasons(quotes: Sequence[Quote], selected: Sequence[Evidence]) -> list[Quote]:
    """The quotes, those without a reason continued up to the one that follows, on their page or on the next."""
    pages = {page.page_id: page for item in selected for page in (item.page, *item.neighbours)}
    found: list[Quote] = []
    for quote in quotes:
        longer, on_next = _continued(quote, list(pages.values()))
        found += [one for one in (longer, on_next) if one is not None and not _stands(one, found)]
    return found


def _stands(quote: Quote, others: Sequence[Quote]) -> bool:
    return any(
        quote.page.page_id == other.page.page_id and other.start <= quote.start and quote.end <= other.end
        for other in others
    )


def _continued(quote: Quote, pages: Sequence[Page]) -> tuple[Quote, Quote | None]:
    rest = quote.page.text[quote.end :]
    if gives_reason(quote.text) or quote.text.endswith("?"):
        return quote, None
    if rest.strip():
        end = quote.end + _reason_end(rest)
        near = end - quote.start <= LIST_MAX and "\n\n" not in rest[: end - quote.end]
        return (msgspec.structs.replace(quote, end=end) if near else quote), None
    following = next((page for page in pages if _follows(page, quote.page)), None)
    end = _reason_end(following.text) if following else 0
    if following is None or not end:
        return quote, None
    start = len(following.text) - len(following.text.lstrip())
    return quote, Quote(following, start, end, quote.score)


def _reason_end(text: str) -> int:
    """Where the first sentence ends that gives a reason, among the next few; 0 when none does."""
    return next((one.end for one in split(text)[:SENTENCES_ON] if gives_reason(one.text)), 0)


def _follows(page: Page, before: Page) -> bool:
    place = (before.packet_id, before.section, before.sequence + 1)
    return not before.speaker and (page.packet_id, page.section, page.sequence) == place
