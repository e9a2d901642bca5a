"""Personas (GCP 3.2, 3.3): tone, style and constraints for a session or a project, their words in the packet, and a
static look at their free text.

The look reads sentences, not meanings: wordings in English that work against a rule of identity, as data in constants,
and a count of the negations before each, so that "never make up facts" passes and "never hesitate to make up facts"
does not. It warns; whoever can read must decide.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Literal

import msgspec

from constants.load import load
from prompts.identity import Name
from prompts.load import PersonaWords, fill

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


_SENTENCE_END = re.compile(r"[.;:!?\n]+(?:\s|$)|\n+")
_PARENTHESIS = re.compile(r",\s*(?:under|at|in|by|for|even|of course|please|however)\b[^,]{0,40},")
_SPELT_OUT = re.compile(r"\b(?:\w[ \-_*]){3,}\w\b")
_LOOKALIKES = str.maketrans("авекмнорстухѕіјԁоαεικνορτυχ’‘`", "abekmhopctyxsijdoaeiknoptux'''")


class Wording(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row of constants/persona_wording.toml; what its keys mean is at the top of that file."""

    rule: str
    when: Literal["asked", "denied", "always"]
    first: tuple[str, ...]
    within: int
    then: tuple[str, ...] = ()


class Wordings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file: words that turn a sense around, how many words far, and the wordings."""

    negations: tuple[str, ...]
    negation_reach: int
    wordings: tuple[Wording, ...]


class Suspicion(msgspec.Struct, frozen=True):
    """A wording that was found: the rule it works against and the words as they were read."""

    rule: str
    words: str


def suspicions(text: str) -> list[Suspicion]:
    """What in the text seems to work against identity, each rule and wording once, in the order they stand."""
    found: dict[Suspicion, None] = {}
    for sentence in _sentences(text):
        for wording in load("persona_wording.toml", Wordings).wordings:
            for match in _pattern(wording).finditer(sentence):
                if wording.when == "always" or (wording.when == "denied") == _negated(sentence[: match.start()]):
                    found[Suspicion(wording.rule, match.group().strip())] = None
    return list(found)


def plain_letters(text: str) -> str:
    """The text as it looks: compatibility forms, accents, look-alike letters, hidden characters and case undone."""
    shown = "".join(part for part in unicodedata.normalize("NFKD", text) if not unicodedata.combining(part))
    visible = "".join(part for part in shown.casefold() if unicodedata.category(part) != "Cf")
    return _SPELT_OUT.sub(lambda found: re.sub(r"[ \-_*]", "", found.group()), visible.translate(_LOOKALIKES))


def _sentences(text: str) -> Iterator[str]:
    for sentence in _SENTENCE_END.split(plain_letters(text)):
        words = " ".join(_PARENTHESIS.sub(" ", sentence).split())
        if words:
            yield words


@cache
def _pattern(wording: Wording) -> re.Pattern[str]:
    first = rf"\b(?:{'|'.join(wording.first)})\b"
    if not wording.then:
        return re.compile(first)
    return re.compile(rf"{first}(?:\W+[\w'-]+){{0,{wording.within}}}?\W+(?:{'|'.join(wording.then)})\b")


@cache
def _negation() -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(load('persona_wording.toml', Wordings).negations)})\b")


def _negated(before: str) -> bool:
    """Whether an odd number of negations is in the last words before a wording, up to a comma."""
    clause = before.rpartition(",")[2].split()[-load("persona_wording.toml", Wordings).negation_reach :]
    return len(_negation().findall(" ".join(clause))) % 2 == 1
