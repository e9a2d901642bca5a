"""Which packets are a run's sources, and what the builder needs of each: its whole text, its found pages, when it came.

Pure. Every cited packet is a source; with them the most relevant of those that were found, `SOURCES_MAX` together.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, tzinfo

import msgspec

from gaiad.research.assertions import Assertion, read_assertion
from gaiad.research.evidence import Evidence, Term, sentence_credit
from gaiad.research.refine import FIRST_FLOOR
from gaiad.research.sentences import split, spoken_from
from gaiad.research.trail import Search, Trail
from gaiad.research.words import content_words
from gaiad.wire.research import FactType
from gaiad.wire.schemas import Citation, PacketSummary, Page, SearchRequest

SOURCES_MAX = 10


class Packet(msgspec.Struct, frozen=True):
    """A packet as the archive has it: its line, and all its pages in reading order."""

    summary: PacketSummary
    pages: tuple[Page, ...]


class Material(msgspec.Struct, frozen=True, kw_only=True):
    """One source of a run. `found` are its pages that were found, best first; `cited` what the answer quotes of it.

    `iteration` and `query` are of the search that found it first; `relevance` is that of its best page, 0 to 1.
    """

    number: int
    packet: Packet
    found: tuple[Evidence, ...]
    cited: tuple[Citation, ...]
    iteration: int
    query: str
    accessed_at: datetime
    relevance: float
    text: str

    @property
    def source_id(self) -> str:
        return f"src_{self.number:03}"

    @property
    def packet_id(self) -> str:
        return self.packet.summary.packet_id


def choose_packets(trail: Trail) -> list[str]:
    """The packet ids of a run's sources: those cited, in the order of the answer, then the most relevant others."""
    cited = trail.result.source_packets if trail.result else []
    others = [item.page.packet_id for item in trail.evidence if item.relevance >= FIRST_FLOOR]
    listed = [packet.packet_id for packet in trail.listed]
    chosen = list(dict.fromkeys(cited))
    more = [one for one in dict.fromkeys([*listed, *others]) if one not in chosen]
    return chosen + more[: max(0, SOURCES_MAX - len(chosen))]


def read_material(trail: Trail, packets: Mapping[str, Packet]) -> list[Material]:
    """One for each chosen packet that the archive still has, in the order of `choose_packets`."""
    found = [packet_id for packet_id in choose_packets(trail) if packet_id in packets]
    return [_material(trail, number, packets[packet_id]) for number, packet_id in enumerate(found, start=1)]


def _material(trail: Trail, number: int, packet: Packet) -> Material:
    packet_id = packet.summary.packet_id
    pages = tuple(item for item in trail.evidence if item.page.packet_id == packet_id)
    search = _first_search(trail.searches, packet_id)
    return Material(
        number=number,
        packet=packet,
        found=pages,
        cited=tuple(one for one in (trail.result.citations if trail.result else ()) if one.packet_id == packet_id),
        iteration=search.iteration if search else 1,
        query=_query(search),
        accessed_at=search.completed_at if search else trail.started_at,
        relevance=round(min(1.0, max(0.0, pages[0].relevance)), 3) if pages else 1.0,  # one that is listed fits exactly
        text=whole_text(packet.pages),
    )


def _first_search(searches: Sequence[Search], packet_id: str) -> Search | None:
    return next((search for search in searches if packet_id in search.packet_ids), None)


def _query(search: Search | None) -> str:
    return search.request.query if search and isinstance(search.request, SearchRequest) else ""


def whole_text(pages: Sequence[Page]) -> str:
    """The text of a packet from its pages: what two neighbouring pages share stands once, parts are set off."""
    text = ""
    for number, page in enumerate(pages):
        before = pages[number - 1] if number else None
        if before is None:
            text = page.text
        elif before.path == page.path and page.start < before.end:
            text += page.text[_shared(before.text, page.text, before.end - page.start) :]
        else:
            text = f"{text.rstrip()}\n\n{page.text}"
    return text


def _shared(before: str, after: str, shared_bytes: int) -> int:
    """How many characters `after` begins with that `before` ends with; in the original they share so many bytes."""
    longest = min(len(before), len(after), shared_bytes)
    return next((size for size in range(longest, 0, -1) if before.endswith(after[:size])), 0)


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
