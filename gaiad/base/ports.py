"""Ports: where one package needs what another owns. Small protocols; the daemon wires the real sides in.

Every call carries a `RequestContext`: tenant, deadline, priority and a cancel flag travel with it through every port.
"""

import threading
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from gaiad.base.config import ShellConfig
from gaiad.base.errors import Cancelled, DeadlineExceeded
from gaiad.base.journal import StepJournal
from gaiad.wire.council import EscalationRecord, OpenEscalation, StoredMessage
from gaiad.wire.generation import ChatMessage, Generated, GenerateRequest, Segment, TextDelta
from gaiad.wire.governance import Approval, ApprovalWish, Execution
from gaiad.wire.memory import Memo, PageHeader, SessionSummary, SessionTurn
from gaiad.wire.schemas import (
    DEFAULT_TENANT,
    Facets,
    Focus,
    PacketFilter,
    PacketSummary,
    Page,
    SearchRequest,
    SearchResponse,
)
from gaiad.wire.status import ModelStatus

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]


class Priority(IntEnum):
    """Smaller goes first: a waiting person before anything in the background."""

    PERSON = 0
    BACKGROUND = 10


class RequestContext:
    """Who asks, until when (monotonic seconds, None means no limit), how urgently, and whether still wanted.

    `hidden` are the labels of packets that are not there for this call, `guarded` those that any channel does not see:
    what a turn is given of these it hands on (`memory.exclude`). `journal` is that of a run that may be cut off.
    """

    __slots__ = ("_cancelled", "deadline", "guarded", "hidden", "journal", "priority", "tenant", "turn_id")

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
        self.journal: StepJournal | None = None
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """Ask the work to stop; safe from any thread."""
        self._cancelled.set()

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def until(self, deadline: float) -> "RequestContext":
        """The same call, with this deadline if it has none that is earlier; cancelling either cancels both."""
        earliest = deadline if self.deadline is None else min(deadline, self.deadline)
        part = self._copy()
        part.deadline = earliest
        return part

    def without(self, hidden: Collection[str], guarded: Collection[str]) -> "RequestContext":
        """The same call, to which packets with these labels are not there; cancelling either cancels both."""
        part = self._copy()
        part.hidden, part.guarded = self.hidden | frozenset(hidden), self.guarded | frozenset(guarded)
        return part

    def journalled(self, journal: StepJournal) -> "RequestContext":
        """The same call, whose model calls and searches are steps of a run that can be taken up again."""
        part = self._copy()
        part.journal = journal
        return part

    def seeing_all(self) -> "RequestContext":
        """The same call, to which nothing is hidden: to learn the labels of what is given, never to show it."""
        part = self._copy()
        part.hidden = frozenset()
        return part

    def _copy(self) -> "RequestContext":
        copy = RequestContext(self.tenant, self.deadline, self.priority, self.turn_id)
        copy.hidden, copy.guarded, copy._cancelled = self.hidden, self.guarded, self._cancelled
        copy.journal = self.journal
        return copy

    def share(self, part: float, monotonic_now: float) -> "RequestContext":
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

    async def embed(self, texts: Sequence[str], call: RequestContext) -> "Vectors":
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
        """False without a vocabulary to count with: counts are then cautious estimates."""
        ...

    async def count(self, texts: Sequence[Sequence[Segment]], call: RequestContext) -> list[int]:
        """Tokens of each text by itself, without the model's own beginning.

        Raises BadInput, Unavailable, WorkerDied, DeadlineExceeded, Cancelled.
        """
        ...

    async def encode(self, segments: Sequence[Segment], call: RequestContext) -> list[int]:
        """The tokens of a prompt as the model reads it, its own beginning included."""
        ...

    async def render(self, messages: Sequence[ChatMessage], call: RequestContext) -> list[Segment]:
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

    def generate(self, request: GenerateRequest, call: RequestContext) -> AsyncGenerator[TextDelta | Generated, None]:
        """Deltas, then one Generated; closing it early cancels the work.

        Raises BadInput, Unavailable, WorkerDied, DeadlineExceeded, Cancelled.
        """
        ...

    def status(self) -> ModelStatus: ...


