"""Which models are in memory at the same time. Pure: it decides, the pool does.

A model that is wanted and does not fit sends idle ones to sleep, the one least recently used first. Pinned models and
those that are answering stay. When that is not enough it is refused, with the numbers: a machine that swaps is worse.
"""

from collections.abc import Sequence

import msgspec

_MIB = 2**20
_TOO_LARGE = "raise models.memory_mib, lower its context, or choose a smaller model"


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """A model and the bytes it takes or will take: weights, context, buffers."""

    name: str
    bytes: int
    pinned: bool = False


class Resident(Need, frozen=True, kw_only=True):
    """One that is loaded: requests it is answering, and when it was last asked (monotonic seconds)."""

    running: int = 0
    last_used: float = 0.0


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """Who has to sleep so that the wanted one fits; or why it cannot have a place. `busy`: it could, a little later."""

    sleep: list[str] = []
    refusal: str = ""
    busy: bool = False


def make_room(wanted: Need, loaded: Sequence[Resident], budget: int) -> Room:
    """A place for `wanted` among `loaded` within `budget` bytes."""
    missing = sum(model.bytes for model in loaded) + wanted.bytes - budget
    if missing <= 0:
        return Room()
    idle = sorted((m for m in loaded if not m.pinned and not m.running), key=lambda model: model.last_used)
    chosen: list[Resident] = []
    for model in idle:
        if sum(one.bytes for one in chosen) < missing:
            chosen.append(model)
    spare = sum(one.bytes for one in chosen) - missing
    if spare < 0:
        return _refuse(wanted, loaded, budget)
    for model in chosen[:-1]:  # an early small one need not sleep when a later one alone gives enough
        if model.bytes <= spare:
            chosen.remove(model)
            spare -= model.bytes
    return Room(sleep=[model.name for model in chosen])


def place_at_start(needs: Sequence[Need], budget: int) -> tuple[list[str], dict[str, str]]:
    """Who is loaded at start, pinned first, then in the order given; and for the others why they sleep."""
    loaded: list[Resident] = []
    asleep: dict[str, str] = {}
    for need in sorted(needs, key=lambda need: not need.pinned):
        used = sum(model.bytes for model in loaded)
        if used + need.bytes <= budget:
            loaded.append(Resident(name=need.name, bytes=need.bytes, pinned=need.pinned))
        elif need.bytes > budget:
            asleep[need.name] = (
                f"needs about {_mib(need.bytes)} and the budget is {_mib(budget)}: it can never be loaded; {_TOO_LARGE}"
            )
        else:
            asleep[need.name] = (
                f"needs about {_mib(need.bytes)} and {_mib(max(0, budget - used))} of {_mib(budget)} are left; "
                "it is loaded when it is asked for"
            )
    return [model.name for model in loaded], asleep


def _refuse(wanted: Need, loaded: Sequence[Resident], budget: int) -> Room:
    kept = [model for model in loaded if model.pinned or model.running]
    taken = sum(model.bytes for model in kept)
    busy = any(not model.pinned for model in kept) and (
        wanted.bytes + sum(model.bytes for model in kept if model.pinned) <= budget
    )
    if wanted.bytes > budget:
        why, remedy = "", _TOO_LARGE
    else:
        parts = ", ".join(
            f"{model.name} ({'pinned' if model.pinned else 'answering'}, {_mib(model.bytes)})" for model in kept
        )
        why = f", of which {_mib(taken)} cannot be freed now: {parts}"
        remedy = "try again when it is done" if busy else "unpin one, raise models.memory_mib, or take a smaller model"
    text = f"{wanted.name} needs about {_mib(wanted.bytes)} and the budget is {_mib(budget)}{why}; {remedy}"
    return Room(refusal=text, busy=busy)


def _mib(count: int) -> str:
    return f"{count / _MIB:,.0f} MiB"
