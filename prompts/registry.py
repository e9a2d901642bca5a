"""The registry: identity, personas and task instructions that are in force, shipped ones and the user's own (GCP 3, 5).

A `Registry` never changes. `RegistryWatch` holds the one in force, reads anew when files in the home change, and keeps
the last good one when they do not fit; it says what is wrong and where.
"""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

import msgspec

from gaiad.errors import BadInput, ConfigError, NotFound
from gaiad.ports import Call, Tokenizer
from prompts.identity import Identity, identity_text, shipped_identity
from prompts.persona import Persona, persona_text
from prompts.persona_review import review_persona
from prompts.registry_entries import (
    Entry,
    gather,
    instruction_warnings,
    no_more_faults,
    persona_faults,
    persona_warnings,
    shared_projects,
)
from prompts.registry_files import read_files, stamps
from prompts.registry_toml import Problem, Source, read_source
from prompts.task_instructions import LengthProblem, TaskInstruction, check_lengths, with_words

DEFAULT_PERSONA = "plain"


@dataclass(frozen=True, slots=True)
class Registry:
    """What is in force. `own_personas` are the home's; `warnings` name what in it seems to work against identity."""

    identity: Identity
    personas: Mapping[str, Persona]
    task_instructions: Mapping[str, TaskInstruction]
    own_personas: frozenset[str] = frozenset()
    warnings: tuple[Problem, ...] = ()

    @classmethod
    def load(cls, home: Path, identity: Identity | None = None) -> "Registry":
        """Shipped entries and the home's own under `identity`, by default the shipped one.

        Raises ConfigError with every problem, file and line, when one file does not fit.
        """
        reading = read_registry(home, identity or shipped_identity())
        if reading.problems:
            raise ConfigError("; ".join(map(str, reading.problems)))
        return reading.registry

    def identity_text(self) -> str:
        """The text of the packet's identity field."""
        return identity_text(self.identity)

    def persona(self, name: str) -> Persona:
        """Raises NotFound naming the nearest."""
        if name not in self.personas:
            raise NotFound(f"no persona is called {name!r}; {_nearest(name, self.personas)}")
        return self.personas[name]

    def persona_text(self, name: str) -> str:
        """The text of the packet's persona field. Raises NotFound."""
        return persona_text(self.persona(name))

    def grants(self, name: str) -> frozenset[str]:
        """What the persona may do (constants/grants.toml), never what identity denies. Raises NotFound."""
        return frozenset(tool for tool in self.persona(name).tools if self.identity.denying(tool) is None)

    def persona_in_force(self, chosen: str = "", project: str = "") -> str:
        """The persona of a session by name: the one it chose, else its project's, else the default.

        Raises NotFound, and BadInput for a persona that belongs to other projects.
        """
        if not chosen:
            return next((name for name, each in self.personas.items() if project in each.projects), DEFAULT_PERSONA)
        persona = self.persona(chosen)
        if persona.scope == "project" and project not in persona.projects:
            raise BadInput(f"persona {chosen!r} is for {', '.join(persona.projects)} only; choose another")
        return chosen

    def task_instruction(self, key: str) -> TaskInstruction:
        """Raises NotFound naming the nearest."""
        if key not in self.task_instructions:
            raise NotFound(f"no task instruction has the key {key!r}; {_nearest(key, self.task_instructions)}")
        return self.task_instructions[key]


class Reading(msgspec.Struct, frozen=True):
    """A registry of the files that fit, and what is wrong with the others."""

    registry: Registry
    problems: tuple[Problem, ...]


class Reload(msgspec.Struct, frozen=True):
    """What came of reading anew: whether the new set is in force, why not, and what to look at all the same."""

    loaded: bool
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]


def read_registry(home: Path, identity: Identity) -> Reading:
    """Everything that fits: faulty files of the home are left out and complained of.

    Raises ConfigError only for a shipped file, which nothing can stand in for.
    """
    found = read_files(home)
    taken: dict[str, Entry] = {}
    shipped = _shipped_personas(identity, taken)
    personas, faults = gather(found.sources["personas"], Persona, taken, persona_faults(identity))
    shared = shared_projects(personas)
    faulty = {taken[name].source.file for name in shared}
    personas = {name: each for name, each in personas.items() if taken[name].source.file not in faulty}
    instructions, more_faults, more_warnings = _instructions(found.sources["task_instructions"])
    problems = [*found.problems, *faults, *_located(taken, shared.items()), *more_faults]
    said = ((name, warning) for name, each in personas.items() for warning in persona_warnings(identity, each))
    warnings = (*_located(taken, said), *more_warnings)
    registry = Registry(
        identity, MappingProxyType(shipped | personas), MappingProxyType(instructions), frozenset(personas), warnings
    )
    return Reading(registry, tuple(problems))


