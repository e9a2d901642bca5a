"""Who is there (GCP 8.2, 8.5; decision 5): beats of the roles on a monotonic clock that the caller passes in.

A role counts while its last beat is 90 s old or younger. One whose model was unloaded to save memory sleeps: it is not
probed, does not count, and counts again after the beat that a wake probe brings. Before its first beat a role is
inactive, for nobody has seen it. Probing, and what a state means for a vote, belong to others.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

from council.limits import HeartbeatLimits
from gaiad.base.errors import BadInput

State = Literal["ready", "sleeping", "inactive"]


class StateChange(msgspec.Struct, frozen=True, kw_only=True):
    """A role's state changed at a monotonic second; `silent_s` is the time since its last beat, None without one."""

    role: str
    at: float
    was: State
    now: State
    silent_s: float | None


class _Pulse:
    """One role: its last beat, its next probe, whether it sleeps, since when it is being woken, the state last told."""

    __slots__ = ("asleep", "last", "next_due", "told", "woken_at")

    def __init__(self, now: float) -> None:
        self.last: float | None = None
        self.next_due = now
        self.asleep = False
        self.woken_at: float | None = None
        self.told: State = "inactive"


class Heartbeat:
    """The pulses of some roles. Times are monotonic seconds and never go back. An unknown role raises BadInput."""

    def __init__(self, roles: Iterable[str], now: float, limits: HeartbeatLimits) -> None:
        self._limits = limits
        self._pulses = {role: _Pulse(now) for role in roles}

    def due(self, now: float) -> tuple[str, ...]:
        """The roles to probe now, each once an interval on a grid from the start; sleepers only when being woken.

        A caller that comes late is given one probe, not those it missed.
        """
        found = []
        for role, pulse in self._pulses.items():
            if now >= pulse.next_due and (not pulse.asleep or pulse.woken_at is not None):
                missed = int((now - pulse.next_due) // self._limits.interval_s)
                pulse.next_due += (missed + 1) * self._limits.interval_s
                found.append(role)
        return tuple(found)

    def beat(self, role: str, now: float) -> StateChange | None:
        """The role showed that it lives at `now`, which may lie back a little; the change when it counts again."""
        pulse = self._pulse(role)
        pulse.last = now if pulse.last is None else max(now, pulse.last)
        pulse.asleep, pulse.woken_at = False, None
        return self._tell(role, pulse, max(now, pulse.last))

    def sleep(self, role: str, now: float) -> StateChange | None:
        """Its model was unloaded on purpose."""
        pulse = self._pulse(role)
        pulse.asleep, pulse.woken_at = True, None
        return self._tell(role, pulse, now)

    def wake(self, role: str, now: float) -> bool:
        """Somebody needs a sleeper: it is due at once. False when it does not sleep or is being woken already."""
        pulse = self._pulse(role)
        if not pulse.asleep or pulse.woken_at is not None:
            return False
        pulse.woken_at = pulse.next_due = now
        return True

    def missed(self, now: float) -> tuple[StateChange, ...]:
        """The roles that fell silent for too long, each told once; a sleeper only when its wake probe had no answer."""
        changes = []
        for role, pulse in self._pulses.items():
            if pulse.asleep and self._overslept(pulse, now):
                pulse.asleep, pulse.woken_at = False, None
            if change := self._tell(role, pulse, now):
                changes.append(change)
        return tuple(changes)

    def state(self, role: str, now: float) -> State:
        """By the clock, whether or not `missed` was called: a beat too old never counts."""
        pulse = self._pulse(role)
        if pulse.asleep:
            return "inactive" if self._overslept(pulse, now) else "sleeping"
        if pulse.last is None or now - pulse.last > self._limits.inactive_after_s:
            return "inactive"
        return "ready"

    def last_beat(self, role: str) -> float | None:
        """The monotonic second of its last beat."""
        return self._pulse(role).last

    def sleepers(self, now: float) -> tuple[str, ...]:
        """The roles that would count after a wake probe."""
        return tuple(role for role in self._pulses if self.state(role, now) == "sleeping")

    def _overslept(self, pulse: _Pulse, now: float) -> bool:
        return pulse.woken_at is not None and now - pulse.woken_at > self._limits.inactive_after_s

    def _tell(self, role: str, pulse: _Pulse, now: float) -> StateChange | None:
        was, pulse.told = pulse.told, self.state(role, now)
        if was == pulse.told:
            return None
        silent = None if pulse.last is None else now - pulse.last
        return StateChange(role=role, at=now, was=was, now=pulse.told, silent_s=silent)

    def _pulse(self, role: str) -> _Pulse:
        if role not in self._pulses:
            raise BadInput(f"heartbeat of {role!r}: no such role; there are {', '.join(self._pulses)}")
        return self._pulses[role]
