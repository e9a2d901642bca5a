"""An initiative over a scripted council, real rounds of voting and a real database, with everything a test looks at."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from council.balloting import Balloting, Sleep
from council.initiative.initiative import Initiative
from council.initiative.seed_store import Seed
from council.limits import council_limits
from council.ports import Ask
from council.quorum import council_rules
from council.voting import Voting
from gaiad.base.clock import FrozenClock
from gaiad.base.config import InitiativeConfig
from gaiad.base.ports import RequestContext, Work
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.council import SeedRecord
from gaiad.wire.memory import SessionTurn
from tests.makers.scripted_council import ScriptedAudit, ScriptedFloor, ScriptedSpeaker

PROPOSAL = '{"proposal": "Ask which tram was meant.", "why": "Two are named."}'


def obliging(ask: Ask) -> str:
    """Develops everything and votes for everything."""
    return PROPOSAL if ask.task_instruction == "initiative" else ballot("yes")


def ballot(vote: str) -> str:
    return f'{{"vote": "{vote}", "confidence": 0.8, "reason": "so it seems"}}'


class Timer:
    """The Scheduler port: keeps what is registered."""

    def __init__(self) -> None:
        self.work: dict[str, tuple[float, Work]] = {}

    def daily(self, name: str, at: str, zone: str, work: Work) -> None:
        raise AssertionError(f"{name} is no daily work")

    def every(self, name: str, seconds: float, work: Work) -> None:
        self.work[name] = (seconds, work)


class House:
    """One life of the daemon over one home."""

    def __init__(self, home: Path, clock: FrozenClock) -> None:
        self.clock = clock
        self.home = home
        self.floor = ScriptedFloor(clock)
        self.speaker = ScriptedSpeaker(obliging)
        self.audit = ScriptedAudit()
        self.timer = Timer()
        self.remembered: list[tuple[str, SessionTurn]] = []
        self.looked: list[str] = []
        self.settings = InitiativeConfig(enabled=True, every_s=900.0, daily_tokens=20_000)
        self.sleep: Sleep = asyncio.sleep
        self.files = HomeDatabases(home)
        self.stack = AsyncExitStack()
        self.initiative: Initiative

    async def open(self) -> "House":
        self.stack.callback(self.files.close)
        limits = council_limits().voting
        voting = Voting(council_rules(), limits)
        self.initiative = Initiative(
            databases=self.files,
            floor=self.floor,
            speaker=self.speaker,
            deciding_with=lambda speaker: Balloting(
                self.floor, speaker, voting, self.audit, self.clock, limits, sleep=lambda s: self.sleep(s)
            ),
            audit=self.audit,
            remember=lambda turn, call: self.remember_turn(turn, call),
            clock=self.clock,
            settings=self.settings,
            looked=self._looked,
        )
        await self.initiative.open(self.stack, self.timer)
        return self

    async def add(self, text: str = "Ask about the tram.", tenant: str = "local") -> Seed:
        return await self.initiative.add(tenant, text, "turn_1")

    async def look(self) -> None:
        await self.initiative.look()

    async def seed(self, tenant: str = "local") -> SeedRecord:
        """The newest thought as it is now."""
        return (await self.initiative.seeds(tenant))[0]

    async def remember_turn(self, turn: SessionTurn, call: RequestContext) -> str:
        self.remembered.append((call.tenant, turn))
        return turn.turn_id

    async def _looked(self, failure: str) -> None:
        self.looked.append(failure)
