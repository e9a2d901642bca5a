"""Who is there, kept current: every role's model is asked for a token when it is due, and changes are reported.

The arithmetic of beats is `heartbeat.py`'s; this is the loop around it. Each probe runs by itself and is given up well
before the next is due, so that one stopped worker delays nobody. A model that serves several roles is asked once for
all of them, and not at all when text it just wrote shows that it lives.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Protocol

import msgspec

from council.heartbeat import Heartbeat, State, StateChange
from council.limits import HeartbeatLimits
from council.roles import ROLES, Role
from gaiad.base.clock import Clock, to_iso
from gaiad.base.errors import BadInput, DeadlineExceeded, GaiadError
from gaiad.base.logs import get_logger
from gaiad.base.ports import Priority, RequestContext
from gaiad.base.tasks import TaskGroup

_PATIENCE = 2 / 3
"""A probe is given up after this share of an interval."""
_FRESH = 1 / 2
"""Text written within this share of an interval takes the place of a probe."""
_LOOKS = 30
"""So often in an interval it is looked whether something is due, or a model fell asleep."""

_log = get_logger("council.pulse")


class Member(Protocol):
    """The model of a role, as far as the council must know it."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str:
        """gguf, openai, scripted or extractive; the last cannot vote."""
        ...

    @property
    def state(self) -> str:
        """ready, sleeping, starting, inactive or failed."""
        ...

    @property
    def has_room(self) -> bool:
        """Awake, with a place for one more request, and nobody waiting for one."""
        ...

    @property
    def heard_at(self) -> float | None:
        """The monotonic second of the last text it wrote; None before any."""
        ...

    async def beat(self, call: RequestContext) -> float:
        """Milliseconds of one real token; wakes nothing. Raises GaiadError."""
        ...

    async def wake(self, call: RequestContext) -> None:
        """Load it when it sleeps, and wait until it answers. Raises GaiadError."""
        ...


class Beat(msgspec.Struct, frozen=True, kw_only=True):
    """A role showed that it lives; `ms` is what its token took, None when text it wrote for somebody showed it."""

    role: Role
    model: str
    ms: float | None


