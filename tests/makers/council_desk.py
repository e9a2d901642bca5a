"""A council to be asked: a real room on real logs, whose models only beat; nobody takes turns in it."""

import asyncio
from contextlib import AsyncExitStack

from council.limits import council_limits
from council.quorum import council_rules
from council.roles import role_table
from council.room import Room
from gaiad.convening import Convened
from gaiad.counsel import Counsel
from gaiad.errors import Unavailable
from gaiad.events import EventHub
from gaiad.ledger.council_log import CouncilLog
from gaiad.ledger.turn_log import TurnLog


class Beating:
    """A member that is ready, or in whatever state it is given."""

    def __init__(self, name, kind="gguf", state="ready"):
        self.name, self.kind, self.state = name, kind, state
        self.has_room, self.heard_at = True, None

    async def beat(self, call):
        if self.state != "ready":
            raise Unavailable(f"{self.name}: {self.state}", 30.0)
        return 12.5

    async def wake(self, call):
        self.state = "ready"


class Desk:
    """`await open(**members)`, then `counsel`, `room`, `turn_log`; `say` posts. The hub keeps `kept` events."""

    def __init__(self, root, clock, kept=4096):
        self.root, self.clock, self.stack = root, clock, AsyncExitStack()
        self.hub = EventHub(clock, kept)

    async def open(self, **members):
        chosen = {role: members.get(role) or Beating(role) for role in ("prime", "lite", "codemind")}
        log = CouncilLog(self.root / "council", self.clock)
        self.stack.push_async_callback(log.close)
        self.turn_log = TurnLog(self.root / "turns", self.clock)
        self.stack.push_async_callback(self.turn_log.close)
        rules, limits = council_rules(), council_limits()
        self.room = Room(chosen, log, self.hub, self.clock, table=role_table(), rules=rules, limits=limits)
        self.stack.push_async_callback(self.room.close)
        await self.room.start()
        await self.beat()
        convened = Convened(room=self.room, log=log, turn_log=self.turn_log, audit=None, clock=self.clock)
        self.counsel = Counsel(convened, self.hub, lambda tenant: {"enabled": True, "open_seeds": len(tenant)})
        return self

    async def beat(self):
        """Let everything happen that is due now."""
        self.room.pulse.tick()
        for _ in range(5):
            await asyncio.sleep(0)
        await self.room.pulse.told()

    async def say(self, content, tenant="local", **options):
        options = {"sender": "lite", "role": "planner", "type": "INFO"} | options
        return await self.room.post(tenant, content=content, **options)
