"""What intake may ask of the council: who is there, what was said, how turns went. A part of `service`."""

import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec

from council.room import EVENT_KIND, ID_PREFIX, NO_WRITER, Room
from gaiad.base.clock import Clock
from gaiad.base.errors import BadInput, NotFound
from gaiad.base.events import Event, EventHub
from gaiad.base.ids import lowest, short
from gaiad.base.logs import get_logger
from gaiad.base.ports import RequestContext, Work
from gaiad.ledger.audit import AuditLog
from gaiad.ledger.council_log import CouncilLog
from gaiad.ledger.turn_log import TurnLog
from gaiad.wire.council import HOUSE, CouncilStatus, RateRequest, RoleState, StoredMessage, TurnRecord

BEGINNING = f"{ID_PREFIX}_"
"""Sorts before the id of every message."""
_FULL_ID = re.compile(rf"{BEGINNING}[0-9A-HJKMNP-TV-Z]{{0,26}}")
_DIGITS = re.compile(r"[0-9a-f]{8}")
_LOOKED_THROUGH = 1000  # messages back, for one that is named by its digits
_AT_ONCE = 500


class LogEvent(NamedTuple):
    """A piece of the followed log. `kind` is message, or following once all that was stored has been given.

    `full_id` is where a reader goes on after this piece; `data` the envelope, as JSON or as builtins.
    """

    kind: str
    full_id: str
    data: object


_log = get_logger("gaiad.council")


@dataclass(frozen=True)
class CouncilParts:
    """What the council sits on."""

    room: Room
    log: CouncilLog
    turn_log: TurnLog
    audit: AuditLog
    clock: Clock

    def degraded(self, tenants: Sequence[str]) -> list[str]:
        """A missing quorum, and what waits for the person's word in `tenants`; in words."""
        status = self.room.status(HOUSE)
        words = [] if status.quorum else _without_quorum(status.roles)
        told: set[str] = set()
        for tenant in tenants:
            waiting = [one for one in self.room.escalations(tenant) if one.message_id not in told]
            told |= {one.message_id for one in waiting}
            if waiting:
                words.append(_waiting(tenant, len(waiting), waiting[-1].why))
        return words

    async def forget_heartbeats(self, keep_days: int) -> int:
        """Delete heartbeats older than `keep_days`; how many. Raises Unavailable."""
        before = lowest(self.clock.now() - timedelta(days=keep_days), ID_PREFIX)
        return await self.log.prune_heartbeats(before)

    def forgetting(self, keep_days: Callable[[], int]) -> Work:
        """`forget_heartbeats` for a schedule, by the setting of the moment it runs."""

        async def forget() -> None:
            if forgotten := await self.forget_heartbeats(keep_days()):
                _log.info("heartbeats_forgotten", heartbeats=forgotten)

        return forget


