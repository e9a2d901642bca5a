"""Ports: where one package needs what another owns. Small protocols; the daemon wires the real sides in.

Those of the council and its ledger are in `council_ports`, those of channels with an outside in `delivery_ports`.

Every call carries a `Call`: tenant, deadline, priority and a cancel flag travel with it through every port.
"""

import threading
from collections.abc import AsyncGenerator, Collection, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

from gaiad.errors import Cancelled, DeadlineExceeded
from gaiad.generation import ChatMessage, Generated, GenerateRequest, Segment, TextDelta
from gaiad.memory_schemas import Memo, PageHeader, SessionSummary, SessionTurn
from gaiad.schemas import (
    DEFAULT_TENANT,
    Facets,
    Focus,
    PacketFilter,
    PacketSummary,
    Page,
    SearchRequest,
    SearchResponse,
)
from gaiad.status_schemas import ModelStatus

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]


class Priority(IntEnum):
    """Smaller goes first: a waiting person before anything in the background."""

    PERSON = 0
    BACKGROUND = 10


class Call:
    """Who calls, until when (monotonic seconds, None is no limit), how urgently, and whether still wanted.

    `hidden` are the labels of packets that are not there for this call, `guarded` those that any channel does not see:
    what a turn is given of these it hands on (`memory.exclude`).
    """

    __slots__ = ("_cancelled", "deadline", "guarded", "hidden", "priority", "tenant", "turn_id")

    def __init__(
        self,
        tenant: str = DEFAULT_TENANT,
        deadline: float | None = None,
        priority: Priority = Priority.PERSON,
        turn_id: str = "",
    ) -> None:
        self.tenant = tenant
        self.deadline = deadline
        self.priority = priority
        self.turn_id = turn_id
        self.hidden: frozenset[str] = frozenset()
        self.guarded: frozenset[str] = frozenset()
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """Ask the work to stop; safe from any thread."""
        self._cancelled.set()

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def until(self, deadline: float) -> "Call":
        """The same call, with this deadline if it has none that is earlier; cancelling either cancels both."""
        earliest = deadline if self.deadline is None else min(deadline, self.deadline)
        part = self._copy()
        part.deadline = earliest
        return part

    def without(self, hidden: Collection[str], guarded: Collection[str]) -> "Call":
        """The same call, to which packets with these labels are not there; cancelling either cancels both."""
        part = self._copy()
        part.hidden, part.guarded = self.hidden | frozenset(hidden), self.guarded | frozenset(guarded)
        return part

    def seeing_all(self) -> "Call":
        """The same call, to which nothing is hidden: to learn the labels of what is given, never to show it."""
        part = self._copy()
        part.hidden = frozenset()
        return part

    def _copy(self) -> "Call":
        copy = Call(self.tenant, self.deadline, self.priority, self.turn_id)
        copy.hidden, copy.guarded, copy._cancelled = self.hidden, self.guarded, self._cancelled
        return copy

    def share(self, part: float, monotonic_now: float) -> "Call":
        """The same call for a part that may take at most this share of the time that is left; all of it without one."""
        if self.deadline is None:
            return self
        return self.until(monotonic_now + max(0.0, self.deadline - monotonic_now) * part)

    def check(self, monotonic_now: float) -> None:
        """Raise Cancelled or DeadlineExceeded when the call should not go on."""
        if self._cancelled.is_set():
            raise Cancelled("the caller went away")
        if self.deadline is not None and monotonic_now > self.deadline:
            raise DeadlineExceeded("the call's deadline passed")


class Embedder(Protocol):
    """Text to unit vectors. Texts longer than the model's window are split and averaged, never cut silently."""

    @property
    def fingerprint(self) -> str:
        """Names the vector space: model file, pooling, normalisation. Vectors of two spaces never mix."""
        ...

    @property
    def dimension(self) -> int: ...

    async def embed(self, texts: Sequence[str], call: Call) -> "Vectors":
        """Shape (len(texts), dimension), float32, rows of length 1. Raises WorkerDied, DeadlineExceeded, Cancelled."""
        ...

    def status(self) -> ModelStatus: ...


