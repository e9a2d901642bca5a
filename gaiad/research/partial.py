"""Answers that improve while a run goes on: after each round that is not the last, what its pages say so far.

It is the draft of the round's IntegrationState: by the rules and of verified quotes only, whoever writes the final
answer. They are verified when somebody listens and not otherwise; it is told when it is no worse than the one before.
"""

from collections.abc import Callable, Sequence

from gaiad.ports import Archive, Call
from gaiad.research.citations import confirmed
from gaiad.research.integration import IntegrationState
from gaiad.research.reflect import ReflectionResult
from gaiad.research.synthesis import Statement
from gaiad.run_events import OnEvent

Listens = Callable[[], bool]


class Partials:
    """Those of one run. `tell(name, data)` hears the event `partial`; `listens` is asked after every round."""

    def __init__(self, archive: Archive, call: Call, tell: OnEvent, listens: Listens) -> None:
        self._archive = archive
        self._call = call
        self._tell = tell
        self._listens = listens
        self._confidence = 0.0
        self._text = ""
        self._pages: tuple[str, ...] = ()

    async def offer(
        self,
        statements: Sequence[Statement],
        state: IntegrationState,
        reflection: ReflectionResult,
        iteration: int,
    ) -> None:
        """Tell the answer as it would be after this round, if it is relevant, new, and as sure as the last one.

        Nothing is told of it while one of its quotes is not confirmed.
        """
        if not reflection.is_relevant or reflection.confidence < self._confidence or not self._listens():
            return
        if state.used_pages == self._pages:
            return
        self._pages = state.used_pages
        citations = await confirmed(self._archive, [one.citation for one in statements], self._call)
        text = state.briefing_draft if len(citations) == len(statements) else ""
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