class Pulse:
    """The loop over a Heartbeat. `on_beat` and `on_change` are awaited in order, one at a time, beside the probes."""

    def __init__(
        self,
        members: Mapping[Role, Member],
        limits: HeartbeatLimits,
        clock: Clock,
        on_beat: Callable[[Beat], Awaitable[None]],
        on_change: Callable[[StateChange], Awaitable[None]],
    ) -> None:
        self._members = members
        self._limits = limits
        self._clock = clock
        self._on_beat, self._on_change = on_beat, on_change
        self._heartbeat = Heartbeat(members, clock.monotonic(), limits)
        self._patience_s = limits.interval_s * _PATIENCE
        self._given_up = f"it wrote no token in {self._patience_s:g} s"
        self._probes: dict[str, tuple[asyncio.Task[None], float]] = {}
        self._seen: dict[Role, str] = {}
        self._heard = asyncio.Event()
        self._beaten_at: dict[Role, str] = {}
        self._trouble: dict[str, str] = {}
        self._news: asyncio.Queue[Beat | StateChange] = asyncio.Queue()
        self._tasks = TaskGroup("council/pulse")

    # -- life

    def start(self) -> None:
        """Begin in the background: everybody is probed at once."""
        self.tick()
        self._tasks.start("tell", self._tell_all())
        self._tasks.start("loop", self._loop())

    async def close(self) -> None:
        """End the loop and the probes; what was not told yet is not told."""
        await self._tasks.stop()

    async def _loop(self) -> None:
        while True:
            await asyncio.sleep(self._limits.interval_s / _LOOKS)
            self.tick()

    def tick(self) -> None:
        """One look: begin the probes that are due, give up those that take too long, tell who fell silent or asleep."""
        self.look()
        now = self._clock.monotonic()
        due: dict[str, list[Role]] = defaultdict(list)
        for role in self._heartbeat.due(now):
            due[self._members[known_role(role)].name].append(known_role(role))
        for name, roles in due.items():
            self._probe(name, self._members[roles[0]], now)
        for name, (task, until) in self._probes.items():
            if now >= until and task.cancel():
                self._silent(name, self._given_up)
        for change in self._heartbeat.missed(now):
            self._tell(change)

    # -- looking

    def look(self) -> None:
        """Take note of models that fell asleep, were woken, or came up since; never waits."""
        now = self._clock.monotonic()
        for role, member in self._members.items():
            was, state = self._seen.get(role), member.state
            self._seen[role] = state
            if state != "sleeping":
                self._heartbeat.wake(role, now)
            elif self._heartbeat.state(role, now) != "sleeping":
                self._tell(self._heartbeat.sleep(role, now))
            if state == "ready" and was in ("starting", "inactive", "failed"):
                self._probe(member.name, member, now)

    async def settled(self, until: float) -> None:
        """Wait until no model is on its way that was not heard yet, at most until a monotonic second."""
        while self._coming() and (left_s := until - self._clock.monotonic()) > 0:
            heard = self._heard
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left_s, self._limits.interval_s / _LOOKS)):
                    await heard.wait()
            self.look()

    def _coming(self) -> bool:
        now = self._clock.monotonic()
        silent = (role for role in self._members if self._heartbeat.state(role, now) == "inactive")
        return any(self._members[role].state == "starting" or self._asked(role) for role in silent)

    def _asked(self, role: Role) -> bool:
        """Whether its model is up and being asked for its first token."""
        member = self._members[role]
        return self._heartbeat.last_beat(role) is None and member.state == "ready" and member.name in self._probes

    def state(self, role: Role) -> State:
        """The role's state at this moment (GCP 8.5)."""
        return self._heartbeat.state(role, self._clock.monotonic())

    def last_beat(self, role: Role) -> str:
        """When it last showed that it lives: UTC in ISO 8601, "" before the first time."""
        return self._beaten_at.get(role, "")

    def trouble(self, role: Role) -> str:
        """Why its last probe failed; "" when it did not."""
        return self._trouble.get(self._members[role].name, "")

    def sleepers(self) -> Sequence[Role]:
        """The roles that would count after a wake probe."""
        self.look()
        return tuple(known_role(role) for role in self._heartbeat.sleepers(self._clock.monotonic()))

    async def rouse(self, role: Role, call: RequestContext) -> None:
        """Wake a sleeper for a vote, and take its beat at once. Raises GaiadError when it cannot be woken."""
        member = self._members[role]
        left_s = None if call.deadline is None else call.deadline - self._clock.monotonic()
        try:
            async with asyncio.timeout(left_s):
                await member.wake(call)
                ms = await member.beat(call)
        except TimeoutError as error:
            raise DeadlineExceeded(f"{member.name}: was not awake in time for {role}'s vote") from error
        self._beaten(member, self._clock.monotonic(), ms)

    # -- probing

    def _probe(self, name: str, member: Member, now: float) -> None:
        heard = member.heard_at
        if heard is not None and now - heard <= self._limits.interval_s * _FRESH:
            self._beaten(member, heard, None)
        elif name not in self._probes:
            until = now + self._patience_s
            task = self._tasks.start(f"probe/{name}", self._ask(member, until))
            self._probes[name] = (task, until)
            task.add_done_callback(lambda _: self._probes.pop(name, None))

    async def _ask(self, member: Member, until: float) -> None:
        try:
            ms = await member.beat(RequestContext(deadline=until, priority=Priority.PERSON))
        except GaiadError as error:
            self._silent(member.name, self._given_up if isinstance(error, DeadlineExceeded) else error.message)
            return
        self._beaten(member, self._clock.monotonic(), ms)

    def _silent(self, name: str, reason: str) -> None:
        if self._trouble.get(name) != reason:
            _log.warning("no_heartbeat", model=name, reason=reason)
        self._trouble[name] = reason

    def _beaten(self, member: Member, at: float, ms: float | None) -> None:
        """It counts for every role that the model serves."""
        ago = timedelta(seconds=max(0.0, self._clock.monotonic() - at))
        self._trouble.pop(member.name, None)
        for role, other in self._members.items():
            if other.name == member.name:
                self._tell(self._heartbeat.beat(role, at))
                self._beaten_at[role] = to_iso(self._clock.now() - ago)
                self._news.put_nowait(Beat(role=role, model=member.name, ms=ms))
        self._heard.set()  # wakes all who wait for this beat; the next one has an event of its own
        self._heard = asyncio.Event()

    # -- telling

    def _tell(self, change: StateChange | None) -> None:
        if change is not None:
            _log.info("role_state", role=change.role, was=change.was, now=change.now)
            self._news.put_nowait(change)

    async def _tell_all(self) -> None:
        """One after the other; what could not be reported is logged, and the next is reported."""
        while True:
            news = await self._news.get()
            try:
                await (self._on_beat(news) if isinstance(news, Beat) else self._on_change(news))
            except GaiadError as error:
                _log.error("heartbeat_not_told", news=repr(news), error=error.message)
            finally:
                self._news.task_done()

    async def told(self) -> None:
        """Wait until everything so far was reported; for a caller that is about to close the receiver."""
        await self._news.join()


def known_role(role: str) -> Role:
    """The role of this name. Raises BadInput."""
    for known in ROLES:
        if known == role:
            return known
    raise BadInput(f"role {role!r}: no such role; there are {', '.join(ROLES)}")


def change_in_words(change: StateChange, title: str, trouble: str) -> str:
    """A role's new state as a sentence for people."""
    if change.now == "ready":
        return f"{title} is ready."
    if change.now == "sleeping":
        return f"{title} sleeps: its model was unloaded to save memory."
    silent = "" if change.silent_s is None else f" for {change.silent_s:.0f} s"
    why = f" ({trouble})" if trouble else ""
    return f"{title} is inactive: no heartbeat{silent}{why}."
