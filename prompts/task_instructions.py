"""Task instructions (GCP 5): one directive per stage or judge, and whether each is short enough in every vocabulary."""

import datetime
from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from gaiad.generation import Segment
from gaiad.ports import Call, Tokenizer

MOST_TOKENS = 64
Stage = Literal["plan", "refine", "observe", "act", "verify", "judge"]


class TaskInstruction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """GCP 5.1's entry. Stage `judge` is for texts that judge or rewrite and belong to none of GCP's five stages."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=600)]
    stage: Stage
    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=MOST_TOKENS)] = MOST_TOKENS
    last_updated: datetime.date


class LengthProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A directive that is longer than it may be. Where `exact` is false the tokens are an estimate."""

    key: str
    tokenizer: str
    tokens: int
    limit: int
    exact: bool

    def __str__(self) -> str:
        about = "" if self.exact else "about "
        over = self.tokens - self.limit
        return (
            f"task instruction {self.key!r}: {about}{self.tokens} tokens under {self.tokenizer}, "
            f"{over} above its {self.limit}; shorten its text"
        )


async def check_lengths(
    instructions: Mapping[str, TaskInstruction], tokenizers: Mapping[str, Tokenizer], call: Call
) -> list[LengthProblem]:
    """Every directive above its own limit under any of the named tokenizers; one request to each of them.

    Raises what the tokenizers raise: BadInput, Unavailable, WorkerDied, DeadlineExceeded, Cancelled.
    """
    problems: list[LengthProblem] = []
    keys = sorted(instructions)
    for name, tokenizer in tokenizers.items():
        counts = await tokenizer.count([[Segment(instructions[key].text)] for key in keys], call)
        problems += [
            LengthProblem(
                key=key, tokenizer=name, tokens=tokens, limit=instructions[key].max_tokens, exact=tokenizer.exact
            )
            for key, tokens in zip(keys, counts, strict=True)
            if tokens > instructions[key].max_tokens
        ]
    return problems
