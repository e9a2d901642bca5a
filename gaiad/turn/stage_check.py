"""What counts of a stage that only the council reads: whole steps that name something of the request, and a success by
a model that has shown that it tells right from wrong. Pure."""

from collections.abc import Collection

from msgspec import structs

from council.stages import STEP_CHARACTERS, Plan, RefinedPlan, Verification, verification_text
from gaiad.base.config import model_label
from gaiad.research.evidence import without_order
from gaiad.research.query import request_words
from gaiad.research.words import content_words, stem, stems
from gaiad.wire.generation import Contract

_BEGINNING = 4  # letters


def step_characters(contract: Contract | None) -> int:
    """How long a step can be in a reply that was held to this contract; one as long was cut there."""
    steps = contract.blocks[0].schema["properties"]["steps"] if contract and contract.blocks[0].schema else {}
    return int(steps["items"]["maxLength"]) if steps else STEP_CHARACTERS


def of_request(plan: Plan | RefinedPlan, request: str, longest: int) -> tuple[Plan | RefinedPlan | None, str]:
    """The plan's whole steps that share a word with the request, None when it has none; and what was left out.

    The order that it begins with is no such word: a step "answer" names nothing of "Answer with one number: ...". A
    request without such words, or in a script without spaces, says nothing of the steps.
    """
    plain = len(request.split()) > 1 or request.isascii()
    words = (content_words(without_order(request)) or content_words(request)) if plain else []
    asked = {stem(word) for word in words if word not in request_words()} or {stem(word) for word in words}
    kept = [step for step in plan.steps if len(step) < longest and (not asked or _shares(asked, stems(step)))]
    if len(kept) == len(plan.steps):
        return plan, ""
    left_out = f"{len(plan.steps) - len(kept)} of {len(plan.steps)} steps are cut or name nothing of the request"
    return (structs.replace(plan, steps=tuple(kept)) if kept else None), f"{left_out}; they were left out"


def _shares(asked: Collection[str], said: Collection[str]) -> bool:
    """Whether a stem of one side is one of the other, or a long one begins another: keep, keeper."""
    begins = [(one, two) for one in asked for two in said if min(len(one), len(two)) >= _BEGINNING]
    return not set(asked).isdisjoint(said) or any(a.startswith(b) or b.startswith(a) for a, b in begins)


def verdict_text(found: Verification, model: str, role: str, *, proven: bool) -> str:
    """The role's verdict as people and the next stage read it; `proven` is whether the model may verify, by figures."""
    if proven or found.outcome == "fail":
        return verification_text(found)
    return (
        f"unverified: {model_label(model)} says success ({found.summary}), but has not shown that it can tell; "
        f"gaiad models probe {role} measures it"
    )
