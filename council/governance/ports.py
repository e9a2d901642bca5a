"""What governance asks of the parts around it: a round of votes, and whoever guards the identity."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

from council.ballots import Decision
from council.quorum import Matter
from gaiad.council_schemas import VoteRecord
from gaiad.governance_schemas import RfcRecord, RfcSignature
from gaiad.ports import Call
from prompts.packet import WorkItem

Fits = Callable[[str, Call], Awaitable[None]]
"""Raises TokenBudgetError for an identity (canonical text) that the next start could not put into a packet."""


class Votes(Protocol):
    """Rounds of voting among the roles."""

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
        """Without a quorum nobody is asked, and the decision says so."""
        ...


class Attached(msgspec.Struct, frozen=True, kw_only=True):
    """An attached identity that was checked: its canonical text."""

    text: str
    version: str
    digest: str


class Seal(Protocol):
    """Guards the identity in force, and knows the creator's signature."""

    def current(self) -> str:
        """The canonical text of the identity that is signed now."""
        ...

    def check(self, identity_toml: str) -> Attached:
        """Raises BadInput for a faulty identity, or one that is not above the version in force."""
        ...

    def admit(self, record: RfcRecord, signature: RfcSignature) -> str:
        """Check the creator's signature and put an attached identity in its place, in force from the next start.

        Returns what was done, in words. Raises Forbidden for a signature that is not the creator's, BadInput, Conflict.
        """
        ...
