"""What intake may ask of governance: RFCs and the stability score (GCP 3.3, 11). A part of `service`."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack

from council.balloting import Balloting, Rouse
from council.governance.reviewing import Reviewer
from council.governance.rules import governance_table
from council.governance.tables import ReflectionTable, RfcTable
from council.governance.workflow import Fits, Workflow
from council.ports import CouncilRoom, Speaker
from gaiad.base.clock import Clock
from gaiad.base.errors import GaiadError, TokenBudgetError, Unavailable
from gaiad.base.events import Event, EventHub
from gaiad.base.logs import get_logger
from gaiad.base.ports import RequestContext, Tokenizer
from gaiad.base.tasks import TaskGroup
from gaiad.identity.keys import owner_folder
from gaiad.identity.signing import HomeSeal
from gaiad.ledger.audit import AuditLog
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.generation import Segment
from gaiad.wire.governance import RfcProposal, RfcRecord, RfcSignature, StabilityReport
from prompts.budget import check_identity
from prompts.identity import identity_text, parse_identity

_log = get_logger("gaiad.governance")


class GovernanceService:
    """RFCs step by step. `reflections` is where turns, beats and the initiative loop are recorded."""

    def __init__(self, workflow: Workflow, reflections: ReflectionTable) -> None:
        self.reflections = reflections
        self._workflow = workflow

    async def propose(self, proposal: RfcProposal, call: RequestContext) -> RfcRecord:
        """A new RFC. Raises BadInput for a faulty one."""
        return await self._shown(await self._workflow.propose(proposal, call))

    async def review(self, name: str, call: RequestContext) -> RfcRecord:
        """Let Prime and Lite review it. Raises NotFound, BadInput, Conflict."""
        return await self._shown(await self._workflow.review(name, call))

    async def vote(self, name: str, call: RequestContext) -> RfcRecord:
        """Let the council vote on it. Raises NotFound, BadInput, Conflict."""
        return await self._shown(await self._workflow.vote(name, call))

    async def merge(self, name: str, signature: RfcSignature | None, call: RequestContext) -> RfcRecord:
        """Put it in force. Raises NotFound, BadInput, Conflict, Forbidden."""
        self_aware = (await self.reflections.report()).self_aware
        return await self._workflow.merge(name, signature, self_aware=self_aware, call=call)

    async def show(self, name: str) -> RfcRecord:
        """One, by its id or the digits shown. Raises NotFound, BadInput."""
        self_aware = (await self.reflections.report()).self_aware
        return await self._workflow.show(name, self_aware=self_aware)

    async def newest(self, limit: int, state: str = "") -> list[RfcRecord]:
        """The last ones, newest first."""
        self_aware = (await self.reflections.report()).self_aware
        return await self._workflow.newest(limit, state, self_aware=self_aware)

    async def stability(self) -> StabilityReport:
        """The self-reflection stability score and the criteria, now."""
        return await self.reflections.report()

    async def _shown(self, record: RfcRecord) -> RfcRecord:
        return await self.show(record.rfc_id)


async def open_governance(
    stack: AsyncExitStack,
    databases: HomeDatabases,
    clock: Clock,
    environment: Mapping[str, str],
    *,
    audit: AuditLog,
    floor: CouncilRoom,
    speaker: Speaker,
    votes: Balloting,
    hub: EventHub,
    initiative_every_s: float,
    rouse: Rouse | None = None,
    fits: Fits | None = None,
) -> GovernanceService:
    """The parts of governance in a home, closed with `stack`; `rouse` is the room's, `fits` such as `fitting` makes."""
    table = governance_table()
    reflections = ReflectionTable(databases.state, clock, table.stability, initiative_every_s)
    workflow = Workflow(
        rfcs=RfcTable(databases.state),
        reviewer=Reviewer(floor, speaker, clock, table, rouse),
        votes=votes,
        seal=HomeSeal(databases.home, owner_folder(environment), audit),
        floor=floor,
        audit=audit,
        clock=clock,
        table=table,
        fits=fits,
    )
    tasks = await stack.enter_async_context(TaskGroup("governance"))
    tasks.start("beats", record_beats(hub.follow(0), reflections))
    return GovernanceService(workflow, reflections)


def fitting(tokenizers: Callable[[], Mapping[str, Tokenizer]], mtu: Callable[[], int]) -> Fits:
    """Whether an identity fits the MTU under each model's tokenizer, by name; decision 7 checks it at the start too.

    A tokenizer that cannot be asked now is passed over, as at the start.
    """

    async def fits(text: str, call: RequestContext) -> None:
        words = identity_text(parse_identity("the attached identity", text.encode("utf-8")))
        for name, tokenizer in tokenizers().items():
            try:
                (tokens,) = await tokenizer.count([[Segment(words)]], call)
            except Unavailable as error:
                _log.warning("identity_not_measured", model=name, error=error.message)
                continue
            try:
                check_identity(tokens, mtu())
            except TokenBudgetError as error:
                raise TokenBudgetError(f"the attached identity with {name}: {error.message}", error.fields) from error

    return fits


async def record_beats(events: AsyncIterator[Event], reflections: ReflectionTable) -> None:
    """Note every HEARTBEAT of the council log for as long as there are events.

    One that cannot be written is logged: a gap in the record only makes the score lower.
    """
    async for event in events:
        if event.kind != "council" or event.data.get("type") != "HEARTBEAT":
            continue
        try:
            await reflections.beat(str(event.data.get("sender", "")))
        except GaiadError as error:
            _log.warning("beat_not_recorded", error=error.message)