class Archive(Protocol):
    """What research and bench need of the memory; all calls stay inside `call.tenant`."""

    async def search(self, request: SearchRequest, call: RequestContext) -> SearchResponse: ...

    async def pages(self, page_ids: Sequence[str], call: RequestContext) -> list[Page]:
        """In the order asked for; an unknown or foreign id raises NotFound."""
        ...

    async def section_pages(self, packet_id: str, focus: Focus, call: RequestContext) -> list[Page]:
        """The packet's pages for a focus (GAM 3), in reading order."""
        ...

    async def list_packets(self, request: PacketFilter, call: RequestContext) -> list[PacketSummary]: ...

    async def packet_summaries(self, packet_ids: Sequence[str], call: RequestContext) -> list[PacketSummary]: ...

    async def facets(self, call: RequestContext) -> Facets: ...

    async def document_frequency(self, words: Sequence[str], call: RequestContext) -> dict[str, int]:
        """For each word (stemmed as the index stems), how many pages contain it; 0 for none."""
        ...

    async def similarity(self, query: str, texts: Sequence[str], call: RequestContext) -> list[float]:
        """The cosine of each text to the query; [] while no embedder answers in time."""
        ...

    async def remember_turn(self, turn: SessionTurn, call: RequestContext) -> str:
        """The turn's packet id; durable and searchable at once, and nothing new when it is known already.

        Raises BadInput, Conflict.
        """
        ...

    async def session_turns(
        self, session_id: str, call: RequestContext, after: int = -1, limit: int = 200, *, latest: bool = False
    ) -> list[SessionTurn]:
        """Turns numbered above `after`, in order: the first `limit` of them, or with `latest` the last."""
        ...

    async def sessions(self, call: RequestContext, limit: int = 50, offset: int = 0) -> list[SessionSummary]:
        """Sessions, the one spoken in last first."""
        ...

    async def session_memos(self, session_id: str, call: RequestContext) -> list[Memo]:
        """What each page added to its session, in order (JIT); seeds planning."""
        ...

    async def page_headers(self, page_ids: Sequence[str], call: RequestContext) -> list[PageHeader]:
        """JIT's decorated headers; an unknown or foreign id raises NotFound."""
        ...

    async def hidden(self, ids: Collection[str], call: RequestContext) -> set[str]:
        """Those of these packet and page ids, of any revision, that are not there for the call though they exist."""
        ...


class Scheduler(Protocol):
    """Runs registered callables at a time of day or an interval; owned by intake."""

    def daily(self, name: str, at: str, zone: str, work: "Work") -> None: ...

    def every(self, name: str, seconds: float, work: "Work") -> None: ...


class Work(Protocol):
    async def __call__(self) -> None: ...


class Audit(Protocol):
    """Rows in a hash chain that are never changed: what was decided, approved and governed, and by whom."""

    async def append(self, kind: str, actor: str, body: Mapping[str, Any], call: RequestContext) -> int:
        """The number of the new row, which is durable then. `kind` is as `council.vote`, `body` what JSON can hold.

        Raises BadInput, Unavailable.
        """
        ...


class CouncilMessages(Protocol):
    """Where the council's messages stay, and what went up to a person until it is answered. All raise Unavailable."""

    async def add(self, tenant: str, message: StoredMessage) -> None:
        """Durable when this returns. Raises BadInput."""
        ...

    async def add_escalation(self, tenant: str, session_id: str, record: EscalationRecord) -> None: ...

    async def answer_escalations(self, tenant: str, session_id: str) -> None:
        """The person spoke in this session: what was open in it is answered."""
        ...

    async def open_escalations(self, limit: int) -> list[OpenEscalation]:
        """The last `limit` of every tenant, oldest first."""
        ...


class Executor(Protocol):
    """Runs one command in a sandbox (decision 13); owned by the shell channel."""

    @property
    def refusal(self) -> str:
        """Why nothing can be run, "" when it can."""
        ...

    async def run(self, argv: Sequence[str], work: Path, call: RequestContext) -> Execution:
        """Exactly `argv`, `work` its only writable folder; nothing of it is left running when this returns.

        Raises BadInput, and Unavailable when nothing was run.
        """
        ...

    def use_config(self, config: ShellConfig) -> None: ...


class Approvals(Protocol):
    """The queue of commands that wait for a person (decision 13)."""

    @property
    def refusal(self) -> str:
        """Why no command can be run here, "" when one can."""
        ...

    async def ask(self, wish: ApprovalWish, call: RequestContext) -> Approval:
        """Durable and in the audit when this returns. Raises BadInput, Unavailable."""
        ...
