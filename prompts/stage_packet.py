"""The packet of a turn for its next stage: the same beginning byte for byte, another end (decision 6, GCP 6).

Identity, persona, history, context and the question stay where they are, so that a model that has read one stage's
prompt reads only the new work and the new directive of the next. What a stage does not take of these stays too: reuse
beats thrift; only what other stages wrote is chosen. A model that counts otherwise gets a packet built again.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from gaiad.base.ids import short
from gaiad.base.ports import RequestContext, Tokenizer
from gaiad.wire.generation import Segment
from prompts.budget import BuildRequest, Built, fit_feedback, fit_field, task_row_of, whole
from prompts.builder import build, prompt_sha256
from prompts.compress import Compressor
from prompts.counting import PacketWriter, PromptCounter
from prompts.load import prompts_in
from prompts.messages import work_segments
from prompts.packet import CognitionPacket, Field, FieldReport, PromptManifest, RiskLevel, WorkItem
from prompts.work import Placed, WorkFitter, place_work, work_rows

_SAME = frozenset(CognitionPacket.__struct_fields__) & frozenset(BuildRequest.__struct_fields__)
INPUT_OF_MARKER: Mapping[str, str] = {"PLAN": "plan", "RESPONSE": "response", "EXECUTE": "executed"}
"""Work that a stage gets only when its contract (constants/stages.toml) takes it; other markers go to every stage."""


async def retarget(
    built: Built,
    *,
    full_id: str,
    role: str,
    role_text: str,
    task_instruction_key: str,
    task_instruction: str,
    work: Sequence[WorkItem],
    reserve_tokens: int,
    timestamp: str,
    parent_id: str | None,
    inputs: Collection[str],
    tokenizer: Tokenizer,
    compressor: Compressor | None,
    call: RequestContext,
    counter: PromptCounter,
    confidence: float | None = None,
    risk_level: RiskLevel | None = None,
    retry_count: int | None = None,
    feedback: str = "",
    feedback_from: str = "",
    model: str = "",
    mtu: int = 0,
) -> Built:
    """`built`'s turn for another stage, at most its MTU in tokens, counted exactly.

    `work` is all that was written in the turn so far, in order and whole; `inputs` are the stage's own, which choose
    from it. `model` (fingerprint) and `mtu` are the target's where they differ from `built`'s: another tokenizer or
    MTU, or too little room for any work, and history and context are chosen again from those of `built`. Raises
    BadInput, TokenBudgetError with each field's numbers, and as tokenizer and embedder do.
    """
    packet = msgspec.structs.replace(
        built.packet,
        packet_id=short(full_id),
        full_id=full_id,
        parent_id=parent_id,
        timestamp=timestamp,
        mtu=mtu or built.packet.mtu,
        role=role,
        role_text=role_text,
        task_instruction_key=task_instruction_key,
        task_instruction=task_instruction,
        work=[item for item in work if INPUT_OF_MARKER.get(item.marker, "") in {"", *inputs} and item.text],
        confidence=confidence,
        risk_level=risk_level,
        retry_count=retry_count,
        feedback=feedback,
        feedback_from=feedback_from,
    )
    manifest = msgspec.structs.replace(
        built.manifest,
        packet_id=full_id,
        mtu=packet.mtu,
        model=model or built.manifest.model,
        tokenizer=tokenizer.fingerprint,
        reserve_tokens=reserve_tokens,
    )
    counts_alike = (manifest.tokenizer, manifest.mtu) == (built.manifest.tokenizer, built.manifest.mtu)
    same = await _same_beginning(packet, manifest, tokenizer, compressor, call, counter) if counts_alike else None
    return same or await _rebuilt(built, packet, manifest, tokenizer, compressor, call, counter)


async def _same_beginning(
    packet: CognitionPacket,
    manifest: PromptManifest,
    tokenizer: Tokenizer,
    compressor: Compressor | None,
    call: RequestContext,
    counter: PromptCounter,
) -> Built | None:
    """With all that is before the work left as it is; None when no work fits behind it."""
    tail = [[Segment(packet.role_text)], [Segment(packet.task_instruction)], [Segment(packet.feedback)]]
    role, task, advised, *_ = await counter.count(tokenizer, [*tail, *map(work_segments, packet.work)], call)
    text, task_row = await fit_field(
        task_row_of(task), packet.task_instruction, packet.mtu, tokenizer, compressor, call
    )
    advice, advice_rows = fit_feedback(packet.feedback, advised)
    kept = {"feedback": advice, "feedback_from": packet.feedback_from if advice else ""}
    packet = msgspec.structs.replace(packet, task_instruction=text, **kept)
    writer = PacketWriter(tokenizer, counter, call)
    placed = await place_work(packet, packet.work, writer, WorkFitter(tokenizer, compressor, call, counter))
    if placed is None:
        return None
    rows = _table(manifest, [whole("role", role, role), *advice_rows, task_row], placed)
    written = placed.written
    manifest = msgspec.structs.replace(
        manifest,
        fields=rows,
        total_tokens=written.tokens,
        prompt_sha256=prompt_sha256(written.rendered),
        prompts=prompts_in(written.packet, [row.method for row in rows]),
    )
    return Built(packet=written.packet, messages=written.messages, rendered=written.rendered, manifest=manifest)


def _table(manifest: PromptManifest, end: Sequence[FieldReport], placed: Placed) -> list[FieldReport]:
    """The table of the stage before with the rows of the new end."""
    rows: dict[Field, FieldReport] = {
        row.field: row for row in manifest.fields if row.field not in ("work", "feedback")
    }
    rows |= {row.field: row for row in end}
    total, prompt = placed.written.tokens, rows["user_prompt"].tokens
    texts = sum(row.tokens for name, row in rows.items() if name != "template")
    template = total - texts - placed.work.tokens
    rows["template"] = whole("template", template, template)
    rows["user_prompt"] = whole("user_prompt", manifest.mtu - (total - prompt), prompt)
    return [*rows.values(), *work_rows(placed.work, 0, manifest.mtu - total)]


async def _rebuilt(
    built: Built,
    packet: CognitionPacket,
    manifest: PromptManifest,
    tokenizer: Tokenizer,
    compressor: Compressor | None,
    call: RequestContext,
    counter: PromptCounter,
) -> Built:
    """History and context of `built` give way as in any packet; where they stay, they stay in place."""
    same: dict[str, Any] = {name: getattr(packet, name) for name in _SAME}
    request = BuildRequest(model=manifest.model, reserve_tokens=manifest.reserve_tokens, previous=built.packet, **same)
    fresh = await build(request, tokenizer, compressor, call, counter)
    dropped = list(dict.fromkeys([*built.manifest.dropped, *fresh.manifest.dropped]))
    return msgspec.structs.replace(fresh, manifest=msgspec.structs.replace(fresh.manifest, dropped=dropped))
