"""The fields that every packet carries whatever else it holds: identity, persona, role, task instruction, user prompt.

Identity and the user prompt are never touched. Persona and task instruction are made shorter when they exceed their
limits; the role's text has no limit of its own, it takes from what history and context share.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from gaiad.errors import TokenBudgetError
from gaiad.ports import Call, Tokenizer
from prompts.budget import TASK_INSTRUCTION_TOKENS, check_identity, identity_limit, persona_limit, too_long
from prompts.compress import Compressor
from prompts.packet import Field, FieldReport
from prompts.request import BuildRequest


class Fixed(NamedTuple):
    """Texts as they go into the packet, and the rows of the token table but for history, context and template."""

    persona: str
    task_instruction: str
    identity_row: FieldReport
    persona_row: FieldReport
    role_row: FieldReport
    task_row: FieldReport
    prompt_tokens: int

    @property
    def rows(self) -> list[FieldReport]:
        return [self.identity_row, self.persona_row, self.role_row, self.task_row]


def fixed_texts(request: BuildRequest) -> list[str]:
    """What `fix_fields` wants counted, in this order."""
    return [request.identity, request.persona, request.role_text, request.task_instruction, request.user_prompt]


async def fix_fields(
    request: BuildRequest, counts: Sequence[int], tokenizer: Tokenizer, compressor: Compressor | None, call: Call
) -> Fixed:
    """Raises TokenBudgetError for an identity too long for the MTU, or a field that cannot be made short enough."""
    identity, persona, role, task, prompt = counts
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
    )


async def fit_field(
    row: FieldReport, text: str, mtu: int, tokenizer: Tokenizer, compressor: Compressor | None, call: Call
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
