"""The steps of a run that a model may take, and how they go without one: by the rules that stand beside them.

Both ways give the same types: PlanAction and IntegrationState (JIT), ReflectionResult (GAM 4), a Draft of verified
quotes (GAM 5).
"""

from collections.abc import Collection, Sequence
from typing import Protocol

import msgspec

from gaiad.research.evidence import Evidence
from gaiad.research.query import SearchParameters
from gaiad.research.refine import Attempt
from gaiad.research.reflect import ReflectionResult
from gaiad.research.sentences import Statement
from gaiad.research.trail import IntegrationState, left_open
from gaiad.wire.schemas import Citation, SearchRequest


class WrittenSentence(msgspec.Struct, frozen=True):
    """One sentence that a model wrote, and the quotes that it stands on."""

    text: str
    statements: tuple[Statement, ...]


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer is to be made of. `sentences` are a model's, () when the quotes are the answer themselves.

    `engine` names the model, "" for the rules; `unsupported` counts its sentences that no quote carries.
    """

    statements: tuple[Statement, ...]
    sentences: tuple[WrittenSentence, ...] = ()
    engine: str = ""
    unsupported: int = 0

    @property
    def parts(self) -> int:
        """How many sentences, or quotes, it has."""
        return len(self.sentences) or len(self.statements)

    def first(self, kept: int) -> "Draft":
        """The draft of its first `kept` parts."""
        if kept >= self.parts:
            return self
        if not self.sentences:
            return msgspec.structs.replace(self, statements=self.statements[:kept])
        sentences = self.sentences[:kept]
        return msgspec.structs.replace(self, sentences=sentences, statements=statements_of(sentences))

    def standing(self, verified: Collection[Citation]) -> "Draft":
        """What is left when the archive confirmed these citations only: a sentence stands with all of its quotes."""
        kept = tuple(statement for statement in self.statements if statement.citation in verified)
        if not self.engine:
            return msgspec.structs.replace(self, statements=kept)
        whole = tuple(one for one in self.sentences if all(s.citation in verified for s in one.statements))
        return msgspec.structs.replace(
            self,
            sentences=whole,
            statements=statements_of(whole),
        )


def statements_of(sentences: Sequence[WrittenSentence]) -> tuple[Statement, ...]:
    """The quotes that sentences stand on, in order, each span of a page once."""
    spans = {(s.quote.page.page_id, s.quote.start, s.quote.end): s for one in sentences for s in one.statements}
    return tuple(spans.values())


class Steps(Protocol):
    """One run's plan, reflection, next attempt and synthesis. `degraded` says what a model could not do, and why."""

    @property
    def degraded(self) -> list[str]: ...

    async def look(
        self,
        parameters: SearchParameters,
        asked: Sequence[SearchRequest],
        found: Sequence[Evidence],
        *,
        by_meaning: bool,
    ) -> int:
        """Search more than the rules did (`asked`, which `found` these); how many pages are new."""
        ...

    async def judge(
        self, parameters: SearchParameters, selected: Sequence[Evidence], by_rules: ReflectionResult
    ) -> ReflectionResult: ...

    def settled(self, state: IntegrationState, reflection: ReflectionResult) -> IntegrationState:
        """The round's state once it is judged: what is open, which pages were read for it."""
        ...

    def next(self, attempt: Attempt, reflection: ReflectionResult, by_rules: Attempt | None) -> Attempt | None:
        """The attempt after this one, None when there is nothing new to try."""
        ...

    async def draft(self, parameters: SearchParameters, selected: Sequence[Evidence]) -> Draft | None:
        """None when the rules are to write; one without statements when there is nothing to answer with."""
        ...


class ByRules:
    """No model: what the rules say stands."""

    def __init__(self, degraded: Sequence[str] = ()) -> None:
        self._degraded = list(degraded)

    @property
    def degraded(self) -> list[str]:
        return self._degraded

    async def look(
        self,
        _parameters: SearchParameters,
        _asked: Sequence[SearchRequest],
        _found: Sequence[Evidence],
        *,
        by_meaning: bool,
    ) -> int:
        """Nothing beside the rules' searches."""
        return 0

    async def judge(
        self, _parameters: SearchParameters, _selected: Sequence[Evidence], by_rules: ReflectionResult
    ) -> ReflectionResult:
        """As the rules judge."""
        return by_rules

    def settled(self, state: IntegrationState, reflection: ReflectionResult) -> IntegrationState:
        """What the rules find missing is open."""
        return left_open(state, reflection.missing_aspects, enough=reflection.is_sufficient)

    def next(self, _attempt: Attempt, _reflection: ReflectionResult, by_rules: Attempt | None) -> Attempt | None:
        """As the rules refine."""
        return by_rules

    async def draft(self, _parameters: SearchParameters, _selected: Sequence[Evidence]) -> Draft | None:
        """The rules write."""
        return None
