"""Which pages a round would answer from, how the rules judge them and what they would quote; of a question that holds
several, for each by itself. Of one run, and of the same pages as in the last round it quotes the same.
"""

import functools
import re
from collections.abc import Callable, Mapping, Sequence

import msgspec

from gaiad.base.config import ResearchConfig
from gaiad.research.answering import Answerer, quotes_of
from gaiad.research.disagreement import opposed, replacing, taking_its_place
from gaiad.research.evidence import THIN_SECTIONS, Evidence, Term, credits_of, names_subject, weighted
from gaiad.research.gather import Pool
from gaiad.research.query import Kind, SearchParameters, about_then
from gaiad.research.refine import Attempt
from gaiad.research.reflect import ReflectionResult, evaluate_sufficiency, judge_units, near_miss
from gaiad.research.scoring import Question, read_question
from gaiad.research.sentences import Quote, Statement, cite
from gaiad.research.several import ParsedQuestion, each_once, in_one_place, together
from gaiad.research.synthesis import in_order, side_by_side
from gaiad.research.words import rarity
from gaiad.wire.schemas import Page

OF_A_PACKET = 3
"""Units of one packet that a history, or a side of a comparison, tells."""


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """`selected` pages, best first, the judgement of them, those that are `relevant`, and their quotes in order.

    `near` are quotes that come near the question without answering it, where nothing does.
    """

    selected: list[Evidence]
    by_rules: ReflectionResult
    relevant: list[Evidence]
    statements: list[Statement]
    near: tuple[Statement, ...] = ()


