"""The facts a source gives: its own sentences that speak to the question, as they stand, with their place.

Pure. Confidence in a fact's extraction (0 to 1): 0.95 when the answer quotes it, for then it was held against the
stored page; else 0.5 + 0.4 of the share of the question's words that it covers.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import tzinfo

import msgspec

from gaiad.payload_schemas import FactType
from gaiad.research.assertions import Assertion, read_assertion
from gaiad.research.evidence import Term, sentence_credit
from gaiad.research.payload.material import Material
from gaiad.research.quotes import spoken_from
from gaiad.research.sentences import split
from gaiad.research.words import content_words
from gaiad.schemas import Page

FACTS_MAX = 5
QUOTED, COVERED_FROM, COVERED_SHARE = 0.95, 0.5, 0.4
FACT_WORDS = 2  # that carry a topic; "Thanks!" is no fact
ENOUGH = 0.3  # of the question's words a sentence must cover to be a fact of the run
PAGES_MAX = 4
_LONGEST = 600
_SNIPPET = 120  # characters on either side
_DEFINES = re.compile(
    r"\b(?:is|are|was) (?:an?|the)\b|\b(?:means|stands for|refers to|is called|is defined as)\b", re.I
)
_RELATES = re.compile(
    r"\b(?:because|causes?|leads? to|depends? on|part of|related to|results? in|due to|based on)\b", re.I
)


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """page.text[start:end], one sentence of a source, and what the rules of disagreement read in it."""

    fact_id: str
    source_id: str
    text: str
    kind: FactType
    confidence: float
    page: Page
    start: int
    end: int
    assertion: Assertion
    quoted: bool

    @property
    def snippet(self) -> str:
        """The sentence among those around it."""
        return " ".join(self.page.text[max(0, self.start - _SNIPPET) : self.end + _SNIPPET].split())


def find_facts(material: Material, terms: Sequence[Term], zone: tzinfo) -> list[Fact]:
    """At most `FACTS_MAX` of one source, those that the answer quotes first, then the best covered."""
    chosen: dict[str, tuple[float, Page, int, int, bool]] = {}
    for candidate in (*_quoted(material), *_covering(material, terms)):
        _, page, start, end, _ = candidate
        chosen.setdefault(" ".join(page.text[start:end].split()), candidate)
    facts = []
    for number, (text, (confidence, page, start, end, quoted)) in enumerate(list(chosen.items())[:FACTS_MAX], start=1):
        assertion = read_assertion(text, page.timestamp, page.speaker, zone)
        facts.append(
            Fact(
                fact_id=f"fact_{material.number:03}_{number}",
                source_id=material.source_id,
                text=text,
                kind=fact_type(assertion, page),
                confidence=round(confidence, 3),
                page=page,
                start=start,
                end=end,
                assertion=assertion,
                quoted=quoted,
            )
        )
    return facts


def _quoted(material: Material) -> Iterator[tuple[float, Page, int, int, bool]]:
    """The sentences of the answer's quotes."""
    pages = {page.page_id: page for page in material.packet.pages}
    for citation in material.cited:
        if page := pages.get(citation.page_id):
            for sentence in split(page.text[citation.start : citation.end]):
                if _tells(sentence.text):
                    start = citation.start + sentence.start
                    yield QUOTED, page, start, start + len(sentence.text), True


def _covering(material: Material, terms: Sequence[Term]) -> list[tuple[float, Page, int, int, bool]]:
    """Sentences of the found pages that cover enough of the question, best first."""
    found = []
    for item in material.found[:PAGES_MAX]:
        begin = spoken_from(item.page)
        for sentence in split(item.page.text[begin:]):
            credit = sentence_credit(sentence.text, item.page.speaker, terms)
            if credit >= ENOUGH and _tells(sentence.text) and not sentence.text.endswith("?"):
                start = begin + sentence.start
                found.append(
                    (COVERED_FROM + COVERED_SHARE * credit, item.page, start, start + len(sentence.text), False)
                )
    return sorted(found, key=lambda one: -one[0])


def _tells(sentence: str) -> bool:
    return len(sentence) <= _LONGEST and len(content_words(sentence)) >= FACT_WORDS


def fact_type(assertion: Assertion, page: Page) -> FactType:
    """A number makes it a statistic, a day a date, else what its words do; what somebody says is a quote."""
    if assertion.quantities:
        return "statistic"
    if assertion.dates:
        return "date"
    if _DEFINES.search(assertion.text):
        return "definition"
    if _RELATES.search(assertion.text):
        return "relationship"
    return "quote" if page.speaker else "claim"
