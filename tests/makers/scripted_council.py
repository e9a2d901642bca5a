"""A council without models: a floor that keeps what is posted, a speaker that says what it is told to say."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from council.envelope import Envelope, MessageType, make_envelope
from council.ports import Ask, RoleReply
from council.quorum import Seat
from council.roles import ROLES, Role
from gaiad.base.clock import Clock, to_iso
from gaiad.base.errors import Cancelled, GaiadError
from gaiad.base.ids import IdMaker
from gaiad.base.ports import RequestContext
from prompts.packet import RiskLevel

Script = Callable[[Ask], "str | GaiadError | Exception | None"]
"""The reply to an Ask; an error is raised, None never comes."""


class ScriptedFloor:
    """All roles are there and free unless a test says otherwise; `posts` has (tenant, envelope) in order."""

    def __init__(self, clock: Clock) -> None:
        self.away: set[str] = set()
        self.busy: set[str] = set()
        self.posts: list[tuple[str, Envelope]] = []
        self._clock = clock
        self._ids = IdMaker(clock)

    def seats(self) -> list[Seat]:
        return [Seat(role=role, active=role not in self.away) for role in ROLES]

    def is_free(self, role: Role) -> bool:
        return role not in self.busy | self.away

    def said(self, type: MessageType, tenant: str = "local") -> list[str]:
        """The contents of one type's messages."""
        return [envelope.content for whose, envelope in self.posts if envelope.type == type and whose == tenant]

    async def post(
        self,
        tenant: str,
        *,
        sender: str,
        role: str,
        type: MessageType,
        content: str,
        turn_id: str = "",
        parent: Envelope | None = None,
        confidence: float | None = None,
        risk_level: RiskLevel | None = None,
    ) -> Envelope:
        envelope = make_envelope(
            full_id=self._ids.make("msg"),
            timestamp=to_iso(self._clock.now()),
            sender=sender,
            role=role,
            type=type,
            content=content,
            parent=parent,
            confidence=confidence,
            risk_level=risk_level,
        )
        self.posts.append((tenant, envelope))
        return envelope


class ScriptedSpeaker:
    """`asks` has every Ask with its RequestContext; a reply costs `tokens` and takes `delay_s`.

    `running` is how many write now, `cancelled` how many were cut off.
    """

    def __init__(self, script: Script, tokens: int = 40) -> None:
        self.script = script
        self.tokens = tokens
        self.asks: list[tuple[Ask, RequestContext]] = []
        self.cancelled = 0
        self.running = 0
        self.delay_s = 0.0
        self.begun = asyncio.Event()

    async def say(self, ask: Ask, call: RequestContext) -> RoleReply:
        self.asks.append((ask, call))
        self.begun.set()
        self.running += 1
        try:
            return await self._reply(ask)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1

    async def _reply(self, ask: Ask) -> RoleReply:
        reply = self.script(ask)
        if isinstance(reply, Exception):
            raise reply
        if reply is None:
            await asyncio.Event().wait()
            raise Cancelled("nobody wakes this")
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        return said(reply, min(self.tokens, ask.max_tokens))


class ScriptedAudit:
    """The Audit port; `rows` has (kind, actor, body, tenant)."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, dict[str, Any], str]] = []

    async def append(self, kind: str, actor: str, body: Mapping[str, Any], call: RequestContext) -> int:
        self.rows.append((kind, actor, dict(body), call.tenant))
        return len(self.rows)


def said(text: str, tokens: int) -> RoleReply:
    return RoleReply(
        text=text,
        packet_id="cog_1",
        prompt_sha256="0" * 64,
        model="scripted",
        fingerprint="scripted",
        seed=1,
        prompt_tokens=100,
        cached_tokens=0,
        tokens=tokens,
        queue_ms=0.0,
        prefill_ms=0.0,
        decode_ms=0.0,
    )
