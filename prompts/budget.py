"""How many tokens each field of a Cognition Packet may have (GCP 4.1). Pure: numbers in, numbers out.

Read so: identity min(256, 6 % of the MTU); persona min(128, 3 % of what remains); task instruction 64; of what remains
after these, the role's text and the chat template, history and retrieved context get 60 % together and the user prompt
the rest, with what the turn's stages wrote. The prompt is always whole: history and context give way to it before it is
refused.
"""

from collections.abc import Iterable
from typing import NamedTuple

from gaiad.errors import TokenBudgetError
from prompts.packet import FieldReport

IDENTITY_TOKENS, IDENTITY_PERCENT = 256, 6
PERSONA_TOKENS, PERSONA_PERCENT = 128, 3
TASK_INSTRUCTION_TOKENS = 64
PAYLOAD_PERCENT = 60
CONTEXT_PARTS = 3
TAIL_TOKENS = 96
"""By how much a stage's role text and task instruction may be longer than those of the turn's first packet."""


class Shares(NamedTuple):
    """Limits in tokens; together they are what history and context may have."""

    history: int
    context: int


def identity_limit(mtu: int) -> int:
    return min(IDENTITY_TOKENS, mtu * IDENTITY_PERCENT // 100)


def persona_limit(mtu: int, identity_tokens: int) -> int:
    return max(0, min(PERSONA_TOKENS, (mtu - identity_tokens) * PERSONA_PERCENT // 100))


def smallest_mtu(identity_tokens: int) -> int:
    """The smallest MTU whose limit holds an identity of so many tokens. Raises TokenBudgetError when none does."""
    if identity_tokens > IDENTITY_TOKENS:
        raise TokenBudgetError(
            f"the identity has {identity_tokens} tokens and is never compressed; no MTU allows more than "
            f"{IDENTITY_TOKENS}: shorten it by {identity_tokens - IDENTITY_TOKENS}",
            (("identity", identity_tokens, IDENTITY_TOKENS),),
        )
    return -(-identity_tokens * 100 // IDENTITY_PERCENT)


def check_identity(identity_tokens: int, mtu: int) -> None:
    """Raises TokenBudgetError naming the smallest MTU that would do when the identity does not fit this one."""
    limit = identity_limit(mtu)
    if identity_tokens > limit:
        raise TokenBudgetError(
            f"the identity has {identity_tokens} tokens, an MTU of {mtu} allows {limit}, and it is never compressed; "
            f"the smallest MTU that does is {smallest_mtu(identity_tokens)}",
            (("identity", identity_tokens, limit),),
        )


def payload_limit(mtu: int, bare_tokens: int, prompt_tokens: int, held_tokens: int = 0) -> int:
    """What history and context may have together, 0 or more.

    `bare_tokens` is the whole prompt without them, the template included; `prompt_tokens` the part of it that lives in
    the rest they leave: the user prompt and the stages' work. `held_tokens` stay free for work still to come, and the
    share leaves room for the longer end that a later stage's packet may have.
    """
    remaining = mtu - (bare_tokens - prompt_tokens) - (TAIL_TOKENS if held_tokens else 0)
    return max(0, min(remaining * PAYLOAD_PERCENT // 100, mtu - held_tokens - bare_tokens))


def share(limit: int, history_tokens: int, context_tokens: int) -> Shares:
    """Divide `limit` between what both would take: context at least a third when it has so much, history the rest."""
    if not context_tokens:
        return Shares(limit, 0)
    third = -(-limit // CONTEXT_PARTS)
    context = max(third, limit - history_tokens)
    return Shares(limit - min(context, context_tokens), context)


def too_long(mtu: int, rows: Iterable[FieldReport], remedy: str) -> TokenBudgetError:
    """The error for a packet that does not fit, on one line: what is too long, by how much, and all fields' tokens."""
    rows = list(rows)
    over = [row for row in rows if row.tokens > row.limit]
    what = " and ".join(
        f"{row.field} has {row.tokens} tokens and at most {row.limit} fit ({row.tokens - row.limit} too many)"
        for row in over
    )
    numbers = ", ".join(f"{row.field} {row.tokens}/{row.limit}" for row in rows)
    return TokenBudgetError(
        f"the packet does not fit an MTU of {mtu}: {what}; {remedy} [{numbers}]",
        tuple((row.field, row.tokens, row.limit) for row in rows),
    )
