"""What each prompt text is given by the code that fills it, declared as data, so that a misfit shows at start.

A prompt with variables has a struct here, whose fields are those variables; whoever fills the prompt makes the struct,
so that the type checker holds the callers to it and `prompts.load.check_all` the files. All other prompts take none.
"""

from collections.abc import Mapping

import msgspec


class CompressorWords(msgspec.Struct, frozen=True, kw_only=True):
    """GCP 4.2's GAIA-Compressor."""

    target_tokens: str
    section: str


class IdentityWords(msgspec.Struct, frozen=True, kw_only=True):
    """The packet's identity field (GCP 3.1)."""

    name: str
    traits: str
    rules: str
    precedence: str


class PersonaWords(msgspec.Struct, frozen=True, kw_only=True):
    """The packet's persona field (GCP 3.2)."""

    tone: str
    style_notes: str
    constraints: str
    layers: str


class PersonaReviewWords(msgspec.Struct, frozen=True, kw_only=True):
    """The judgement of a persona's free text (GCP 3.3)."""

    instruction: str
    rules: str
    fence: str
    persona: str


class PlanningWords(msgspec.Struct, frozen=True, kw_only=True):
    """The researcher's plan (JIT)."""

    user_query: str
    known_pages: str


class ReflectionWords(msgspec.Struct, frozen=True, kw_only=True):
    """The researcher's reflection (GAM)."""

    user_query: str
    formatted_contexts: str


class SynthesisWords(msgspec.Struct, frozen=True, kw_only=True):
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

USES: Mapping[str, type[Words]] = {
    "compressor": CompressorWords,
    "identity": IdentityWords,
    "persona": PersonaWords,
    "persona_review": PersonaReviewWords,
    "research_planning": PlanningWords,
    "research_reflection": ReflectionWords,
    "research_synthesis": SynthesisWords,
}
