"""The initiative loop: while nobody waits, one thought for later is developed, voted on and recorded. Nothing more.

It executes nothing, for it has nothing to execute with: what comes of it is a vote, a message and a page. A person who
begins to speak stops it at once. What it may write in a day is held before it writes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from typing import Annotated, Any, TypeVar

import msgspec

from constants.load import load
from council.balloting import Balloting
from council.initiative.account import Account, Meter, MeteredSpeaker
from council.initiative.run import (
    Ending,
    audited,
    dropped,
    failed,
    fault_of,
    gave_way,
    proposal_form,
    proposal_text,
    read_proposal,
    remembered,
    told,
    voted,
)
from council.initiative.seed_store import Seed, SeedRun, SeedState, SeedStore, seed_record
from council.limits import council_limits
from council.observer_rules import observer_table
from council.ports import Ask, CouncilRoom, Speaker
from council.quorum import Matter, council_rules
from council.roles import ROLES, Role, voters
from gaiad.base.clock import Clock, to_iso
from gaiad.base.config import InitiativeConfig
from gaiad.base.errors import GaiadError
from gaiad.base.ids import IdMaker
from gaiad.base.logs import get_logger
from gaiad.base.ports import Audit, Priority, RequestContext, Scheduler
from gaiad.base.tasks import TaskGroup
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.council import SeedRecord, VoteRecord
from gaiad.wire.memory import SessionTurn
from prompts.packet import WorkItem

Positive = Annotated[int, msgspec.Meta(ge=1)]


class InitiativeNumbers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """constants/initiative.toml. Tokens of one proposal, seconds of one run, counts of thoughts, characters of one."""

    develop_tokens: Annotated[int, msgspec.Meta(ge=64)]
    deadline_s: Annotated[float, msgspec.Meta(gt=0)]
    most_failures: Positive
    most_open: Positive
    thought_characters: Positive


def initiative_numbers() -> InitiativeNumbers:
    """The shipped numbers."""
    return load("initiative.toml", InitiativeNumbers)


DecidingWith = Callable[[Speaker], Balloting]
"""Makes the rounds of voting whose ballots this Speaker gets."""
Remember = Callable[[SessionTurn, RequestContext], Awaitable[str]]
"""Keeps a turn in the tenant's memory; its packet id."""
Looked = Callable[[str], Awaitable[None]]
"""Hears of every look while the loop is switched on: how it failed in words, "" when it did not."""


_log = get_logger("gaiad.initiative")
_DEVELOPER: Role = "prime"
_MATTER: Matter = "answer"
T = TypeVar("T")
ModelCall = Callable[[], Coroutine[Any, Any, T]]


class _GaveWay(Exception):
    """The run was left; the text says for whom."""


