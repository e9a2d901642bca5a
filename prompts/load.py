"""Prompt texts are files, one per stage or judge; this fills their variables and refuses anything that does not fit.

A text starts with a head between two `---` lines: its version and the variables it takes. A variable is written
`{name}`. Every other brace is plain text, so JSON in a prompt needs no escapes, and a brace inside a value is never
read as a variable. A prompt with variables has a struct here whose fields are those variables, so that the type checker
holds the callers to it and `check_all` the files. Version and digest of each text behind a packet are recorded in its
manifest, so that a replay after an upgrade can name those that changed.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import get_args

import msgspec

from gaiad.base.errors import GaiadError
from prompts.packet import CognitionPacket, Method


class CompressorWords(msgspec.Struct, frozen=True, kw_only=True, tag="compressor"):
    """GCP 4.2's GAIA-Compressor."""

    target_tokens: str
    section: str


class IdentityWords(msgspec.Struct, frozen=True, kw_only=True, tag="identity"):
    """The packet's identity field (GCP 3.1)."""

    name: str
    traits: str
    rules: str
    precedence: str


class PersonaWords(msgspec.Struct, frozen=True, kw_only=True, tag="persona"):
    """The packet's persona field (GCP 3.2)."""

    tone: str
    style_notes: str
    constraints: str
    layers: str


class PersonaReviewWords(msgspec.Struct, frozen=True, kw_only=True, tag="persona_review"):
    """The judgement of a persona's free text (GCP 3.3)."""

    instruction: str
    rules: str
    fence: str
    persona: str


class PlanningWords(msgspec.Struct, frozen=True, kw_only=True, tag="research_planning"):
    """The researcher's plan (JIT)."""

    user_query: str
    known_pages: str


class ReflectionWords(msgspec.Struct, frozen=True, kw_only=True, tag="research_reflection"):
    """The researcher's reflection (GAM)."""

    user_query: str
    formatted_contexts: str


class SynthesisWords(msgspec.Struct, frozen=True, kw_only=True, tag="research_synthesis"):
    """The researcher's synthesis (GAM)."""

    user_query: str
    formatted_contexts_with_citations: str


Words = (
    CompressorWords
    | IdentityWords
    | PersonaWords
    | PersonaReviewWords
    | PlanningWords
    | ReflectionWords
    | SynthesisWords
)

USES: Mapping[str, type[Words]] = {str(words.__struct_config__.tag): words for words in get_args(Words)}
"""By prompt file: a struct's tag names it."""

_VARIABLE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_HEAD = re.compile(r"---\nversion: (\d+)\nvariables:([a-z0-9_, ]*)\n---\n")


