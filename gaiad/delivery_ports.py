"""Ports of what leaves the house: a channel with an outside, and where its parcels and receipts stay."""

from collections.abc import Collection, Sequence
from typing import Protocol

from gaiad.delivery_schemas import Open, Parcel


class Channel(Protocol):
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


class Deliveries(Protocol):
    """Where parcels stay until they are delivered, and their receipts for good. All raise Unavailable."""

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

    async def begin(self, parcel: Parcel) -> None:
        """It is about to be tried."""
        ...

    async def failed(self, parcel: Parcel, reason: str) -> None:
        """The attempt came to nothing that is known of."""
        ...

    async def delivered(self, parcel: Parcel, outside_id: str) -> None: ...

    async def refused(self, parcel: Parcel, reason: str) -> None:
        """It never will be delivered."""
        ...

    async def known(self, parcel: Parcel) -> set[str]:
        """The outside's names of the last messages at the parcel's address."""
        ...
