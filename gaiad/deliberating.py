"""Opens what the council does in its room: votes, reviews of commands, governance, the initiative, turns."""

from collections.abc import Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from council.balloting import Balloting
from council.execute_review import ExecuteReview
from council.floor import Speaker
from council.governance.ports import Fits
from council.initiative.initiative import Initiative
from council.initiative.opening import open_initiative
from council.initiative.seed_store import APPLICATION_ID, MIGRATIONS
from council.limits import CouncilLimits, council_limits
from council.roles import CouncilStage, RoleTable
from gaiad.clock import Clock
from gaiad.config import Config
from gaiad.convening import Convened, with_settings
from gaiad.council_ports import Approvals
from gaiad.events import EventHub
from gaiad.governing import Governing, open_governance
from gaiad.ledger.tenant_files import TenantFiles
from gaiad.ports import Archive, Scheduler
from gaiad.store.file import DatabaseFile
from gaiad.turn.company import Company
from gaiad.turn.speaking import RoleSpeaker

_SEEDS = "seeds"


@dataclass(frozen=True)
class Deliberation:
    """What turns, intake and backups need of it."""

    company: Company
    governing: Governing
    initiative: Initiative
    seeds: TenantFiles
    ballotings: list[Balloting]
    speaker: RoleSpeaker

    def files(self) -> dict[str, DatabaseFile]:
        """What a backup copies: RFCs, reflections and thoughts for later."""
        return self.governing.files() | self.seeds.files()

    def use_config(self, config: Config) -> None:
        """Other stages, samplings, times, and the initiative's switch. Raises ConfigError and keeps the old ones."""
        self.company.use_config(config.council)
        roles = self.company.rules.roles
        self.speaker.roles = roles
        self.company.room.use(roles, config.council.depth)
        for balloting in self.ballotings:
            balloting.use(config.council.vote_s)
        self.initiative.apply(config.initiative)


async def open_deliberation(
    stack: AsyncExitStack,
    home: Path,
    environment: Mapping[str, str],
    config: Config,
    clock: Clock,
    parts: Convened,
    hub: EventHub,
    speaker: RoleSpeaker,
    archive: Archive,
    scheduler: Scheduler,
    protected: tuple[str, ...],
    fits: Fits,
    approvals: Approvals,
) -> Deliberation:
    """Everything closed by `stack`. `protected` are texts of the prompt that no proposal may show; `fits` says whether
    an identity fits the MTU. Raises Conflict.
    """
    limits = with_settings(council_limits(), config.council)
    balloting = _balloting(parts, speaker, limits, clock)
    stack.push_async_callback(balloting.close)
    governing = await open_governance(
        stack,
        home,
        clock,
        environment,
        audit=parts.audit,
        floor=parts.room,
        speaker=speaker,
        votes=balloting,
        hub=hub,
        initiative_every_s=config.initiative.every_s,
        rouse=parts.room.rouse,
        fits=fits,
    )
    ballotings = [balloting]

    def deciding_with(metered: Speaker) -> Balloting:
        ballotings.append(_balloting(parts, metered, limits, clock))
        return ballotings[-1]

    seeds = TenantFiles(home / _SEEDS, MIGRATIONS, APPLICATION_ID)
    stack.push_async_callback(seeds.close)
    initiative = await open_initiative(
        stack,
        files=seeds,
        floor=parts.room,
        speaker=speaker,
        deciding_with=deciding_with,
        audit=parts.audit,
        remember=archive.remember_turn,
        clock=clock,
        scheduler=scheduler,
        settings=config.initiative,
        protected=protected,
        looked=governing.reflections.initiative_looked,
    )
    parts.room.initiative = initiative.status
    company = _company(config, clock, parts, speaker, balloting, limits, governing, initiative, approvals)
    return Deliberation(company, governing, initiative, seeds, ballotings, speaker)


def _balloting(parts: Convened, speaker: Speaker, limits: CouncilLimits, clock: Clock) -> Balloting:
    room = parts.room
    return Balloting(room, speaker, room.voting, parts.audit, clock, limits.voting, rouse=room.rouse)


def _company(
    config: Config,
    clock: Clock,
    parts: Convened,
    speaker: Speaker,
    balloting: Balloting,
    limits: CouncilLimits,
    governing: Governing,
    initiative: Initiative,
    approvals: Approvals,
) -> Company:
    def reflect(stage: CouncilStage, outcome: str, confidence: float | None) -> Coroutine[Any, Any, None]:
        return governing.reflections.record(stage, outcome, confidence)

    def add_seed(tenant: str, text: str, turn_id: str) -> Coroutine[Any, Any, Any]:
        return initiative.add(tenant, text, turn_id)

    def review(roles: RoleTable) -> ExecuteReview:
        return ExecuteReview(parts.room, speaker, balloting, parts.audit, clock, roles, limits.execute)

    return Company(
        room=parts.room,
        turn_log=parts.turn_log,
        audit=parts.audit,
        speaker=speaker,
        review_with=review,
        person=initiative.person,
        add_seed=add_seed,
        reflect=reflect,
        config=config.council,
        approvals=approvals,
    )
