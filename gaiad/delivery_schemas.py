"""What leaves the house for a channel with an outside, and what came of it: for router, ledger and command line."""

from typing import Literal

import msgspec

from gaiad.schemas import Output

DeliveryState = Literal["waiting", "delivered", "refused"]


class Parcel(Output, frozen=True):
    """One message of a block on its way out: the `piece` numbered from 0 of the `block` numbered from 0 of a turn.

    `address` is a place in the channel; what is sent there stays in order. `after` is what it answers, in the
    outside's own ids, "" for nothing.
    """

    id: str
    tenant: str
    channel: str
    address: str
    turn_id: str
    block: int
    piece: int
    marker: str
    text: str
    after: str = ""


class Open(msgspec.Struct, frozen=True, kw_only=True):
    """A parcel that is not delivered; `tried` when an earlier attempt may have come through unseen."""

    parcel: Parcel
    tried: bool


class Receipt(Output, frozen=True):
    """What became of one block of a turn in one channel. `state` is waiting until every piece is out.

    `outside_ids` are the outside's names of the messages, in order; `at` is the last change, UTC; `attempts` of all
    pieces together; `reason` why it waits or was refused, "" when it is delivered.
    """

    channel: str
    address: str
    block: int
    marker: str
    pieces: int
    state: DeliveryState
    at: str
    attempts: int = 0
    outside_ids: list[str] = msgspec.field(default_factory=list)
    reason: str = ""
