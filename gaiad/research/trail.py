"""What one research run did, as it did it: searches, rounds, evidence, the end. The loop writes it for the payload.

A trail holds values only; whoever wants no payload leaves it unread.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from gaiad.clock import Clock
from gaiad.errors import GaiadError
from gaiad.payload_schemas import PayloadStatus
from gaiad.research.evidence import Evidence, Term
from gaiad.research.integration import IntegrationState
from gaiad.research.plan import PlanAction
from gaiad.research.query import SearchParameters
from gaiad.research.reflect import ReflectionResult
from gaiad.schemas import PacketFilter, PacketSummary, ResearchRequest, ResearchResult, SearchRequest


@dataclass
class Search:
    """One call of the archive. `packet_ids` are what it found, best first, `hits` how many pages or packets."""

    iteration: int
    tool: str
    request: SearchRequest | PacketFilter
    started_at: datetime
    completed_at: datetime
    packet_ids: list[str] = field(default_factory=list)
    hits: int = 0
    error: str = ""

    def found(self, packet_ids: Sequence[str]) -> None:
        """What came back, one id a hit."""
        self.hits += len(packet_ids)
        self.packet_ids += [one for one in dict.fromkeys(packet_ids) if one not in self.packet_ids]


@dataclass
class Round:
    """One iteration: what was planned to be searched for, what it came to. `reflection` is None for a listing, and for
    a round that was not finished."""

    number: int
    query: str
    refinements: tuple[str, ...]
    started_at: datetime
    completed_at: datetime
    selected: list[Evidence] = field(default_factory=list)
    reflection: ReflectionResult | None = None
    plan: list[PlanAction] = field(default_factory=list)
    state: IntegrationState = field(default_factory=IntegrationState)


@dataclass
class Spent:
    """What models that write were asked for in a run: calls, and tokens as the models count them."""

    calls: int = 0
    prompt_tokens: int = 0
    reply_tokens: int = 0

    def add(self, prompt_tokens: int, reply_tokens: int) -> None:
        """One more call."""
        self.calls += 1
        self.prompt_tokens += prompt_tokens
        self.reply_tokens += reply_tokens


class Trail:
    """Begun with the run. `evidence` is all that was found, best first; `listed` the packets of a listing."""

    def __init__(self, research_id: str, request: ResearchRequest, tenant: str, clock: Clock) -> None:
        self.research_id = research_id
        self.request = request
        self.tenant = tenant
        self.started_at = self.ended_at = clock.now()
        self.searches: list[Search] = []
        self.rounds: list[Round] = []
        self.parameters: SearchParameters | None = None
        self.terms: Sequence[Term] = ()
        self.evidence: Sequence[Evidence] = ()
        self.listed: Sequence[PacketSummary] = ()
        self.spent = Spent()
        self.status: PayloadStatus = "in_progress"
        self.result: ResearchResult | None = None
        self.error = ""
        self._clock = clock

    def understood(self, parameters: SearchParameters) -> None:
        """The question has been read."""
        self.parameters = parameters

    def begin_round(self, query: str, refinements: tuple[str, ...] = ()) -> None:
        """A new iteration; searches belong to it from here on."""
        now = self._clock.now()
        self.rounds.append(Round(len(self.rounds) + 1, query, refinements, now, now))

    def planned(self, actions: Sequence[PlanAction]) -> None:
        """The iteration searches for this, too."""
        self.rounds[-1].plan += actions

    def end_round(
        self,
        selected: Sequence[Evidence],
        reflection: ReflectionResult | None,
        state: IntegrationState | None = None,
    ) -> None:
        """The iteration has been judged."""
        last = self.rounds[-1]
        last.selected, last.reflection, last.completed_at = list(selected), reflection, self._clock.now()
        last.state = state or last.state

    @contextmanager
    def searching(self, tool: str, request: SearchRequest | PacketFilter) -> Iterator[Search]:
        """A search while it runs; one that fails is told with its error, which goes on to the caller."""
        now = self._clock.now()
        search = Search(len(self.rounds), tool, request, now, now)
        self.searches.append(search)
        try:
            yield search
        except GaiadError as error:
            search.error = error.message
            raise
        finally:
            search.completed_at = self._clock.now()

    def answered(self, result: ResearchResult) -> None:
        """The run came to its end, with an answer or none."""
        self.result = result
        self._end("complete")

    def broke_off(self, status: PayloadStatus, error: str) -> None:
        """The run came to no end: `failed` or `cancelled`, and why."""
        self.error = error
        self._end(status)

    def _end(self, status: PayloadStatus) -> None:
        self.status, self.ended_at = status, self._clock.now()
        if self.rounds:
            self.rounds[-1].completed_at = max(self.rounds[-1].completed_at, self.ended_at)
