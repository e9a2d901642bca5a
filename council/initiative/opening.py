"""Opens the initiative for a daemon: started after the council's room, closed before it."""

from contextlib import AsyncExitStack

from council.floor import Floor, Speaker
from council.initiative.initiative import Initiative
from council.initiative.numbers import InitiativeNumbers, initiative_numbers
from council.initiative.parts import DecidingWith, Looked, Parts, Remember
from council.initiative.seed_store import SeedFiles, SeedStore
from council.limits import council_limits
from council.observer_rules import observer_table
from council.quorum import council_rules
from gaiad.clock import Clock
from gaiad.config import InitiativeConfig
from gaiad.council_ports import Audit
from gaiad.ids import IdMaker
from gaiad.ports import Scheduler

WORK_NAME = "initiative"


async def open_initiative(
    stack: AsyncExitStack,
    *,
    files: SeedFiles,
    floor: Floor,
    speaker: Speaker,
    deciding_with: DecidingWith,
    audit: Audit,
    remember: Remember,
    clock: Clock,
    scheduler: Scheduler,
    settings: InitiativeConfig,
    protected: tuple[str, ...] = (),
    looked: Looked | None = None,
    numbers: InitiativeNumbers | None = None,
) -> Initiative:
    """The loop, registered with the scheduler and closed by `stack`; `files` belong to the caller.

    `files` are a database file a tenant, made with `seed_store.MIGRATIONS` and `seed_store.APPLICATION_ID`.
    `deciding_with` makes the rounds of voting over the Speaker it is given, which counts what they cost; they are
    closed with the loop. `protected` are texts of the prompt that no proposal may show. Raises Conflict, Unavailable.
    """
    numbers = numbers or initiative_numbers()
    store = SeedStore(files, clock, IdMaker(clock), numbers.most_open, numbers.thought_characters)
    parts = Parts(
        store=store,
        floor=floor,
        speaker=speaker,
        deciding_with=deciding_with,
        audit=audit,
        remember=remember,
        clock=clock,
        rules=council_rules(),
        numbers=numbers,
        observer=observer_table(),
        ballot_tokens=council_limits().voting.ballot_tokens,
        protected=protected,
        looked=looked,
    )
    initiative = Initiative(parts, settings)
    await initiative.start()
    stack.push_async_callback(initiative.close)
    scheduler.every(WORK_NAME, settings.every_s, initiative.look)
    return initiative
