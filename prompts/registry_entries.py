"""From registry files to personas and task instructions: every entry checked, every fault with file and line.

A file with a fault gives nothing at all, so that nobody works with half of what a file says.
"""

import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from prompts.identity import Identity, known_grants
from prompts.persona import Persona, scope_fault
from prompts.persona_review import review_persona
from prompts.persona_wording import suspicions
from prompts.registry_toml import Problem, Source, convert, text_fault, texts_in
from prompts.task_instructions import TaskInstruction

T = TypeVar("T", bound=Persona | TaskInstruction)
Check = Callable[[Source, str, T], Iterator[Problem]]
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,47}")


class Entry(msgspec.Struct, frozen=True):
    """Where a name was taken."""

    source: Source
    name: str


def gather(
    sources: Sequence[Source], kind: type[T], taken: dict[str, Entry], check: Check[T]
) -> tuple[dict[str, T], list[Problem]]:
    """The entries of all faultless files by name, and the faults. `taken` has the names that are used up; it grows."""
    gathered: dict[str, T] = {}
    problems: list[Problem] = []
    for source in sources:
        entries, faults = _read_entries(source, kind, taken, check)
        problems += faults
        if not faults:
            gathered |= entries
            taken |= {name: Entry(source, name) for name in entries}
    return gathered, problems


def _read_entries(
    source: Source, kind: type[T], taken: dict[str, Entry], check: Check[T]
) -> tuple[dict[str, T], list[Problem]]:
    entries: dict[str, T] = {}
    faults: list[Problem] = []
    for name, value in source.table.items():
        fault = _name_fault(name, value, taken)
        if fault:
            faults.append(source.problem((name,), fault))
            continue
        entry = convert(source, (name,), value, kind)
        if isinstance(entry, Problem):
            faults.append(entry)
        else:
            faults += [*_hidden_text(source, name, entry), *check(source, name, entry)]
            entries[name] = entry
    return entries, faults


def _name_fault(name: str, value: object, taken: dict[str, Entry]) -> str:
    if not isinstance(value, dict):
        return f"{name} stands in no table; write a line such as [my_name] above it"
    if not _NAME.fullmatch(name):
        return f"the name {name!r} must be of a to z, 0 to 9, - and _, begin with a letter and have 48 at most"
    if name in taken:
        first = taken[name].source.problem((name,), "")
        return f"the name {name!r} is taken by {first.file}:{first.line}; choose another"
    return ""


def _hidden_text(source: Source, name: str, entry: Persona | TaskInstruction) -> Iterator[Problem]:
    builtins: Any = msgspec.to_builtins(entry)
    for path, text in texts_in(builtins):
        fault = text_fault(text)
        if fault:
            yield source.problem((name, *path), f"{'.'.join((name, *path))} {fault}")


def persona_faults(identity: Identity) -> Check[Persona]:
    """The check of one persona: scope, tools that exist, tools that identity does not deny."""

    def check(source: Source, name: str, persona: Persona) -> Iterator[Problem]:
        fault = scope_fault(persona)
        if fault:
            yield source.problem((name, "scope" if persona.scope == "project" else "projects"), f"{name}: {fault}")
        for tool in persona.tools:
            if tool not in known_grants():
                yield source.problem((name, "tools"), f"{name}: no tool is called {tool!r}; {_nearest(tool)}")
        for finding in review_persona(persona, identity):
            if finding.severity == "refused":
                yield source.problem((name, "tools"), f"{name}: {finding.reason}")

    return check


def no_more_faults(_source: Source, _name: str, _instruction: TaskInstruction) -> Iterator[Problem]:
    """The check of one task instruction: its struct says all that can be said without a tokenizer."""
    return iter(())


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


def persona_warnings(identity: Identity, persona: Persona) -> list[str]:
    """What the persona's free text seems to do, in words."""
    return [finding.reason for finding in review_persona(persona, identity) if finding.severity == "warning"]


def instruction_warnings(instruction: TaskInstruction) -> list[str]:
    """The same of a task instruction, which stands below identity as a persona does."""
    return [f'"{found.words}" seems to work against the rule {found.rule}' for found in suspicions(instruction.text)]


def _nearest(tool: str) -> str:
    close = difflib.get_close_matches(tool, list(known_grants()), n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(known_grants()))}"
