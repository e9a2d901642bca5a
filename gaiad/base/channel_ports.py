"""Ports of channels outside: what sends parcels there, who speaks there, and where parcels and receipts stay."""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

import msgspec

from gaiad.wire.chat import ChatAnswer
from gaiad.wire.council import Open, Parcel


class OutsideChannel(Protocol):
    """A place outside that blocks are sent to, one message at a time; it cannot be relied on."""

    @property
    def name(self) -> str:
        """As the routing matrix has it."""
        ...

    async def send(self, parcel: Parcel) -> str:
        """What the outside calls the message now. May be given up at any point, and may then have come through.

        Raises Unavailable: not now. Raises BadInput, NotFound, Forbidden: this parcel never.
        """
        ...

    async def find(self, parcel: Parcel, known: Collection[str]) -> str:
        """What the outside calls the message, "" when it has none; those `known` are others. Raises as `send`."""
        ...


class IncomingMessage(msgspec.Struct, frozen=True, kw_only=True):
    """What an allowed person said: where an answer goes (`address`), and after which message."""

    message_id: str
    address: str
    text: str
    attachments: int = 0


class ChatBot(OutsideChannel, Protocol):
    """A channel where people also speak to gaiad; messages are within `limit`, `quiet` ones in small print."""

    @property
    def limit(self) -> int:
        """Characters of one message."""
        ...

    async def run(
        self, heard: Callable[[IncomingMessage], None], note: Callable[[str], None], connected: Callable[[], None]
    ) -> None:
        """Stay connected until cancelled. `note` gets what is wrong in words, "" when nothing is."""
        ...

    def hear_no_more(self) -> None:
        """From now on no message begins anything."""
        ...

    async def show_typing(self, address: str) -> None:
        """Until cancelled."""
        ...

    def block_messages(self, marker: str, text: str, *, quiet: bool) -> list[str]: ...

    def with_sources(self, messages: Sequence[str], answer: ChatAnswer) -> list[str]:
        """The last block of the answer with what it cites, and an earlier packet, below it."""
        ...


class Deliveries(Protocol):
    """Where parcels and receipts stay; `begin` comes before every attempt. All raise Unavailable."""

    async def add(self, parcels: Sequence[Parcel], most: int) -> None:
        """All of them or none, durable when this returns; one that is there already is not added again.

        Raises Unavailable when more than `most` would wait in the tenant.
        """
        ...

    async def places(self, channel: str) -> list[tuple[str, str]]:
        """Tenant and address of everything that waits."""
        ...

    async def waiting(self, channel: str) -> int:
        """How many parcels wait, of all tenants."""
        ...

    async def next(self, channel: str, tenant: str, address: str) -> Open | None:
        """The oldest that waits there."""
        ...

    async def begin(self, parcel: Parcel) -> None: ...

    async def failed(self, parcel: Parcel, reason: str) -> None: ...

    async def delivered(self, parcel: Parcel, outside_id: str) -> None: ...
    async def refused(self, parcel: Parcel, reason: str) -> None: ...

    async def known(self, parcel: Parcel) -> set[str]:
        """The outside's names of the last messages at the parcel's address."""
        ...
