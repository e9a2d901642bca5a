"""A council to be asked: a real room on real logs, whose models only beat; nobody takes turns in it."""

import asyncio
from contextlib import AsyncExitStack

from council.limits import council_limits
from council.quorum import council_rules
from council.roles import role_table
from council.room import Room
from gaiad.base.errors import Unavailable
from gaiad.base.events import EventHub
from gaiad.daemon.conversations import CouncilParts
from gaiad.ledger.council_log import CouncilLog
from gaiad.ledger.turn_log import TurnLog
from gaiad.service.council import CouncilService
from gaiad.store.home_databases import HomeDatabases


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
        databases = HomeDatabases(self.root)
        self.stack.callback(databases.close)
        log, self.turn_log = CouncilLog(databases, self.clock), TurnLog(databases, self.clock)
        rules, limits = council_rules(), council_limits()
        self.room = Room(chosen, log, self.hub, self.clock, table=role_table(), rules=rules, limits=limits)
        self.stack.push_async_callback(self.room.close)
        await self.room.start()
        await self.beat()
        self.convened = convened = CouncilParts(
            room=self.room, log=log, turn_log=self.turn_log, audit=None, clock=self.clock
        )
        initiative = lambda tenant: {"enabled": True, "open_seeds": len(tenant)}  # noqa: E731
        self.counsel = CouncilService(convened, self.hub, initiative, list)
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
