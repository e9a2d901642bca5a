"""Which pages a round would answer from, how the rules judge them and what they would quote; of a question that holds
several, for each by itself. Pure; of one run, and of the same pages as in the last round it quotes the same.
"""

from collections.abc import Sequence

import msgspec

from gaiad.config import ResearchConfig
from gaiad.research.evidence import Evidence, Term
from gaiad.research.gather import Pool
from gaiad.research.query import SearchParameters
from gaiad.research.refine import Attempt
from gaiad.research.reflect import ReflectionResult, evaluate_sufficiency
from gaiad.research.selection import select
from gaiad.research.several import Held, each_once, in_one_place, together
from gaiad.research.synthesis import Statement, plan_statements


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """`selected` pages, best first, the judgement of them, those that are `relevant`, and their quotes in order."""

    selected: list[Evidence]
    by_rules: ReflectionResult
    relevant: list[Evidence]
    statements: list[Statement]


class Chooser:
    """`held` are the questions that the run's question holds, none when it is one."""

    def __init__(self, config: ResearchConfig, held: Sequence[Held] = ()) -> None:
        self._config = config
        self._held = held
        self._quoted: dict[str, tuple[list[Evidence], list[Statement]]] = {}

    def searched(self, attempt: Attempt) -> Attempt:
        """The attempt with a search for each of several questions beside it."""
        if not self._held:
            return attempt
        return msgspec.structs.replace(attempt, beside=tuple(one.query for one in self._held))

    def choose(self, parameters: SearchParameters, terms: Sequence[Term], pool: Pool, floor: float) -> Chosen:
        """From what was found so far, with no page below `floor`."""
        whole = self._of_one(parameters, terms, pool.evidence, pool.by_question, floor, 1)
        if not self._held or in_one_place(parameters, whole.selected):
            return whole
        several = []
        for one in self._held:
            found = pool.found_by(one.query, one.terms)
            several.append(self._of_one(one.parameters, one.terms, found, found, floor, len(self._held)))
        relevant = _by_page([item for one in several for item in one.relevant])
        return Chosen(
            selected=relevant or _by_page([item for one in several for item in one.selected]),
            by_rules=together(self._held, [one.by_rules for one in several]),
            relevant=relevant,
            statements=each_once([statement for one in several for statement in one.statements]),
        )

    def _of_one(
        self,
        parameters: SearchParameters,
        terms: Sequence[Term],
        evidence: Sequence[Evidence],
        found: Sequence[Evidence],
        floor: float,
        share: int,
    ) -> Chosen:
        """For one question its share, one of so many, of the pages and of the packets."""
        pages, packets = (max(1, most // share) for most in (self._config.max_pages, self._config.max_sources))
        threshold = self._config.citation_threshold
        selected = select(parameters, evidence, floor, max_pages=pages, max_packets=packets, threshold=threshold)
        by_rules = evaluate_sufficiency(parameters, terms, selected, found)
        relevant = selected if by_rules.is_relevant else []
        known = self._quoted.get(parameters.text)
        if known is None or known[0] != relevant:
            known = relevant, plan_statements(parameters, relevant, terms, pages)
            self._quoted[parameters.text] = known
        return Chosen(selected=selected, by_rules=by_rules, relevant=relevant, statements=known[1])


def _by_page(evidence: Sequence[Evidence]) -> list[Evidence]:
    """Each page once, in the order found."""
    pages: dict[str, Evidence] = {}
    for item in evidence:
        pages.setdefault(item.page.page_id, item)
    return list(pages.values())
