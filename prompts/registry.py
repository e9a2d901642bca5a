"""The registry: identity, personas and task instructions that are in force, shipped ones and the user's own (GCP 3, 5).

Every entry is checked, every fault has file and line, and a file with a fault gives nothing at all, so that nobody
works with half of what a file says. A `Registry` never changes. `RegistryWatch` holds the one in force, reads again
when files in the home change, and keeps the last good one when they do not fit.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from gaiad.base.errors import BadInput, ConfigError, NotFound
from prompts.identity import Identity, identity_text, known_grants, shipped_identity
from prompts.persona import Persona, persona_text, scope_fault, suspicions
from prompts.persona_review import review_persona
from prompts.registry_files import (
    RegistryFile,
    RegistryProblem,
    convert,
    read_files,
    read_source,
    stamps,
    text_fault,
    texts_in,
)
from prompts.task_instructions import TaskInstruction, with_words

T = TypeVar("T", bound=Persona | TaskInstruction)
Check = Callable[[RegistryFile, str, T], Iterator[RegistryProblem]]
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,47}")


class Entry(msgspec.Struct, frozen=True):
    """Where a name was taken."""

    source: RegistryFile
    name: str


def gather(
    sources: Sequence[RegistryFile], kind: type[T], taken: dict[str, Entry], check: Check[T] | None = None
) -> tuple[dict[str, T], list[RegistryProblem]]:
    """The entries of all faultless files by name, and the faults. `taken` has the names that are used up; it grows."""
    gathered: dict[str, T] = {}
    problems: list[RegistryProblem] = []
    for source in sources:
        entries, faults = _read_entries(source, kind, taken, check)
        problems += faults
        if not faults:
            gathered |= entries
            taken |= {name: Entry(source, name) for name in entries}
    return gathered, problems


def _read_entries(
    source: RegistryFile, kind: type[T], taken: dict[str, Entry], check: Check[T] | None = None
) -> tuple[dict[str, T], list[RegistryProblem]]:
    entries: dict[str, T] = {}
    faults: list[RegistryProblem] = []
    for name, value in source.table.items():
        fault = _name_fault(name, value, taken)
        if fault:
            faults.append(source.problem((name,), fault))
            continue
        entry = convert(source, (name,), value, kind)
        if isinstance(entry, RegistryProblem):
            faults.append(entry)
        else:
            faults += [*_hidden_text(source, name, entry), *(check(source, name, entry) if check else ())]
            entries[name] = entry
    return entries, faults


def _name_fault(name: str, value: object, taken: dict[str, Entry]) -> str:
    if not isinstance(value, dict):
        return f"{name} is not inside a table; write a line such as [my_name] above it"
    if not _NAME.fullmatch(name):
        return f"the name {name!r} must be of a to z, 0 to 9, - and _, begin with a letter and have 48 at most"
    if name in taken:
        first = taken[name].source.problem((name,), "")
        return f"the name {name!r} is taken by {first.file}:{first.line}; choose another"
    return ""


def _hidden_text(source: RegistryFile, name: str, entry: Persona | TaskInstruction) -> Iterator[RegistryProblem]:
    builtins: Any = msgspec.to_builtins(entry)
    for path, text in texts_in(builtins):
        fault = text_fault(text)
        if fault:
            yield source.problem((name, *path), f"{'.'.join((name, *path))} {fault}")


def persona_faults(identity: Identity) -> Check[Persona]:
    """The check of one persona: scope, tools that exist, tools that identity does not deny."""

    def check(source: RegistryFile, name: str, persona: Persona) -> Iterator[RegistryProblem]:
        fault = scope_fault(persona)
        if fault:
            yield source.problem((name, "scope" if persona.scope == "project" else "projects"), f"{name}: {fault}")
        for tool in persona.tools:
            if tool not in known_grants():
                near = _nearest(tool, known_grants())
                yield source.problem((name, "tools"), f"{name}: no tool is called {tool!r}; {near}")
        for finding in review_persona(persona, identity):
            if finding.severity == "refused":
                yield source.problem((name, "tools"), f"{name}: {finding.reason}")

    return check


def shared_projects(personas: dict[str, Persona]) -> dict[str, str]:
    """Name -> fault of every persona that claims a project which a persona before it has."""
    owners: dict[str, str] = {}
    faults: dict[str, str] = {}
    for name, persona in personas.items():
        for project in persona.projects:
            owner = owners.setdefault(project, name)
            if owner != name:
                faults[name] = f"the project {project!r} has the persona {owner!r} already; remove it from one of them"
    return faults


DEFAULT_PERSONA = "plain"


@dataclass(frozen=True, slots=True)
class Registry:
    """What is in force. `own_personas` are the home's; `warnings` name what in it seems to work against identity."""

    identity: Identity
    personas: Mapping[str, Persona]
    task_instructions: Mapping[str, TaskInstruction]
    own_personas: frozenset[str] = frozenset()
    warnings: tuple[RegistryProblem, ...] = ()

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


