"""The five stage contracts of GCP 6 as data: inputs, directive, blocks, and the form a model's reply is held to.

A body is JSON that fits one of the structs here; what decides comes first in it, so that a reply cut at its limit still
says it. Reading replies, also of models that no grammar holds, is stage_output's; what happens next stage_steps'.
"""

from typing import Annotated, Any, Literal

import msgspec

from constants.load import load
from council.roles import CouncilStage
from gaiad.base.contracts import struct_schema
from gaiad.base.errors import BadInput
from gaiad.base.marker_forms import MARKERS as MARKERS
from gaiad.base.marker_forms import Marker as Marker
from gaiad.wire.generation import Block, Contract

SHARE_STEPS = tuple(step / 20 for step in range(21))
_CHARACTERS_PER_TOKEN = 2  # what a JSON body may count on
_TOKENS_PER_ITEM, _TOKENS_PER_STEP = 24, 64  # of a step, so that fewer are written rather than cut ones
_SHORTEST_ITEM = 24
_FRAME_CHARACTERS = 40


def fitted_schema(body: type[Any], max_tokens: int, item_tokens: int = _TOKENS_PER_ITEM) -> dict[str, Any]:
    """The struct's JSON Schema with lists and texts made shorter where `max_tokens` ask for it."""
    schema = struct_schema(body)
    room = max(_FRAME_CHARACTERS, max_tokens * _CHARACTERS_PER_TOKEN - _FRAME_CHARACTERS)
    for name, field in schema["properties"].items():
        if field.get("type") == "array":
            most = max(2, min(field["maxItems"], max_tokens // item_tokens))
            field["maxItems"] = most
            field["items"]["maxLength"] = min(field["items"]["maxLength"], max(_SHORTEST_ITEM, room // most))
        elif field.get("type") == "string" and "maxLength" in field:
            field["maxLength"] = min(field["maxLength"], room)
        elif field.get("type") == "number" and (field.get("minimum"), field.get("maximum")) == (0, 1):
            schema["properties"][name] = {"enum": list(SHARE_STEPS)}
    return schema


Depth = Literal["fast", "full"]
Input = Literal["user_prompt", "history", "context", "plan", "response", "executed"]
MOST_STEPS = 10
STEP_CHARACTERS = 200
SUMMARY_CHARACTERS = 400
MOST_ARGUMENTS = 32
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
StepText = Annotated[str, msgspec.Meta(min_length=1, max_length=STEP_CHARACTERS)]
Summary = Annotated[str, msgspec.Meta(min_length=1, max_length=SUMMARY_CHARACTERS)]


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """PLAN of the Plan stage: steps that can be checked."""

    steps: Annotated[tuple[StepText, ...], msgspec.Meta(min_length=1, max_length=MOST_STEPS)]


class RefinedPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """PLAN of the Refine stage with GCP's `confidence=x`."""

    confidence: Share
    steps: Annotated[tuple[StepText, ...], msgspec.Meta(min_length=1, max_length=MOST_STEPS)]


class Observation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an observer says of a window: whether to INTERRUPT, and why ("" when not)."""

    interrupt: bool
    reason: Annotated[str, msgspec.Meta(max_length=SUMMARY_CHARACTERS)]


class Verification(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """VERIFY: GCP's success/fail summary."""

    outcome: Literal["success", "fail"]
    summary: Summary


class Command(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """EXECUTE: one command as its exact arguments (decision 13). Empty arguments mean that none is wanted."""

    argv: Annotated[
        tuple[Annotated[str, msgspec.Meta(max_length=STEP_CHARACTERS)], ...], msgspec.Meta(max_length=MOST_ARGUMENTS)
    ]
    why: Annotated[str, msgspec.Meta(max_length=STEP_CHARACTERS)]


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """What Act wrote: the user's text, the commands it wants run, thoughts for later. `text` may be ""."""

    text: str
    commands: tuple[Command, ...] = ()
    seeds: tuple[str, ...] = ()


class StageEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row of GCP 6's table; `after_interrupt` is the directive when the stage is done again after an INTERRUPT,
    `with_commands` the one when it may ask for a command.
    """

    inputs: tuple[Input, ...]
    task_instruction: str
    markers: Annotated[tuple[Marker, ...], msgspec.Meta(min_length=1)]
    max_tokens: Annotated[int, msgspec.Meta(ge=16)]
    after_interrupt: str = ""
    with_commands: str = ""


class StageTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """constants/stages.toml."""

    stages: dict[CouncilStage, StageEntry]
    chains: dict[Depth, tuple[CouncilStage, ...]]


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """What a GenerateRequest is given: a contract of blocks, or the schema of a judgement that is not a block."""

    contract: Contract | None = None
    schema: dict[str, Any] | None = None


def stage_table() -> StageTable:
    """The shipped contracts."""
    return load("stages.toml", StageTable)


def stage_form(stage: CouncilStage, max_tokens: int, *, may_execute: bool = False) -> Form:
    """The form of a reply of at most `max_tokens`: JSON bodies are bounded so that usual text ends before that.

    Act writes plain text; with `may_execute` it must write an EXECUTE block, perhaps of no arguments, before its
    RESPONSE. Observe is held to a schema, for its INTERRUPT may be none. Raises BadInput for fewer than 16 tokens.
    """
    if max_tokens < 16:
        raise BadInput(f"{stage}: {max_tokens} tokens are too few for its form; give 16 or more")
    if stage == "observe":
        return Form(schema=fitted_schema(Observation, max_tokens))
    if stage == "act" and not may_execute:
        return Form()
    if stage == "act":
        command = Block(marker="EXECUTE", schema=fitted_schema(Command, max_tokens))
        return Form(contract=Contract(blocks=[command, Block(marker="RESPONSE")]))
    body, marker = _BODIES[stage]
    return Form(
        contract=Contract(blocks=[Block(marker=marker, schema=fitted_schema(body, max_tokens, _TOKENS_PER_STEP))])
    )


def plan_text(plan: Plan | RefinedPlan) -> str:
    """A plan as people and the next stage read it: a numbered list, and GCP's `confidence=x` at its end."""
    lines = [f"{number}. {step}" for number, step in enumerate(plan.steps, 1)]
    if isinstance(plan, RefinedPlan):
        lines.append(f"confidence={plan.confidence:g}")
    return "\n".join(lines)


def verification_text(found: Verification) -> str:
    """GCP's success/fail summary on one line."""
    return f"{found.outcome}: {found.summary}"


_BODIES: dict[CouncilStage, tuple[type[Any], Marker]] = {
    "plan": (Plan, "PLAN"),
    "refine": (RefinedPlan, "PLAN"),
    "verify": (Verification, "VERIFY"),
}