class Tokenizer(Protocol):
    """What a model's prompt costs, in that model's own tokens, and how its chat template writes a conversation."""

    @property
    def fingerprint(self) -> str:
        """Names vocabulary and template; counts of two fingerprints never mix."""
        ...

    @property
    def exact(self) -> bool:
        """False when there is no vocabulary to count with and counts are cautious estimates."""
        ...

    async def count(self, texts: Sequence[Sequence[Segment]], call: Call) -> list[int]:
        """Tokens of each text by itself, without the model's own beginning.

        Raises BadInput, Unavailable, WorkerDied, DeadlineExceeded, Cancelled.
        """
        ...

    async def encode(self, segments: Sequence[Segment], call: Call) -> list[int]:
        """The tokens of a prompt as the model reads it, its own beginning included."""
        ...

    async def render(self, messages: Sequence[ChatMessage], call: Call) -> list[Segment]:
        """The conversation with the template's trusted parts around it, up to where the model's reply begins."""
        ...


class Model(Protocol):
    """Text from a prompt, as it comes; the last thing that comes is the whole with its times."""

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def fingerprint(self) -> str:
        """Names the weights; recorded with every reply (decision 9)."""
        ...

    def generate(self, request: GenerateRequest, call: Call) -> AsyncGenerator[TextDelta | Generated, None]:
        """Deltas, then one Generated; closing it early cancels the work.

        Raises BadInput, Unavailable, WorkerDied, DeadlineExceeded, Cancelled.
        """
        ...

    def status(self) -> ModelStatus: ...


class Archive(Protocol):
    """What research and bench need of the memory; all calls stay inside `call.tenant`."""

    async def search(self, request: SearchRequest, call: Call) -> SearchResponse: ...

    async def pages(self, page_ids: Sequence[str], call: Call) -> list[Page]:
        """In the order asked for; an unknown or foreign id raises NotFound."""
        ...

    async def section_pages(self, packet_id: str, focus: Focus, call: Call) -> list[Page]:
        """The packet's pages for a focus (GAM 3), in reading order."""
        ...

    async def list_packets(self, request: PacketFilter, call: Call) -> list[PacketSummary]: ...

    async def packet_summaries(self, packet_ids: Sequence[str], call: Call) -> list[PacketSummary]: ...

    async def facets(self, call: Call) -> Facets: ...

    async def document_frequency(self, words: Sequence[str], call: Call) -> dict[str, int]:
        """For each word (stemmed as the index stems), in how many pages it stands; 0 when nowhere."""
        ...

    async def remember_turn(self, turn: SessionTurn, call: Call) -> str:
        """The turn's packet id; durable and searchable at once, and nothing new when it is known already.

        Raises BadInput, Conflict.
        """
        ...

    async def session_turns(
        self, session_id: str, call: Call, after: int = -1, limit: int = 200, *, latest: bool = False
    ) -> list[SessionTurn]:
        """Turns numbered above `after`, in order: the first `limit` of them, or with `latest` the last."""
        ...

    async def sessions(self, call: Call, limit: int = 50, offset: int = 0) -> list[SessionSummary]:
        """Sessions, the one spoken in last first."""
        ...

    async def session_memos(self, session_id: str, call: Call) -> list[Memo]:
        """What each page added to its session, in order (JIT); seeds planning."""
        ...

    async def page_headers(self, page_ids: Sequence[str], call: Call) -> list[PageHeader]:
        """JIT's decorated headers; an unknown or foreign id raises NotFound."""
        ...

    async def hidden(self, ids: Collection[str], call: Call) -> set[str]:
        """Those of these packet and page ids, of any revision, that are not there for the call though they exist."""
        ...


class Scheduler(Protocol):
    """Runs registered callables at a time of day or an interval; owned by intake."""

    def daily(self, name: str, at: str, zone: str, work: "Work") -> None: ...

    def every(self, name: str, seconds: float, work: "Work") -> None: ...


class Work(Protocol):
    async def __call__(self) -> None: ...