def _instructions(sources: list[Source]) -> tuple[dict[str, TaskInstruction], list[Problem], list[Problem]]:
    """Shipped and own task instructions by key, faults and warnings of the own."""
    taken: dict[str, Entry] = {}
    entries = _shipped("task_instructions.toml")
    entries = msgspec.structs.replace(entries, table=with_words(entries.file, entries.table))
    shipped, faults = gather([entries], TaskInstruction, taken, no_more_faults)
    _refuse(faults)
    own, faults = gather(sources, TaskInstruction, taken, no_more_faults)
    said = ((key, warning) for key, each in own.items() for warning in instruction_warnings(each))
    return shipped | own, faults, _located(taken, said)


async def check_task_lengths(
    registry: Registry, tokenizers: Mapping[str, Tokenizer], call: Call
) -> list[LengthProblem]:
    """Task instructions that are too long in any of the tokenizers, by model name (GCP 5.1). Raises as they do."""
    return await check_lengths(registry.task_instructions, tokenizers, call)


class RegistryWatch:
    """Holds the registry in force for a home. For one thread; `refresh` before a turn costs microseconds."""

    def __init__(self, home: Path, identity: Identity | None = None) -> None:
        """Reads at once. With faulty files in the home the others are in force; `problems` says so."""
        self._home = home
        self._identity = identity or shipped_identity()
        self._stamps = stamps(home)
        reading = read_registry(home, self._identity)
        self._registry = reading.registry
        self._problems = reading.problems

    @property
    def registry(self) -> Registry:
        """The last good set."""
        return self._registry

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Why the files as they are now are not what is in force; empty when they are."""
        return self._problems

    def persona_in_force(self, chosen: str = "", project: str = "") -> str:
        """As Registry's. Raises BadInput too, with the fault, for a persona that the home has and that was refused."""
        try:
            return self._registry.persona_in_force(chosen, project)
        except NotFound as error:
            personas = [each for each in self._problems if Path(each.file).parent.name == "personas"]
            if about := [str(each) for each in personas if each.entry == chosen]:
                raise BadInput(f"persona {chosen!r} is not in force: {'; '.join(about)}") from error
            if personas:
                raise NotFound(f"{error.message}; not all of your personas are in force: {personas[0]}") from error
            raise

    def refresh(self) -> Reload | None:
        """Read anew when a file was added, changed or removed since; None when none was."""
        return None if stamps(self._home) == self._stamps else self.reload()

    def reload(self) -> Reload:
        """Read anew. One problem and everything stays as it was."""
        self._stamps = stamps(self._home)
        reading = read_registry(self._home, self._identity)
        self._problems = reading.problems
        if not reading.problems:
            self._registry = reading.registry
        return Reload(not reading.problems, reading.problems, reading.registry.warnings)


def _shipped(name: str) -> Source:
    file = f"constants/{name}"
    source = read_source(file, (files("constants") / name).read_bytes())
    if isinstance(source, Problem):
        raise ConfigError(f"{source}; restore the shipped file or reinstall gaiad")
    return source


def _shipped_personas(identity: Identity, taken: dict[str, Entry]) -> dict[str, Persona]:
    """Those that identity permits: one that was changed by governance may deny more than the shipped one."""
    personas, faults = gather([_shipped("personas.toml")], Persona, taken, persona_faults(shipped_identity()))
    _refuse(faults)
    if DEFAULT_PERSONA not in personas:
        raise ConfigError(f"constants/personas.toml: has no persona {DEFAULT_PERSONA!r}; restore the shipped file")
    return {
        name: persona
        for name, persona in personas.items()
        if all(finding.severity != "refused" for finding in review_persona(persona, identity))
    }


def _refuse(faults: list[Problem]) -> None:
    if faults:
        raise ConfigError(f"{faults[0]}; restore the shipped file or reinstall gaiad")


def _located(taken: Mapping[str, Entry], messages: Iterable[tuple[str, str]]) -> list[Problem]:
    return [taken[name].source.problem((name,), f"{name}: {message}") for name, message in messages]


def _nearest(name: str, known: Mapping[str, object]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(known))}"
