"""What the initiative asks of the house around it, and what it stands on, in one struct."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

from council.ballots import Decision
from council.floor import Floor, Speaker
from council.initiative.numbers import InitiativeNumbers
from council.initiative.seed_store import SeedStore
from council.observer_rules import ObserverTable
from council.quorum import CouncilRules, Matter
from gaiad.clock import Clock
from gaiad.council_ports import Audit
from gaiad.council_schemas import VoteRecord
from gaiad.memory_schemas import SessionTurn
from gaiad.ports import Call
from prompts.packet import WorkItem


class Deciding(Protocol):
    """A round of voting from the proposal to its decision."""

    async def decide(
        self,
        tenant: str,
        matter: Matter,
        proposer: str,
        subject: str,
        call: Call,
        *,
        turn_id: str,
        instruction: str = "ballot",
        session_id: str = "",
        work: Sequence[WorkItem] = (),
    ) -> tuple[Decision, VoteRecord]:
        """Everybody who can vote is asked once."""
        ...

    async def close(self) -> None:
        """Stop everybody who is still asked."""
        ...


DecidingWith = Callable[[Speaker], Deciding]
"""Makes the rounds of voting whose ballots this Speaker gets."""
Remember = Callable[[SessionTurn, Call], Awaitable[str]]
"""Keeps a turn in the tenant's memory; its packet id."""
Looked = Callable[[str], Awaitable[None]]
"""Hears of every look while the loop is switched on: how it failed in words, "" when it did not."""


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """`ballot_tokens` is the longest ballot. `protected` are texts of the prompt that no proposal may show."""

    store: SeedStore
    floor: Floor
    speaker: Speaker
    deciding_with: DecidingWith
    audit: Audit
    remember: Remember
    clock: Clock
    rules: CouncilRules
    numbers: InitiativeNumbers
    observer: ObserverTable
    ballot_tokens: int
    protected: tuple[str, ...] = ()
    looked: Looked | None = None
