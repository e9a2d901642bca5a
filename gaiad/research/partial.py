"""Answers that improve while a run goes on: after each round that is not the last, what its pages say so far.

By the rules and from verified quotes only, whoever writes the final answer. It is made when somebody listens and not
otherwise, and told when it is no worse than the one before.
"""

from collections.abc import Callable, Sequence
from datetime import tzinfo

from gaiad.ports import Archive, Call
from gaiad.research.citations import confirmed
from gaiad.research.evidence import Evidence, Term
from gaiad.research.query import SearchParameters
from gaiad.research.reflect import ReflectionResult
from gaiad.research.synthesis import compose, plan_statements
from gaiad.run_events import OnEvent

Listens = Callable[[], bool]


class Partials:
    """Those of one run. `tell(name, data)` hears the event `partial`; `listens` is asked after every round."""

    def __init__(self, archive: Archive, call: Call, zone: tzinfo, tell: OnEvent, listens: Listens) -> None:
        self._archive = archive
        self._call = call
        self._zone = zone
        self._tell = tell
        self._listens = listens
        self._confidence = 0.0
        self._text = ""
        self._pages: tuple[str, ...] = ()

    async def offer(
        self,
        parameters: SearchParameters,
        terms: Sequence[Term],
        selected: Sequence[Evidence],
        reflection: ReflectionResult,
        iteration: int,
        max_quotes: int,
    ) -> None:
        """Tell the answer as it would be after this round, if it is relevant, new, and as sure as the last one."""
        if not reflection.is_relevant or reflection.confidence < self._confidence or not self._listens():
            return
        pages = tuple(item.page.page_id for item in selected)
        if pages == self._pages:
            return
        self._pages = pages
        planned = plan_statements(parameters, selected, terms, max_quotes)
        citations = await confirmed(self._archive, [one.citation for one in planned], self._call)
        kept = [one for one in planned if one.citation in citations]
        text = compose(parameters, kept, self._zone) if kept else ""
        if not text or text == self._text:
            return
        self._confidence, self._text = reflection.confidence, text
        self._tell(
            "partial",
            {
                "iteration": iteration,
                "answer": text,
                "confidence": round(reflection.confidence, 2),
                "packets": list(dict.fromkeys(one.packet_id for one in citations)),
                "missing": list(reflection.missing_aspects),
                "citations": citations,
            },
        )
