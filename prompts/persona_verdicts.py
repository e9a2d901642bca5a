"""Verdicts on the user's own personas, asked for once: a model is slow, and a persona is used at every turn.

A model that could give none is not asked again at every turn either, only after a while.
"""

from typing import TypeVar

from gaiad.base.clock import Clock
from gaiad.base.errors import BadInput, DeadlineExceeded, GaiadError, Unavailable
from gaiad.base.ports import Model, RequestContext
from prompts.identity import identity_digest
from prompts.persona import Persona
from prompts.persona_review import PersonaFinding, judge_persona
from prompts.registry import Registry

INSTRUCTION_KEY = "persona_review"
MOST_KEPT = 256
TRY_AGAIN_S = 60.0
_Value = TypeVar("_Value")
_Key = tuple[Persona, str, str, str]


class PersonaVerdicts:
    """Remembers what was found by the persona's words, identity, directive and model; a change of any asks again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._found: dict[_Key, list[PersonaFinding]] = {}
        self._failed: dict[_Key, tuple[float, str]] = {}

    async def findings(
        self, registry: Registry, name: str, prime: Model | None, call: RequestContext, *, dry_run: bool = False
    ) -> list[PersonaFinding]:
        """What speaks against the persona `name`; nothing against a shipped one. `prime` None: no model that reads.

        Raises NotFound, what the model raises, and Unavailable when its reply is not a verdict; the same again without
        asking it for TRY_AGAIN_S seconds. In a dry run nothing was asked, and nothing is remembered of it.
        """
        persona = registry.persona(name)
        if name not in registry.own_personas:
            return []
        directive = registry.task_instruction(INSTRUCTION_KEY).text
        judge = "" if prime is None else prime.fingerprint
        key = (persona, identity_digest(registry.identity), directive, judge)
        if key not in self._found:
            self._check_failed(key)
            try:
                found = await judge_persona(persona, registry.identity, directive, prime, call)
            except (Unavailable, BadInput, DeadlineExceeded) as error:
                if not dry_run:
                    self._failed = _room_in(self._failed) | {key: self._failure(error)}
                raise
            self._found = _room_in(self._found) | {key: found}
        return list(self._found[key])

    def _failure(self, error: GaiadError) -> tuple[float, str]:
        return self._clock.monotonic() + TRY_AGAIN_S, error.message

    def _check_failed(self, key: _Key) -> None:
        """Raises Unavailable for what failed a short while ago."""
        again_at, why = self._failed.get(key, (0.0, ""))
        left = again_at - self._clock.monotonic()
        if left > 0:
            raise Unavailable(f"{why}; it is asked again in {left:.0f} s", left)
        self._failed.pop(key, None)


def _room_in(known: dict[_Key, _Value]) -> dict[_Key, _Value]:
    return {} if len(known) >= MOST_KEPT else known