class CouncilService:
    """The council as callers see it, each within the tenant of its call. `initiative` tells what its loop does,
    `abilities` what nobody in it can do.
    """

    def __init__(
        self,
        convened: CouncilParts,
        hub: EventHub,
        initiative: Callable[[str], dict[str, Any]],
        abilities: Callable[[], list[str]],
    ) -> None:
        self._room = convened.room
        self._log = convened.log
        self._turns = convened.turn_log
        self._hub = hub
        self._initiative = initiative
        self._abilities = abilities

    def status(self, call: RequestContext) -> CouncilStatus:
        """The council at a glance."""
        return msgspec.structs.replace(
            self._room.status(call.tenant), initiative=self._initiative(call.tenant), abilities=self._abilities()
        )

    # -- what was said

    async def messages(self, call: RequestContext, after: str, limit: int, *, heartbeats: bool) -> list[msgspec.Raw]:
        """Envelopes as JSON, oldest first: `limit` of those after the message `after`, without it the last `limit`.

        Raises NotFound, BadInput for an `after` that names no message.
        """
        found = await self._stored(call.tenant, await self._named(call.tenant, after), limit, heartbeats)
        return [msgspec.Raw(message.body) for message in found]

    async def follow(
        self, call: RequestContext, after: str, limit: int, *, heartbeats: bool
    ) -> AsyncGenerator[LogEvent, None]:
        """What is stored (with `after` all that came after it, else the last `limit`), then what is said, without end.

        Nothing is left out between the two and nothing given twice, also to a reader that is slower than the talk.
        Raises as `messages`.
        """
        position = self._hub.last_id
        cursor = await self._named(call.tenant, after)
        if not cursor:
            for message in await self._stored(call.tenant, "", limit, heartbeats):
                cursor = message.full_id
                yield _heard(message)
        else:
            async for heard in self._missed(call.tenant, cursor, heartbeats):
                cursor = heard.full_id
                yield heard
        cursor = cursor or BEGINNING
        yield LogEvent("following", cursor, {})
        async with aclosing(self._live(call.tenant, position, cursor, heartbeats)) as live:
            async for heard in live:
                yield heard

    async def _live(self, tenant: str, position: int, cursor: str, heartbeats: bool) -> AsyncGenerator[LogEvent, None]:
        """From the event hub; what its ring has lost already comes from the log."""
        async for event in self._hub.follow(position):
            if event.missed:
                async for heard in self._missed(tenant, cursor, heartbeats):
                    cursor = heard.full_id
                    yield heard
            elif _concerns(event, tenant, heartbeats) and event.data["full_id"] > cursor:
                cursor = event.data["full_id"]
                yield LogEvent("message", cursor, event.data)

    async def _missed(self, tenant: str, cursor: str, heartbeats: bool) -> AsyncGenerator[LogEvent, None]:
        """All that is stored after `cursor`."""
        while found := await self._log.after(tenant, cursor, _AT_ONCE, heartbeats=heartbeats):
            for message in found:
                yield _heard(message)
            cursor = found[-1].full_id

    async def _stored(self, tenant: str, after: str, limit: int, heartbeats: bool) -> list[StoredMessage]:
        """Oldest first; the last ones when `after` is ""."""
        if after:
            return await self._log.after(tenant, after, limit, heartbeats=heartbeats)
        return list(reversed(await self._log.newest(tenant, limit, heartbeats=heartbeats)))

    async def _named(self, tenant: str, name: str) -> str:
        """The full id of a message named by it or by the digits shown; "" stays. Raises NotFound, BadInput."""
        if not name or _FULL_ID.fullmatch(name):
            return name
        if not _DIGITS.fullmatch(name):
            raise BadInput(f"after = {name!r}: give a message's full id ({BEGINNING}...), or the eight digits shown")
        found: set[str] = set()
        for heartbeats in (False, True):
            newest = await self._log.newest(tenant, _LOOKED_THROUGH, heartbeats=heartbeats)
            found |= {message.full_id for message in newest if short(message.full_id) == name}
        if len(found) > 1:
            raise BadInput(f"{name}: these digits are ambiguous; give the full id: {', '.join(sorted(found))}")
        if not found:
            raise NotFound(f"no message among the last {_LOOKED_THROUGH:,} shows {name!r}; give its full id")
        return found.pop()

    # -- how turns went

    async def turn(self, name: str, call: RequestContext) -> TurnRecord:
        """The turn called `name`: its id, or the eight digits shown for it. Raises NotFound, BadInput for several."""
        return await self._turns.find(call.tenant, name)

    async def rate(self, request: RateRequest, call: RequestContext) -> TurnRecord:
        """Keep what the person thinks of an answer; reflections read it. Raises NotFound, BadInput, Conflict."""
        return await self._turns.rate(call.tenant, request.turn, request.rating)

    async def turns(self, call: RequestContext, limit: int, session_id: str = "") -> list[TurnRecord]:
        """The last turns, newest first; only of one session when it is given."""
        return await self._turns.newest(call.tenant, limit, session_id)


def _heard(message: StoredMessage) -> LogEvent:
    return LogEvent("message", message.full_id, msgspec.Raw(message.body))


def _concerns(event: Event, tenant: str, heartbeats: bool) -> bool:
    data: dict[str, Any] = event.data
    mine = event.kind == EVENT_KIND and event.tenant in (tenant, HOUSE)
    return mine and (heartbeats or data["type"] != "HEARTBEAT")


def _without_quorum(roles: Sequence[RoleState]) -> list[str]:
    """Why nobody is outvoted; nothing where no role was given a model that writes, for then none is expected."""
    writers = [role for role in roles if role.kind != NO_WRITER]
    if not writers:
        return []
    able = [role.role for role in roles if role.can_vote]
    who = f"only {able[0]} can vote" if able else "no role can vote"
    silent = [f"{role.role} is {role.state}" + (f" ({role.reason})" if role.reason else "") for role in writers]
    why = [words for role, words in zip(writers, silent, strict=True) if not role.can_vote]
    why += [f"{role.role} has no model that writes (roles.{role.role})" for role in roles if role.kind == NO_WRITER]
    return [
        f"the council has no quorum: {who}, and two are required; {'; '.join(why)}. Answers continue and say so, "
        "actions and governance wait"
    ]


def _waiting(tenant: str, number: int, why: str) -> str:
    what = "an escalation waits" if number == 1 else f"{number} escalations wait"
    return f"{what} for your word in {tenant}: {why}; see `gaiad council status --tenant {tenant}`"