class Chooser:
    """`held` are the questions that the run's question holds, none when it is one."""

    def __init__(
        self,
        config: ResearchConfig,
        answerer: Answerer,
        frequencies: Mapping[str, int],
        pages: int,
        held: Sequence[ParsedQuestion] = (),
    ) -> None:
        self._config = config
        self._answerer = answerer
        self._frequencies = frequencies
        self._rarity = rarity(frequencies, pages)
        self._held = held
        self._quoted: dict[str, tuple[list[Evidence], list[Statement]]] = {}

    def searched(self, attempt: Attempt) -> Attempt:
        """The attempt with a search for each of several questions beside it."""
        if not self._held:
            return attempt
        return msgspec.structs.replace(attempt, beside=tuple(one.query for one in self._held))

    async def choose(self, parameters: SearchParameters, terms: Sequence[Term], pool: Pool, floor: float) -> Chosen:
        """From what was found so far, with no page below `floor`."""
        whole = await self._of_one(parameters, terms, pool.evidence, pool.by_question, floor, 1, pool)
        if not self._held or in_one_place(parameters, whole.selected):
            return whole
        several = []
        for one in self._held:
            found = pool.found_by(one.query, one.terms)
            several.append(await self._of_one(one.parameters, one.terms, found, found, floor, len(self._held), pool))
        relevant = _by_page([item for one in several for item in one.relevant])
        return Chosen(
            selected=relevant or _by_page([item for one in several for item in one.selected]),
            by_rules=together(self._held, [one.by_rules for one in several]),
            relevant=relevant,
            statements=each_once([statement for one in several for statement in one.statements]),
            near=whole.near,
        )

    async def _of_one(
        self,
        parameters: SearchParameters,
        terms: Sequence[Term],
        evidence: Sequence[Evidence],
        found: Sequence[Evidence],
        floor: float,
        share: int,
        pool: Pool,
    ) -> Chosen:
        """For one question its share, one of so many, of the pages and of the packets."""
        if by_units(parameters):
            return await self._units(parameters, terms, evidence, found, pool)
        pages, packets = (max(1, most // share) for most in (self._config.max_pages, self._config.max_sources))
        selected = select(parameters, evidence, floor, max_pages=pages, max_packets=packets)
        by_rules = evaluate_sufficiency(parameters, terms, selected, found)
        relevant = selected if by_rules.is_relevant else []
        known = self._quoted.get(parameters.text)
        if known is None or known[0] != relevant:
            known = relevant, self._stated(parameters, relevant, pool, pages)
            self._quoted[parameters.text] = known
        return Chosen(selected=selected, by_rules=by_rules, relevant=relevant, statements=known[1])

    def _stated(
        self, parameters: SearchParameters, relevant: Sequence[Evidence], pool: Pool, most: int
    ) -> list[Statement]:
        """The best units of each of the relevant pages' packets, in the order they will stand; fields about a packet
        only where the question asks for them or there is nothing else.
        """
        if not relevant:
            return []
        question, packets = self._question(parameters), pool.packets()
        of_fields = parameters.focus == "behavioral_state" or bool(parameters.metrics)

        def best(total: int, accepts: Callable[[Quote], bool]) -> list[Quote]:
            def tells(quote: Quote) -> bool:
                return (of_fields or quote.page.section not in THIN_SECTIONS) and accepts(quote)

            def of(fits: Callable[[Quote], bool]) -> list[Quote]:
                return self._answerer.best_of(question, relevant, packets, OF_A_PACKET, total, fits)

            return of(tells) or of(accepts)

        if len(parameters.subjects) == 2:
            return side_by_side(parameters, best, most)
        return _stated(in_order(parameters, best(most, lambda _: True)))

    def _question(self, parameters: SearchParameters) -> Question:
        asked = parameters.text.replace(parameters.date_text, "") if parameters.dated else parameters.text
        return read_question(asked, self._rarity, self._frequencies)

    async def _units(
        self,
        parameters: SearchParameters,
        terms: Sequence[Term],
        evidence: Sequence[Evidence],
        found: Sequence[Evidence],
        pool: Pool,
    ) -> Chosen:
        """The fewest units that answer, what contradicts or replaces them, and how likely they are right."""
        usable = of_that_time(parameters, evidence)
        question = self._question(parameters)
        of_then = parameters.dated and all(about_then(item.page.timestamp, parameters) for item in usable)
        answer = await self._answerer.find(
            question,
            usable,
            pool.packets(),
            self._config.citation_threshold,
            functools.partial(pool.similarity, parameters.text),
            of_then=of_then,
        )
        known = {item.page.page_id: item for item in usable}
        cited = [piece.page for one in answer.chosen for piece in one.unit.pieces]
        selected = [known.get(page.page_id) or _evidence_of(page, terms, usable) for page in _once(cited)]
        by_rules = judge_units(parameters, terms, selected, found, answer.confidence)
        if not by_rules.is_relevant:
            nearest = [answer.near] if answer.near and near_miss(parameters, terms, answer.confidence) else []
            near = _stated(quotes_of(nearest)[:1])
            return Chosen(selected=selected, by_rules=by_rules, relevant=[], statements=[], near=tuple(near))
        against = _against(parameters, selected, usable)
        quotes = quotes_of(answer.chosen)
        pages = {item.page.page_id for item in against}
        quotes += self._answerer.best_of(
            question, against, pool.packets(), 1, len(against), lambda quote: quote.page.page_id in pages
        )
        if against or replacing(quotes):
            quotes = sorted(quotes, key=lambda one: (one.page.timestamp, one.page.packet_id, one.start))
        relevant = [*selected, *against]
        return Chosen(selected=relevant, by_rules=by_rules, relevant=relevant, statements=_stated(quotes))


def by_units(parameters: SearchParameters) -> bool:
    """Whether one place is likely to answer: not a history, a comparison of two things or a list of packets."""
    return (
        parameters.kind in ("factual", "comparative")
        and parameters.order == "relevance"
        and len(parameters.subjects) != 2
    )


def _stated(quotes: Sequence[Quote]) -> list[Statement]:
    return [Statement(quote, cite(quote.page, quote.start, quote.end)) for quote in quotes]


def _against(parameters: SearchParameters, selected: Sequence[Evidence], usable: Sequence[Evidence]) -> list[Evidence]:
    """Pages of other packets that say the opposite, or take the place of what is selected."""
    own = {item.page.packet_id for item in selected}
    by_packet: dict[str, list[Evidence]] = {}
    for item in usable:
        if item.page.packet_id not in own:
            by_packet.setdefault(item.page.packet_id, []).append(item)
    others = [item for items in by_packet.values() for item in items[:PAGES_AGAINST]]
    best = next(item for item in usable if item.page.packet_id in own)
    for said in _by_page([best, *selected]):
        if against := opposed(parameters.text, said, others) or taking_its_place(parameters.text, said, others):
            return against[:PAGES_AGAINST]
    return []


def _evidence_of(page: Page, terms: Sequence[Term], usable: Sequence[Evidence]) -> Evidence:
    """A page of a packet that was found by another page."""
    best = max((item for item in usable if item.page.packet_id == page.packet_id), key=lambda one: one.relevance)
    earned = credits_of(page, (), terms)
    return msgspec.structs.replace(
        best, page=page, credits=earned, lexical=weighted(earned, terms), cosine=None, neighbours=()
    )


def _once(pages: Sequence[Page]) -> list[Page]:
    return list({page.page_id: page for page in pages}.values())


def _by_page(evidence: Sequence[Evidence]) -> list[Evidence]:
    """Each page once, in the order found."""
    pages: dict[str, Evidence] = {}
    for item in evidence:
        pages.setdefault(item.page.page_id, item)
    return list(pages.values())


NEAR_BEST: dict[Kind, float] = {
    "conceptual": 0.6,
    "evolution": 0.5,
    "comparative": 0.5,
}
# Evidence from the period asked about is preferred while it is at least this good against the best from any time.
PERIOD_SHARE = 0.6
PAGES_AGAINST = 2  # of each such packet
# For earliest and latest: how much of the best lexical cover a page needs to speak of the same thing.
SAME_THING = 0.85


def of_that_time(parameters: SearchParameters, evidence: Sequence[Evidence]) -> list[Evidence]:
    """The evidence, best first: that from the period asked about, or all when nothing from then comes near the best."""
    usable = sorted(evidence, key=lambda item: -item.relevance)
    then = [item for item in usable if about_then(item.page.timestamp, parameters)]
    if asks_what_was_done(parameters):
        return then
    if not then or not (then[0].relevance >= PERIOD_SHARE * usable[0].relevance or _as_many_words(then, usable)):
        return usable
    return then if _named(parameters, usable) <= _named(parameters, then) else usable


_WHAT_WAS_DONE = re.compile(r"what (?:did|have|had) (?:i|we|you|they) \w+", re.IGNORECASE)


def asks_what_was_done(parameters: SearchParameters) -> bool:
    """Whether a question is a verb and a period only ("What did we decide in May?"): no other time answers it."""
    said = parameters.text.replace(parameters.date_text, "").strip(" ?.!")
    return parameters.dated and _WHAT_WAS_DONE.fullmatch(said) is not None


def _as_many_words(then: Sequence[Evidence], usable: Sequence[Evidence]) -> bool:
    """Whether a page from then has nearly as much of the question's words as any other."""
    return max(item.lexical for item in then) >= SAME_THING * max(item.lexical for item in usable) > 0


def _named(parameters: SearchParameters, evidence: Sequence[Evidence]) -> set[str]:
    """Which of the question's names occur in the evidence: what is told of something else then is no answer."""
    return {name for name in parameters.names if any(item.credits.get(name) for item in evidence)}


def select(
    parameters: SearchParameters,
    evidence: Sequence[Evidence],
    floor: float,
    max_pages: int,
    max_packets: int,
) -> list[Evidence]:
    """The pages to answer from, best first; none below `floor` relevance."""
    usable = of_that_time(parameters, [item for item in evidence if item.relevance >= floor])
    if not usable:
        return []
    if parameters.order != "relevance":
        return _at_the_end_of_time(parameters, usable, max_pages)
    if len(parameters.subjects) == 2:
        return _side_by_side(parameters, usable, max_pages, max_packets)
    bar = NEAR_BEST[parameters.kind] * usable[0].relevance
    return _capped([item for item in usable if item.relevance >= bar], max_pages, max_packets)


def _capped(usable: Sequence[Evidence], max_pages: int, max_packets: int) -> list[Evidence]:
    packets: list[str] = []
    kept: list[Evidence] = []
    for item in usable:
        if item.page.packet_id not in packets:
            if len(packets) == max_packets:
                continue
            packets.append(item.page.packet_id)
        kept.append(item)
    return kept[:max_pages]


def _at_the_end_of_time(parameters: SearchParameters, usable: Sequence[Evidence], max_pages: int) -> list[Evidence]:
    """The first (or last) packet among those that speak of the same thing as the best page does."""
    best = max(item.lexical for item in usable)
    same = [item for item in usable if item.lexical >= SAME_THING * best] or list(usable)
    moments = [item.page.timestamp for item in same]
    wanted = min(moments) if parameters.order == "earliest" else max(moments)
    packet_id = next(item.page.packet_id for item in same if item.page.timestamp == wanted)
    return [item for item in same if item.page.packet_id == packet_id][:max_pages]


def _side_by_side(
    parameters: SearchParameters, usable: Sequence[Evidence], max_pages: int, max_packets: int
) -> list[Evidence]:
    """Pages for each of the two things compared, in turns, so that neither crowds the other out."""
    bar = NEAR_BEST["comparative"]
    sides = []
    for subject in parameters.subjects:
        side = [item for item in usable if names_subject(item, subject)]
        sides.append([item for item in side if item.relevance >= bar * side[0].relevance])
    mixed: list[Evidence] = []
    for position in range(max(map(len, sides), default=0)):
        for side in sides:
            if position < len(side) and side[position] not in mixed:
                mixed.append(side[position])
    return _capped(mixed or usable, max_pages, max_packets)