class LoadedRegistry(msgspec.Struct, frozen=True):
    """A registry of the files that fit, and what is wrong with the others."""

    registry: Registry
    problems: tuple[RegistryProblem, ...]


class Reload(msgspec.Struct, frozen=True):
    """What came of reading again: whether the new set is in force, why not, and what to look at all the same."""

    loaded: bool
    problems: tuple[RegistryProblem, ...]
    warnings: tuple[RegistryProblem, ...]


def read_registry(home: Path, identity: Identity) -> LoadedRegistry:
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
    found_in = ((name, one) for name, each in personas.items() for one in review_persona(each, identity))
    said = ((name, one.reason) for name, one in found_in if one.severity == "warning")
    warnings = (*_located(taken, said), *more_warnings)
    registry = Registry(
        identity, MappingProxyType(shipped | personas), MappingProxyType(instructions), frozenset(personas), warnings
    )
    return LoadedRegistry(registry, tuple(problems))


def _instructions(
    sources: list[RegistryFile],
) -> tuple[dict[str, TaskInstruction], list[RegistryProblem], list[RegistryProblem]]:
    """Shipped and own task instructions by key, faults and warnings of the own."""
    taken: dict[str, Entry] = {}
    entries = _shipped("task_instructions.toml")
    entries = msgspec.structs.replace(entries, table=with_words(entries.file, entries.table))
    shipped, faults = gather([entries], TaskInstruction, taken)
    _refuse(faults)
    own, faults = gather(sources, TaskInstruction, taken)
    found_in = ((key, one) for key, each in own.items() for one in suspicions(each.text))
    said = ((key, f'"{one.words}" seems to work against the rule {one.rule}') for key, one in found_in)
    return shipped | own, faults, _located(taken, said)


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

    def identity_text(self) -> str:
        """As Registry's."""
        return self._registry.identity_text()

    @property
    def problems(self) -> tuple[RegistryProblem, ...]:
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
        """Read again when a file was added, changed or removed since; None when none was."""
        return None if stamps(self._home) == self._stamps else self.reload()

    def reload(self) -> Reload:
        """Read again. One problem and everything stays as it was."""
        self._stamps = stamps(self._home)
        reading = read_registry(self._home, self._identity)
        self._problems = reading.problems
        if not reading.problems:
            self._registry = reading.registry
        return Reload(not reading.problems, reading.problems, reading.registry.warnings)


def _shipped(name: str) -> RegistryFile:
    file = f"constants/{name}"
    source = read_source(file, (files("constants") / name).read_bytes())
    if isinstance(source, RegistryProblem):
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


def _refuse(faults: list[RegistryProblem]) -> None:
    if faults:
        raise ConfigError(f"{faults[0]}; restore the shipped file or reinstall gaiad")


def _located(taken: Mapping[str, Entry], messages: Iterable[tuple[str, str]]) -> list[RegistryProblem]:
    return [taken[name].source.problem((name,), f"{name}: {message}") for name, message in messages]


def _nearest(name: str, known: Mapping[str, object]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(known))}"
