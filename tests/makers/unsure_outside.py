"""An outside that cannot be relied on: a channel in memory that fails in every way a far service does, as told."""

import asyncio
from collections.abc import Collection

from gaiad.base.errors import BadInput, Unavailable
from gaiad.wire.council import Parcel


class UnsureOutside:
    """The Channel port. `faults` are used up one a call, then all goes well; `said` is what arrived, in order.

    lost: nothing arrived. silent: it arrived and the answer did not. hangs: it arrived and no answer ever comes.
    stuck: nothing arrived, and no answer ever comes. refused: this one never. broken: an error nobody foresaw.
    """

    name = "discord_chat"

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.said: list[tuple[str, str, str]] = []
        self.looked = 0
        self.sends = 0

    def texts(self, address: str = "a") -> list[str]:
        return [text for where, _, text in self.said if where == address]

    async def send(self, parcel: Parcel) -> str:
        self.sends += 1
        fault = self.faults.pop(0) if self.faults else ""
        await asyncio.sleep(0)
        if fault == "lost":
            raise Unavailable("connection refused", 0.0)
        if fault == "broken":
            raise RuntimeError("Session is closed")
        if fault == "refused":
            raise BadInput("the outside does not want it")
        if fault == "stuck":
            await asyncio.Event().wait()
        outside_id = str(len(self.said) + 1)
        self.said.append((parcel.address, outside_id, parcel.text))
        if fault == "silent":
            raise Unavailable("the answer was lost", 0.0)
        if fault == "hangs":
            await asyncio.Event().wait()
        return outside_id

    async def find(self, parcel: Parcel, known: Collection[str]) -> str:
        self.looked += 1
        found = (i for where, i, text in self.said if where == parcel.address and text == parcel.text)
        return next((outside_id for outside_id in found if outside_id not in known), "")
