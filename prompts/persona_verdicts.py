"""Verdicts on the user's own personas, asked for once: a model is slow, and a persona is used at every turn."""

from gaiad.ports import Call, Model
from prompts.identity import identity_digest
from prompts.persona import Persona
from prompts.persona_review import Finding, judge_persona
from prompts.registry import Registry

INSTRUCTION_KEY = "persona_review"
MOST_KEPT = 256


class PersonaVerdicts:
    """Remembers what was found by the persona's words, identity, directive and model; a change of any asks again."""

    def __init__(self) -> None:
        self._found: dict[tuple[Persona, str, str, str], list[Finding]] = {}

    async def findings(self, registry: Registry, name: str, prime: Model | None, call: Call) -> list[Finding]:
        """What speaks against the persona `name`; nothing against a shipped one. `prime` None: no model that reads.

        Raises NotFound, what the model raises, and Unavailable when its reply is no verdict; none of it is remembered.
        """
        persona = registry.persona(name)
        if name not in registry.own_personas:
            return []
        directive = registry.task_instruction(INSTRUCTION_KEY).text
        judge = "" if prime is None else prime.fingerprint
        key = (persona, identity_digest(registry.identity), directive, judge)
        if key not in self._found:
            found = await judge_persona(persona, registry.identity, directive, prime, call)
            if len(self._found) >= MOST_KEPT:
                self._found.clear()
            self._found[key] = found
        return list(self._found[key])
