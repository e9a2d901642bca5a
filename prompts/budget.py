"""How many tokens each field of a Cognition Packet may have (GCP 4.1), and making those that every packet carries fit.

Read so: identity min(256, 6 % of the MTU); persona min(128, 3 % of what remains); task instruction 64; of what remains
after these, the role's text and the chat template, history and retrieved context get 60 % together and the user prompt
the rest, with what the turn's stages wrote. Identity and the user prompt are never touched: history and context give
way before the prompt is refused. Persona and task instruction are made shorter when they exceed their limits.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from gaiad.base.errors import BadInput, TokenBudgetError
from gaiad.base.ports import RequestContext, Tokenizer
from gaiad.wire.generation import ChatMessage, Segment
from prompts.compress import Compressor
from prompts.packet import (
    DEFAULT_MTU,
    CognitionPacket,
    ContextItem,
    Field,
    FieldReport,
    HistoryEntry,
    PromptManifest,
    RiskLevel,
    WorkItem,
)


class BuildRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Plain texts and numbers: the same request always gives the same packet.

    `model` is the target's fingerprint. `history` is the session's, oldest first; `context` what was found, best first.
    With `context_stays` it was found for earlier turns: a page leaves with the question it is before.
    `previous` is the session's last packet: what stood in it stays in place where it can. `work` is what earlier stages
    of the turn wrote, in their order; history and context yield to it. `work_tokens` is the room that they leave free
    for work in all (see `prompts.work.work_room`), 0 when no stage follows.
    """

    full_id: str
    turn_id: str
    timestamp: str
    model: str
    identity: str
    user_prompt: str
    task_instruction_key: str
    task_instruction: str
    persona: str = ""
    role: str = ""
    role_text: str = ""
    parent_id: str | None = None
    mtu: int = DEFAULT_MTU
    reserve_tokens: int = 0
    history: list[HistoryEntry] = []
    context: list[ContextItem] = []
    context_stays: bool = False
    work: list[WorkItem] = []
    work_tokens: int = 0
    previous: CognitionPacket | None = None
    feedback: str = ""
    feedback_from: str = ""
    confidence: float | None = None
    risk_level: RiskLevel | None = None
    retry_count: int | None = None


class Built(msgspec.Struct, frozen=True, kw_only=True):
    """The packet, the messages to send, the prompt as the model's chat template writes it, and how it was made."""

    packet: CognitionPacket
    messages: list[ChatMessage]
    rendered: list[Segment]
    manifest: PromptManifest


def check_request(request: BuildRequest) -> None:
    """Raises BadInput for a request without an identity, a prompt or a sensible MTU."""
    if not request.identity.strip():
        raise BadInput("a packet needs an identity; none was given")
    if not request.user_prompt.strip():
        raise BadInput("the prompt is empty; say what you want to know")
    if request.mtu < 1 or request.reserve_tokens < 0:
        raise BadInput(
            f"mtu {request.mtu} and reserve_tokens {request.reserve_tokens}: must be positive; 4096 is usual"
        )
    if request.work_tokens < 0:
        raise BadInput(f"work_tokens {request.work_tokens}: must not be below 0, which holds no room free")


IDENTITY_TOKENS, IDENTITY_PERCENT = 256, 6
PERSONA_TOKENS, PERSONA_PERCENT = 128, 3
TASK_INSTRUCTION_TOKENS = 64
FEEDBACK_TOKENS = 96
"""Whoever orders a packet chooses advice that fits; see `gaiad.turn.prompt_factory`."""
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


class Fixed(NamedTuple):
    """Texts as they go into the packet, and the rows of the token table but for history, context and template."""

    persona: str
    task_instruction: str
    identity_row: FieldReport
    persona_row: FieldReport
    role_row: FieldReport
    task_row: FieldReport
    prompt_tokens: int
    feedback_rows: Sequence[FieldReport] = ()

    @property
    def rows(self) -> list[FieldReport]:
        return [self.identity_row, self.persona_row, self.role_row, *self.feedback_rows, self.task_row]


def fixed_texts(request: BuildRequest) -> list[str]:
    """What `fix_fields` wants counted, in this order."""
    own = [request.identity, request.persona, request.role_text, request.task_instruction, request.user_prompt]
    return [*own, request.feedback]


def feedback_rows(tokens: int) -> list[FieldReport]:
    """The row of advice of so many tokens; none without advice."""
    return [whole("feedback", FEEDBACK_TOKENS, tokens)] if tokens else []


async def fix_fields(
    request: BuildRequest,
    counts: Sequence[int],
    tokenizer: Tokenizer,
    compressor: Compressor | None,
    call: RequestContext,
) -> Fixed:
    """Raises TokenBudgetError for an identity too long for the MTU, or a field that cannot be made short enough."""
    identity, persona, role, task, prompt, advised = counts
    check_identity(identity, request.mtu)

    async def fit(row: FieldReport, text: str) -> tuple[str, FieldReport]:
        return await fit_field(row, text, request.mtu, tokenizer, compressor, call)

    persona_limits = persona_limit(request.mtu, identity)
    persona_text, persona_row = await fit(whole("persona", persona_limits, persona), request.persona)
    task_text, task_row = await fit(task_row_of(task), request.task_instruction)
    return Fixed(
        persona=persona_text,
        task_instruction=task_text,
        identity_row=whole("identity", identity_limit(request.mtu), identity),
        persona_row=persona_row,
        role_row=whole("role", role, role),
        task_row=task_row,
        prompt_tokens=prompt,
        feedback_rows=feedback_rows(advised),
    )


async def fit_field(
    row: FieldReport, text: str, mtu: int, tokenizer: Tokenizer, compressor: Compressor | None, call: RequestContext
) -> tuple[str, FieldReport]:
    """The field's text within its row's limit, and the row as it is then. Raises TokenBudgetError."""
    if row.tokens <= row.limit:
        return text, row
    if compressor is None:
        raise too_long(mtu, [row], "shorten it, raise the MTU or give the compressor an embedder")
    found = await compressor.summarize_field(row.field, text, row.limit, tokenizer, call, row.tokens)
    return found.text, msgspec.structs.replace(row, tokens=found.tokens, method=found.method)


def refuse(request: BuildRequest, fixed: Fixed, bare_tokens: int, work_tokens: int = 0) -> TokenBudgetError:
    """The error for a packet that exceeds the MTU with neither history nor context.

    `bare_tokens` is all of it but for work, of which there are `work_tokens` that cannot be made short enough.
    """
    template = bare_tokens - fixed.prompt_tokens - sum(row.tokens for row in fixed.rows)
    room = request.mtu - (bare_tokens - fixed.prompt_tokens)
    rows = [*fixed.rows, whole("template", template, template), whole("user_prompt", max(0, room), fixed.prompt_tokens)]
    if work_tokens:
        rows.append(whole("work", max(0, request.mtu - bare_tokens), work_tokens))
    return too_long(request.mtu, rows, f"shorten it or raise the MTU to about {bare_tokens + work_tokens}")


def task_row_of(tokens: int) -> FieldReport:
    """The row of a task instruction of so many tokens."""
    return whole("task_instruction", TASK_INSTRUCTION_TOKENS, tokens)


def whole(field: Field, limit: int, tokens: int) -> FieldReport:
    """The row of a field that goes in as it came."""
    return FieldReport(field=field, limit=limit, original_tokens=tokens, tokens=tokens, method="whole")
