"""What follows when a stage has ended (GCP 6's failure modes): a published table, counted over the turn's past. Pure.

Two caps end every turn: stage calls and tokens. Who takes an escalation is escalation's, which role is in roles'.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from constants.load import load
from council.limits import TurnCaps
from council.roles import CouncilStage
from council.stage_output import Outcome
from gaiad.base.errors import BadInput

Action = Literal[
    "go_on", "retry", "stand_in", "interrupt", "escalate", "high_risk", "revert_and_alert", "unverified", "finish",
    "stop",
]  # fmt: skip
OUTCOMES: dict[CouncilStage, tuple[Outcome, ...]] = {
    "plan": ("ok", "missing", "lost"),
    "refine": ("ok", "low_confidence", "missing", "lost"),
    "observe": ("ok", "interrupt", "unreadable", "lost"),
    "act": ("ok", "empty", "interrupted", "exec_error", "lost"),
    "verify": ("success", "unproven", "fail", "missing", "lost"),
}
_CALLS_A_MODEL = ("go_on", "retry", "stand_in", "interrupt", "escalate")


class StepRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From the `times`-th of these outcomes in a row on, this action."""

    stage: CouncilStage
    outcomes: Annotated[tuple[Outcome, ...], msgspec.Meta(min_length=1)]
    action: Action
    why: Annotated[str, msgspec.Meta(min_length=1)]
    times: Annotated[int, msgspec.Meta(ge=1)] = 1


class StepTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """constants/stage_steps.toml."""

    rows: tuple[StepRow, ...]


class StageDone(msgspec.Struct, frozen=True, kw_only=True):
    """A stage call that ended: `tokens` is what it wrote. `lost` is a role that died, stopped or was too slow."""

    stage: CouncilStage
    outcome: Outcome
    tokens: int = 0


class NextStep(msgspec.Struct, frozen=True, kw_only=True):
    """What to do next, on which stage (None where the turn ends), and why, for people."""

    action: Action
    stage: CouncilStage | None
    why: str


def step_table() -> StepTable:
    """The shipped failure modes."""
    return load("stage_steps.toml", StepTable)


def next_step(
    table: StepTable, chain: Sequence[CouncilStage], history: Sequence[StageDone], caps: TurnCaps
) -> NextStep:
    """What follows the last of `history`, all stage calls of this turn in order; `chain` are the depth's stages.

    Observe runs beside Act: its go_on lets the text go on, its interrupt stops it, and neither is a round of the turn;
    its tokens count. Raises BadInput for an empty history or an outcome the stage does not have.
    """
    if not history:
        raise BadInput("no stage has ended yet; begin with the first of the chain")
    row = _row(table, history)
    done = history[-1]
    if done.stage == "observe":
        return NextStep(action=row.action, stage="act", why=row.why)
    if row.action == "go_on" and (following := _following(chain, done.stage)) is None:
        return NextStep(action="finish", stage=None, why=row.why)
    if row.action in _CALLS_A_MODEL and (spent := spent_cap(history, caps)):
        return NextStep(action="stop", stage=None, why=f"{row.why}, and {spent}")
    if row.action in ("revert_and_alert", "unverified", "stop"):
        return NextStep(action=row.action, stage=None, why=row.why)
    return NextStep(action=row.action, stage=following if row.action == "go_on" else done.stage, why=row.why)


def spent_cap(history: Sequence[StageDone], caps: TurnCaps) -> str:
    """Which cap of the turn is reached, in words; "" when none is."""
    rounds = sum(done.stage != "observe" for done in history)
    tokens = sum(done.tokens for done in history)
    if rounds >= caps.max_rounds:
        return f"the turn has had its {caps.max_rounds} stage calls"
    if tokens >= caps.max_tokens:
        return f"the turn has written {tokens} of its {caps.max_tokens} tokens"
    return ""


def times_in_a_row(history: Sequence[StageDone], stage: CouncilStage, outcomes: Sequence[Outcome]) -> int:
    """How often the stage ended so at the end of the past, without an other end of it in between."""
    count = 0
    for done in reversed(history):
        if done.stage == stage:
            if done.outcome not in outcomes:
                break
            count += 1
    return count


def _row(table: StepTable, history: Sequence[StageDone]) -> StepRow:
    done = history[-1]
    if done.outcome not in OUTCOMES[done.stage]:
        raise BadInput(f"{done.stage} never ends {done.outcome!r}; its ends are {', '.join(OUTCOMES[done.stage])}")
    rows = [row for row in table.rows if row.stage == done.stage and done.outcome in row.outcomes]
    fitting = [row for row in rows if times_in_a_row(history, row.stage, row.outcomes) >= row.times]
    return max(fitting, key=lambda row: row.times)


def _following(chain: Sequence[CouncilStage], stage: CouncilStage) -> CouncilStage | None:
    place = chain.index(stage) + 1 if stage in chain else len(chain)
    return chain[place] if place < len(chain) else None