class PromptText(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt file. `version` is recorded with what was made from it; `variables` are the names it must be given."""

    name: str
    version: int
    variables: frozenset[str]
    body: str


def prompt_names() -> list[str]:
    """The shipped prompts by file name without ending, sorted."""
    place = files("prompts") / "text"
    return sorted(entry.name.removesuffix(".md") for entry in place.iterdir() if entry.name.endswith(".md"))


@cache
def load_prompt(name: str) -> PromptText:
    """The prompt `name`. Raises GaiadError when there is no such file or its head and its text disagree."""
    if name not in prompt_names():
        raise GaiadError(f"prompt {name!r}: no such file in prompts/text; there are: {', '.join(prompt_names())}")
    return parse_prompt(name, (files("prompts") / "text" / f"{name}.md").read_text(encoding="utf-8"))


def parse_prompt(name: str, text: str) -> PromptText:
    """Read head and text. Raises GaiadError when a variable is used and not declared, or declared and not used."""
    head = _HEAD.match(text)
    if head is None:
        raise GaiadError(f"prompts/text/{name}.md: must start with ---, version: N, variables: a, b, ---")
    declared = frozenset(part.strip() for part in head[2].split(",") if part.strip())
    body = text[head.end() :]
    used = frozenset(_VARIABLE.findall(body))
    _refuse(f"prompts/text/{name}.md", "used in the text but not declared in its head", used - declared)
    _refuse(f"prompts/text/{name}.md", "declared in its head but not used in the text", declared - used)
    return PromptText(name=name, version=int(head[1]), variables=declared, body=body)


def check_all() -> list[PromptText]:
    """Load every shipped prompt and hold it against its use; raises GaiadError on the first that does not fit."""
    prompts = [load_prompt(name) for name in prompt_names()]
    check_uses(prompts)
    return prompts


def check_uses(prompts: list[PromptText]) -> None:
    """Raises GaiadError for a prompt that takes a variable nobody gives, leaves out a given one, or is not there."""
    remedy = "restore the shipped file or reinstall gaiad"
    for prompt in prompts:
        given = frozenset(USES[prompt.name].__struct_fields__) if prompt.name in USES else frozenset()
        where = f"prompts/text/{prompt.name}.md"
        _refuse(where, f"is never given; the variables are: {_listed(given)}; {remedy}", prompt.variables - given)
        _refuse(where, f"is given and not taken; {remedy}", given - prompt.variables)
    if absent := sorted(USES.keys() - {prompt.name for prompt in prompts}):
        raise GaiadError(f"prompts/text/{absent[0]}.md: is not there; reinstall gaiad")


def fill(words: Words) -> str:
    """The prompt that takes these words (`prompts.load`), filled in. Raises GaiadError when the file takes others."""
    return render(load_prompt(str(words.__struct_config__.tag)), msgspec.structs.asdict(words))


def render(prompt: PromptText, values: Mapping[str, str]) -> str:
    """The text with its variables filled in once, values as they are. Raises GaiadError on a missing or unknown one."""
    _refuse(f"prompt {prompt.name!r}", "missing", prompt.variables - values.keys())
    unknown = values.keys() - prompt.variables
    _refuse(f"prompt {prompt.name!r}", f"unknown; it takes: {_listed(prompt.variables)}", unknown)
    return _VARIABLE.sub(lambda found: values[found[1]], prompt.body)


def _listed(names: frozenset[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _refuse(where: str, why: str, names: frozenset[str] | set[str]) -> None:
    if names:
        raise GaiadError(f"{where}: variable {', '.join(sorted(names))} {why}")


_DIGITS = 16
_WRITTEN_BY_MODELS: frozenset[Method] = frozenset({"lite", "prime"})


def prompts_in(packet: CognitionPacket, methods: Iterable[Method]) -> dict[str, str]:
    """Name -> version and digest of every prompt file behind the packet; `methods` are those of its fields."""
    names = ["identity", "quoted_memory"]
    names += ["persona"] if packet.persona else []
    names += ["compressor"] if _WRITTEN_BY_MODELS & set(methods) else []
    key = packet.task_instruction_key
    said = {f"role_{packet.role}": packet.role_text}
    said |= {f"{kind}_{key}": packet.task_instruction for kind in ("stage", "judge")}
    names += [name for name, text in said.items() if name in _shipped() and _body(name) == text]
    return {name: prompt_mark(name) for name in sorted(names)}


def changed_prompts(recorded: Mapping[str, str]) -> list[str]:
    """The names of `recorded` whose text is another now or gone, sorted."""
    return sorted(name for name, mark in recorded.items() if name not in _shipped() or prompt_mark(name) != mark)


@cache
def prompt_mark(name: str) -> str:
    """The prompt's version and the beginning of its text's SHA-256: `3-0f1e...`. Raises GaiadError for no such file."""
    prompt = load_prompt(name)
    return f"{prompt.version}-{hashlib.sha256(prompt.body.encode()).hexdigest()[:_DIGITS]}"


def _body(name: str) -> str:
    return load_prompt(name).body.rstrip("\n")


@cache
def _shipped() -> frozenset[str]:
    return frozenset(prompt_names())
