"""What the initiative needs of the daemon, in one struct."""

from collections.abc import Awaitable, Callable
from typing import Annotated

import msgspec

from constants.load import load
from council.balloting import Balloting
from council.initiative.seed_store import SeedStore
from council.observer_rules import ObserverTable
from council.ports import CouncilRoom, Speaker
from council.quorum import CouncilRules
from gaiad.base.clock import Clock
from gaiad.base.ports import Audit, RequestContext
from gaiad.wire.memory import SessionTurn

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


class InitiativeParts(msgspec.Struct, frozen=True, kw_only=True):
    """`ballot_tokens` is the longest ballot. `protected` are texts of the prompt that no proposal may show."""

    store: SeedStore
    floor: CouncilRoom
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