class Initiative:
    """One for a daemon. `look` is called on a schedule; `add` keeps a thought that a turn wrote."""

    def __init__(
        self,
        *,
        databases: HomeDatabases,
        floor: CouncilRoom,
        speaker: Speaker,
        deciding_with: DecidingWith,
        audit: Audit,
        remember: Remember,
        clock: Clock,
        settings: InitiativeConfig,
        protected: tuple[str, ...] = (),
        looked: Looked | None = None,
    ) -> None:
        """`deciding_with` makes the rounds of voting over the Speaker it is given, which counts what they cost.

        `protected` are texts of the prompt that no proposal may show. `databases` belong to the caller.
        """
        self._numbers = initiative_numbers()
        self._store = SeedStore(
            databases, clock, IdMaker(clock), self._numbers.most_open, self._numbers.thought_characters
        )
        self._floor, self._audit, self._clock = floor, audit, clock
        self._remember, self._looked, self._protected = remember, looked, protected
        self._rules, self._observer = council_rules(), observer_table()
        self._ballot_tokens = council_limits().voting.ballot_tokens
        self._settings = settings
        self._account = Account(self._store, clock)
        self._speaker = MeteredSpeaker(speaker)
        self._deciding = deciding_with(self._speaker)
        self._tasks = TaskGroup("initiative")
        self._persons = 0
        self._closed = False
        self._looking = False
        self._asking: tuple[RequestContext, asyncio.Task[Any]] | None = None
        self._waits_for = ""

    async def open(self, stack: AsyncExitStack, scheduler: Scheduler) -> None:
        """Start; the scheduler calls `look`, `stack` closes it and its votes. Raises Conflict, Unavailable."""
        await self.start()
        stack.push_async_callback(self.close)
        scheduler.every("initiative", self._settings.every_s, self.look)

    async def add(self, tenant: str, text: str, turn_id: str) -> Seed:
        """Keep a THOUGHT_SEED of a turn; see `SeedStore.add`. Raises BadInput."""
        seed = await self._store.add(tenant, text, turn_id)
        await self._account.refresh()
        return seed

    async def seeds(self, tenant: str, limit: int = 50, state: SeedState | None = None) -> list[SeedRecord]:
        """The tenant's last thoughts, newest first; only those in one state when it is given."""
        return [seed_record(seed) for seed in await self._store.listed(tenant, limit, state)]

    @contextmanager
    def person(self) -> Iterator[None]:
        """For as long as a person's turn is taken: the loop stops at once and does not begin."""
        self._persons += 1
        self._stop_asking()
        try:
            yield
        finally:
            self._persons -= 1

    def apply(self, settings: InitiativeConfig) -> None:
        """New settings; switched off it stops at once."""
        self._settings = settings
        if not settings.enabled:
            self._stop_asking()

    async def start(self) -> None:
        """What the last stop cut off is open again."""
        if cut := await self._store.recover():
            _log.info("initiative_runs_recovered", runs=cut)
        await self._account.refresh()

    async def close(self) -> None:
        """Stop asking, and wait until what was being recorded is."""
        self._closed = True
        self._stop_asking()
        await self._tasks.wait()
        await self._deciding.close()

    async def look(self) -> None:
        """Take up one thought if it is time for one; a second look while one is taken up does nothing.

        Faults of models are recorded and counted; others are raised as well. Whoever calls may be cancelled: the
        look goes on to its end, which `person`, `apply` and `close` bring about.
        """
        if not self._looking and not self._closed:
            self._looking = True
            await asyncio.shield(self._tasks.start("look", self._look()))

    def status(self, tenant: str) -> dict[str, Any]:
        """For CouncilStatus.initiative. `failures` are those of the last 24 hours, of all tenants as the tokens are.

        `open_seeds` are this tenant's. `last_run_at` is UTC, "" before the first; `waits_for` says why the last look
        took nothing up.
        """
        last = self._account.last_run
        return {
            "enabled": self._settings.enabled,
            "last_run_at": last.started_at if last else "",
            "last_outcome": (last.outcome or "running") if last else "",
            "tokens_today": self._account.tokens_today,
            "daily_tokens": self._settings.daily_tokens,
            "open_seeds": self._account.open_seeds(tenant),
            "failures": self._account.failures,
            "waits_for": self._waits_for,
        }

    async def _look(self) -> None:
        failure = "it ended by a fault in gaiad"
        try:
            failure = await self._take_one()
        finally:
            self._looking = False
            if self._settings.enabled and self._looked is not None:
                await self._looked(failure)

    async def _take_one(self) -> str:
        """Take one thought up if nothing is in the way; how that failed, in words."""
        self._waits_for = self._obstacle()
        if self._waits_for:
            return ""
        seed = await self._store.next_open()
        if seed is None:
            self._waits_for = "no thought is open"
            return ""
        day, reserve = self._account.today.isoformat(), self._reserve(seed)
        left = self._settings.daily_tokens - await self._store.tokens_on(day)
        if reserve > left:
            self._waits_for = f"a run may need {reserve} tokens and {max(0, left)} of the day's are left"
            return ""
        run = await self._store.begin(seed, day, reserve)
        await self._account.refresh()
        return await self._run(seed, run)

    async def _run(self, seed: Seed, run: SeedRun) -> str:
        """From taken up to settled, whatever happens; the failure in words."""
        meter = self._speaker.begin(run.tokens)
        try:
            ending = await self._taken(seed)
            if ending.final:
                await self._keep(seed, run, ending, meter)
        except GaiadError as error:
            _log.warning("initiative_run_failed", seed=seed.seed_id, tenant=seed.tenant, error=error.message)
            ending = failed(error, seed, self._numbers.most_failures)
        except Exception as error:
            await self._settle(seed, run, failed(error, seed, self._numbers.most_failures), meter)
            raise
        await self._settle(seed, run, ending, meter)
        return ending.why if ending.outcome == "error" else ""

    async def _taken(self, seed: Seed) -> Ending:
        """The thought's way from taken up to voted on, or to where it was left."""
        deadline = self._clock.monotonic() + self._numbers.deadline_s
        call = RequestContext(seed.tenant, deadline, Priority.BACKGROUND, seed.seed_id)
        try:
            if not (proposal := seed.proposal):
                written = await self._giving_way(call, partial(self._develop, seed, call))
                found = read_proposal(written)
                proposal = proposal_text(found) if found else ""
            if not proposal:
                return dropped(f"{_DEVELOPER} made no proposal of it")
            if fault := fault_of(proposal, self._protected, self._observer):
                return dropped(f"its proposal is withheld: {fault}")
            await self._store.propose(seed, proposal)
            return voted(proposal, await self._giving_way(call, partial(self._vote, seed, proposal, call)))
        except _GaveWay as reason:
            return gave_way(str(reason))

    async def _develop(self, seed: Seed, call: RequestContext) -> str:
        most = self._numbers.develop_tokens
        ask = Ask(
            role=_DEVELOPER,
            task_instruction="initiative",
            subject="Develop the quoted thought for later into one proposal.",
            work=(WorkItem("THOUGHT_SEED", seed.text, ""),),
            form=proposal_form(most),
            max_tokens=most,
            turn_id=seed.seed_id,
        )
        return (await self._speaker.say(ask, call)).text

    async def _vote(self, seed: Seed, proposal: str, call: RequestContext) -> VoteRecord:
        _, record = await self._deciding.decide(
            seed.tenant,
            _MATTER,
            _DEVELOPER,
            "Whether the quoted proposal, made of a thought for later, is worth it.",
            call,
            turn_id=seed.seed_id,
            work=[WorkItem("PROPOSAL", proposal, _DEVELOPER)],
        )
        return record

    async def _giving_way(self, call: RequestContext, work: ModelCall[T]) -> T:
        """The work's result, unless somebody has to be given way to meanwhile. Raises _GaveWay, and what it raises."""
        if reason := self._must_stop():
            raise _GaveWay(reason)
        self._speaker.allow()
        task = self._tasks.start("ask", _caught(work))
        self._asking = (call, task)
        try:
            await asyncio.wait({task})
        finally:
            self._asking = None
        if task.cancelled():
            raise _GaveWay(self._must_stop() or "a person began to speak")
        result, error = task.result()
        if error is not None and call.cancelled:
            raise _GaveWay(self._must_stop() or "a person began to speak") from error
        if error is not None:
            raise error
        return result[0]

    async def _keep(self, seed: Seed, run: SeedRun, ending: Ending, meter: Meter) -> None:
        """The audit's row, and the memory's page when there was a vote."""
        call = RequestContext(seed.tenant, None, Priority.BACKGROUND, seed.seed_id)
        body = audited(seed, run, ending, meter.spent)
        await self._audit.append("council.initiative", _DEVELOPER, body, call)
        if ending.decided:
            await self._remember(remembered(seed, run, ending, to_iso(self._clock.now())), call)

    async def _settle(self, seed: Seed, run: SeedRun, ending: Ending, meter: Meter) -> None:
        proposal_id = ending.vote.proposal_id if ending.vote else ""
        await self._store.settle(
            run,
            ending.state,
            ending.outcome,
            ending.why,
            meter.spent,
            proposal_id=proposal_id,
            failed=ending.failed,
        )
        await self._account.refresh()
        await self._floor.post(
            seed.tenant,
            sender="gaiad",
            role="initiative",
            type="INFO",
            content=told(seed, ending),
            turn_id=seed.seed_id,
        )

    def _obstacle(self) -> str:
        """Why nothing may be taken up now; "" when something may."""
        if reason := self._must_stop():
            return reason
        able = voters(self._floor.seats())
        if len(able) < self._rules.quorum_roles:
            return f"{len(able)} roles can vote, and a quorum is {self._rules.quorum_roles}"
        if _DEVELOPER not in able:
            return f"{_DEVELOPER} is not there"
        busy = [role for role in ROLES if role in able and not self._floor.is_free(role)]
        return f"{', '.join(busy)} is at work" if busy else ""

    def _must_stop(self) -> str:
        if self._closed:
            return "gaiad stops"
        if not self._settings.enabled:
            return "initiative.enabled is off"
        return "a person is being answered" if self._persons else ""

    def _stop_asking(self) -> None:
        self._speaker.stop()
        if self._asking is not None:
            call, task = self._asking
            call.cancel()
            task.cancel()

    def _reserve(self, seed: Seed) -> int:
        """The most that a run on this thought can write, everybody's ballot included."""
        ballots = len(ROLES) * self._ballot_tokens
        return ballots if seed.proposal else ballots + self._numbers.develop_tokens


async def _caught(work: ModelCall[T]) -> tuple[tuple[T, ...], GaiadError | None]:
    """The result or the error we know of: whoever asked tells of it, not the group of tasks."""
    try:
        return (await work(),), None
    except GaiadError as error:
        return (), error
