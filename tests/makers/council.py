"""A council for tests: a floor that keeps what is posted, roles that say what they are given, time that is made up."""

import asyncio
import heapq
import itertools
from datetime import UTC, datetime

from council.envelope import make_envelope
from council.ports import RoleReply
from council.quorum import Seat
from gaiad.base.clock import FrozenClock, to_iso
from gaiad.base.errors import Unavailable
from gaiad.base.ids import IdMaker

ROLES = ("prime", "lite", "codemind")
_SETTLED = 40


class MadeTime(FrozenClock):
    """A clock that jumps to the next sleeper's time as soon as nothing else is left to do."""

    def __init__(self):
        super().__init__(datetime(2025, 12, 1, 12, 0, tzinfo=UTC))
        self._sleepers, self._numbers = [], itertools.count()

    async def sleep(self, seconds):
        awake = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.monotonic() + seconds, next(self._numbers), awake))
        await awake

    async def settle(self):
        """Let everything happen that is possible at this moment."""
        for _ in range(_SETTLED):
            await asyncio.sleep(0)

    async def run(self, work):
        """The result of `work`, however long that takes by this clock."""
        task = asyncio.get_running_loop().create_task(work)
        while True:
            await self.settle()
            if task.done():
                return task.result()
            self.step()

    async def pass_by(self, seconds):
        """Let so much time pass."""
        until = self.monotonic() + seconds
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= until:
            self.step()
            await self.settle()
        self.advance(until - self.monotonic())
        await self.settle()

    def step(self):
        """Wake the next sleeper."""
        assert self._sleepers, "nothing sleeps and nothing moves: it hangs"
        at, _, awake = heapq.heappop(self._sleepers)
        self.advance(max(0.0, at - self.monotonic()))
        if not awake.done():
            awake.set_result(None)


class MadeFloor:
    """Keeps what is posted. `active` roles are there, `able` ones write; a message of the type `full` fails."""

    def __init__(self, clock):
        self.clock, self.ids = clock, IdMaker(clock)
        self.posts, self.full = [], None
        self.active, self.able, self.free = set(ROLES), set(ROLES), set(ROLES)

    def seats(self):
        return [Seat(role=role, active=role in self.active, can_vote=role in self.able) for role in ROLES]

    def is_free(self, role):
        return role in self.free

    async def post(self, tenant, *, turn_id="", **fields):
        await asyncio.sleep(0)
        if self.full == fields["type"]:
            raise Unavailable("the disk is full; make room")
        made = make_envelope(full_id=self.ids.make("msg"), timestamp=to_iso(self.clock.now()), **fields)
        self.posts.append((tenant, turn_id, made))
        return made

    def of(self, kind):
        """The messages of one type, in order."""
        return [made for _, _, made in self.posts if made.type == kind]


class MadeAudit:
    """Rows in memory."""

    def __init__(self):
        self.rows = []

    async def append(self, kind, actor, body, call):
        await asyncio.sleep(0)
        self.rows.append((kind, actor, dict(body), call.tenant))
        return len(self.rows)

    def of(self, kind):
        return [(actor, body) for found, actor, body, _ in self.rows if found == kind]


class MadeSpeaker:
    """Roles that say what `words` has for them: a text, an error, either after a wait, or several; the last repeats."""

    def __init__(self, clock, **words):
        self.clock, self.words, self.asks, self.calls = clock, words, [], []

    async def say(self, ask, call):
        self.asks.append(ask)
        self.calls.append(call)
        script = self.words[ask.role]
        turn = script
        if isinstance(script, list):
            turn = script.pop(0) if len(script) > 1 else script[0]
        wait, text = turn if isinstance(turn, tuple) else (0, turn)
        if wait:
            await self.clock.sleep(wait)
        if isinstance(text, BaseException):
            raise text
        return said(text)


def said(text, tokens=7):
    return RoleReply(
        text=text, packet_id="pkt_1", prompt_sha256="0" * 64, model="made", fingerprint="made:1", seed=1,
        prompt_tokens=100, cached_tokens=90, tokens=tokens, queue_ms=0.0, prefill_ms=1.0, decode_ms=2.0,
    )  # fmt: skip


def ballot(vote="yes", confidence=0.8, reason="it is sound"):
    return f'{{"vote": "{vote}", "confidence": {confidence}, "reason": "{reason}"}}'
