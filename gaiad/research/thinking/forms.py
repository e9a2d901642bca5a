"""The forms of a model's replies: what each step may say, with bounds, and ids that can only be of the context."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from gaiad.contracts import struct_schema
from gaiad.research.plan import PlanAction
from gaiad.research.thinking.asking import Step

SENTENCE_CHARACTERS = 300
QUERY_CHARACTERS, NOTE_CHARACTERS = 160, 80
MOST_ACTIONS, MOST_HITS = 4, 24

PLAN = Step(name="planning", reply_tokens=512, share=0.25)
REFLECTION = Step(name="reflection", reply_tokens=384, share=0.35)
SYNTHESIS = Step(name="synthesis", reply_tokens=1024, share=1.0)

Aspect = Annotated[str, msgspec.Meta(min_length=1, max_length=80)]
Suggestion = Annotated[str, msgspec.Meta(min_length=1, max_length=120)]
Label = Annotated[str, msgspec.Meta(min_length=1, max_length=8)]
Query = Annotated[str, msgspec.Meta(max_length=QUERY_CHARACTERS)]
PageIds = Annotated[list[str], msgspec.Meta(max_length=4)]


class PlannedAction(PlanAction, frozen=True, kw_only=True, rename="camel"):
    """A PlanAction with the bounds that hold for a model."""

    query: Query = ""
    page_ids: PageIds = msgspec.field(default_factory=list)
    k: Annotated[int, msgspec.Meta(ge=1, le=MOST_HITS)] = 8
    note: Annotated[str, msgspec.Meta(max_length=NOTE_CHARACTERS)] = ""


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """JIT's plan: searches besides the question's own."""

    actions: Annotated[list[PlannedAction], msgspec.Meta(max_length=MOST_ACTIONS)]


class Reflection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """GAM 4's ReflectionResult as a model says it. A suggestion is what to search for next, in words."""

    is_sufficient: bool
    confidence: Annotated[float, msgspec.Meta(ge=0, le=1)]
    missing_aspects: Annotated[list[Aspect], msgspec.Meta(max_length=4)]
    refinement_suggestions: Annotated[list[Suggestion], msgspec.Meta(max_length=3)]


class Sentence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One sentence of an answer, and the labels of the passages that say it."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=SENTENCE_CHARACTERS)]
    sources: Annotated[list[Label], msgspec.Meta(min_length=1, max_length=3)]


class Synthesis(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """GAM 5's answer, sentence by sentence; without one the context does not answer."""

    sentences: Annotated[list[Sentence], msgspec.Meta(max_length=6)]


_SHARES = [step / 20 for step in range(21)]


def plan_schema(page_ids: Sequence[str], tools: Sequence[str]) -> dict[str, Any]:
    """A plan of these tools, whose page ids are some of those given."""
    return struct_schema(Plan, {"actions.pageIds": page_ids, "actions.tool": tools})


def reflection_schema() -> dict[str, Any]:
    """A reflection; its confidence is one of 21 steps, which is as fine as a model can say it."""
    schema = struct_schema(Reflection)
    schema["properties"]["confidence"] = {"enum": _SHARES}
    return schema


def synthesis_schema(labels: Sequence[str]) -> dict[str, Any]:
    """An answer whose sources are some of these labels."""
    return struct_schema(Synthesis, {"sentences.sources": labels})
