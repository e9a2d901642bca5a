"""Which model a run thinks with: the one of a role, when it writes text and is there; else the rules, and why."""

from collections.abc import Collection
from typing import Any

from gaiad.clock import Clock
from gaiad.ports import Archive, Call
from gaiad.research.thinking.asking import Asking, Limits, Mind
from gaiad.research.thinking.by_model import ByModel
from gaiad.research.thinking.steps import ByRules, Steps
from gaiad.research.trail import Trail
from gaiad.run_events import OnEvent

_USABLE = ("ready", "sleeping")  # a sleeper is woken by the first call


class Thinker:
    """Begins the steps of runs on `mind`. `most` is how many pages it is shown."""

    def __init__(self, mind: Mind, limits: Limits, clock: Clock, most: int) -> None:
        self._mind = mind
        self._limits = limits
        self._clock = clock
        self._most = most

    def begin(
        self,
        archive: Archive,
        call: Call,
        trail: Trail,
        on_event: OnEvent,
        passed_over: Collection[str],
    ) -> Steps:
        """The steps of one run; what its calls take is added to the trail."""
        if self._mind.kind == "extractive":
            return ByRules()
        status = self._mind.status()
        if status.state not in _USABLE:
            why = f" ({status.reason})" if status.reason else ""
            return ByRules([f"thinking by rules: {self._mind.name} is {status.state}{why}"])

        def tell(name: str, **data: Any) -> None:
            on_event(name, data)

        asking = Asking(self._mind, self._limits, self._clock, call, trail.spent, tell)
        return ByModel(asking, archive, call, trail, self._clock.zone, self._most, passed_over)
