"""Personas (GCP 3.2, 3.3): tone, style and constraints for a session or a project, and their words in the packet."""

from typing import Annotated, Literal

import msgspec

from prompts.identity import Name
from prompts.load import fill
from prompts.uses import PersonaWords

Line = Annotated[str, msgspec.Meta(min_length=1, max_length=160)]
Passage = Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]


class Layer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A passage that a persona adds: something to know, or a part to play."""

    name: Line
    text: Passage


class Persona(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One persona. `tools` are grants it adds, by name.

    A persona of scope `session` is in force in the session that chose it. One of scope `project` is in force in the
    sessions of its `projects` that chose none, and can be chosen nowhere else.
    """

    tone: Line
    style_notes: Passage
    constraints: Annotated[tuple[Line, ...], msgspec.Meta(max_length=16)] = ()
    context_layers: Annotated[tuple[Layer, ...], msgspec.Meta(max_length=8)] = ()
    roleplay_layers: Annotated[tuple[Layer, ...], msgspec.Meta(max_length=8)] = ()
    tools: tuple[Name, ...] = ()
    scope: Literal["session", "project"] = "session"
    projects: tuple[Line, ...] = ()


def persona_text(persona: Persona) -> str:
    """The words that stand in the packet's persona field; every value is on one line, behind its label."""
    layers = [f"Context, {one_line(layer.name)}: {one_line(layer.text)}" for layer in persona.context_layers]
    layers += [f"Role-play, {one_line(layer.name)}: {one_line(layer.text)}" for layer in persona.roleplay_layers]
    words = PersonaWords(
        tone=one_line(persona.tone),
        style_notes=one_line(persona.style_notes),
        constraints="; ".join(map(one_line, persona.constraints)) or "none",
        layers="\n".join(layers),
    )
    return fill(words).rstrip("\n")


def scope_fault(persona: Persona) -> str:
    """What is wrong with scope and projects, in words with the remedy; "" when nothing is."""
    if persona.scope == "project" and not persona.projects:
        return 'scope is "project" and no project is named; add projects = ["..."] or make the scope "session"'
    if persona.scope == "session" and persona.projects:
        return 'projects are named and the scope is "session"; make it "project" or remove projects'
    return ""


def one_line(text: str) -> str:
    """White space, line ends among it, as single spaces: no value can begin a line of the prompt."""
    return " ".join(text.split())
