"""Assembles a Cognition Packet within its MTU, to the token (GCP 4; the seed's `prompt_builder`).

First what every packet carries, written and counted as the model's template writes it; then history and context in what
is left. What is estimated from parts is settled on the whole: the prompt is rendered and counted, and the payload gives
way until it fits. No clock and no randomness: ids and times come with the request.

`retarget` makes of it the packet of the turn's next stage: the same beginning byte for byte, another end (decision 6,
GCP 6), so that a model that has read one stage's prompt reads only the new work and directive. What a stage does not
take of the beginning stays too: reuse beats thrift. A model that counts otherwise gets a packet built again.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from gaiad.base.ids import short
from gaiad.base.ports import RequestContext, Tokenizer
from gaiad.wire.generation import Segment
from prompts.budget import (
    BuildRequest,
    Built,
    Fixed,
    check_request,
    feedback_rows,
    fit_field,
    fix_fields,
    fixed_texts,
    payload_limit,
    refuse,
    task_row_of,
    whole,
)
from prompts.compress import Compressor
from prompts.counting import PacketWriter, PromptCounter, WrittenPacket
from prompts.fence import fenced, said_before
from prompts.load import prompts_in
from prompts.messages import notice_segments, work_segments
from prompts.packet import CognitionPacket, ContextItem, Field, FieldReport, PromptManifest, RiskLevel, WorkItem
from prompts.payload import Offered, Payload, PayloadChooser, group_turns
from prompts.work import NO_WORK, FittedWork, Placed, WorkFitter, place_work, work_rows

_SMALLEST_STEP = 50
_SAME = frozenset(CognitionPacket.__struct_fields__) & frozenset(BuildRequest.__struct_fields__)


async def build(
    request: BuildRequest,
    tokenizer: Tokenizer,
    compressor: Compressor | None,
    call: RequestContext,
    counter: PromptCounter | None = None,
) -> Built:
    """The packet and its prompt, at most `request.mtu` tokens of `tokenizer`; the user prompt is in it whole.

    Without a compressor nothing is summarised: history and context are cut, and a persona too long is refused. Give
    the same `counter` every time and a build takes half the round trips to the tokenizer. Raises BadInput,
    TokenBudgetError with each field's numbers, and as tokenizer and embedder do.
    """
    check_request(request)
    counter = counter or PromptCounter()
    writer = PacketWriter(tokenizer, counter, call)
    request = _without_the_needless(request)
    entries = request.history
    fields = [*([Segment(text)] for text in fixed_texts(request)), *map(said_before, entries)]
    pages = [fenced(item) for item in request.context]
    pages[:1] = [[*notice_segments(), *page] for page in pages[:1]]
    counts = await counter.count(tokenizer, [*fields, *pages], call)
    page_counts = counts[len(fields) :]
    fixed = await fix_fields(request, counts[:6], tokenizer, compressor, call)
    bare = _bare_packet(request, fixed)
    bare_tokens = await writer.bare_tokens(bare, fixed.prompt_tokens)
    if bare_tokens > request.mtu:
        raise refuse(request, fixed, bare_tokens)
    work = NO_WORK
    if request.work:
        fitter = WorkFitter(tokenizer, compressor, call, counter)
        placed = await place_work(bare, request.work, writer, fitter)
        if placed is None:
            raise refuse(request, fixed, bare_tokens, (await fitter.whole(request.work)).tokens)
        bare, bare_tokens, work = placed.written.packet, placed.written.tokens, placed.work
    held = max(0, request.work_tokens - work.tokens)
    overhead = await counter.message_overhead(tokenizer, call) if entries else 0
    turns = group_turns(entries, [count + overhead for count in counts[6 : len(fields)]])
    chooser = PayloadChooser(request, Offered(turns, page_counts, overhead), tokenizer, compressor, call)
    limit = payload_limit(request.mtu, bare_tokens, fixed.prompt_tokens + work.tokens, held)
    payload, written = await _fill(chooser, limit, bare, bare_tokens, writer, held)
    original = (sum(turn.tokens for turn in turns), sum(page_counts))
    rows = _table(fixed, payload, work, written.tokens, original, request)
    manifest = _manifest(request, tokenizer, rows, written, payload.dropped)
    return Built(packet=written.packet, messages=written.messages, rendered=written.rendered, manifest=manifest)


async def _fill(
    chooser: PayloadChooser, limit: int, bare: CognitionPacket, bare_tokens: int, writer: PacketWriter, held: int
) -> tuple[Payload, WrittenPacket]:
    """History and context as much as fits: chosen by estimate, then counted in place, smaller until it is right."""
    while True:
        payload = await chooser.choose(limit)
        packet = msgspec.structs.replace(bare, history=payload.history, context=payload.context)
        written = await writer.write(packet)
        if not payload.history and not payload.context:
            return payload, written
        payload = _settled(payload, written.tokens - bare_tokens)
        over = max(
            written.tokens + held - bare.mtu,
            payload.history_tokens - payload.shares.history,
            payload.context_tokens - payload.shares.context,
        )
        if over <= 0:
            return payload, written
        limit = max(0, limit - max(over, limit // _SMALLEST_STEP))


def _settled(payload: Payload, tokens: int) -> Payload:
    """With the real costs: pages cost what they were counted at, history all else that the payload takes."""
    context = payload.context_tokens if payload.history else tokens
    return payload._replace(context_tokens=context, history_tokens=tokens - context)


def _without_the_needless(request: BuildRequest) -> BuildRequest:
    """Without silent turns, and each page once."""
    pages: dict[str, ContextItem] = {}
    for page in request.context:
        pages.setdefault(page.page_id, page)
    history = [entry for entry in request.history if entry.text]
    return msgspec.structs.replace(request, history=history, context=[*pages.values()])


def prompt_sha256(rendered: list[Segment]) -> str:
    """SHA-256 over the prompt's text in UTF-8, as the manifest has it."""
    text = "".join(segment.text for segment in rendered)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _bare_packet(request: BuildRequest, fixed: Fixed) -> CognitionPacket:
    same: dict[str, Any] = {name: getattr(request, name) for name in _SAME}
    made = {
        "persona": fixed.persona,
        "task_instruction": fixed.task_instruction,
        "history": [],
        "context": [],
        "work": [],
    }
    return CognitionPacket(packet_id=short(request.full_id), **same | made)


def _table(
    fixed: Fixed, payload: Payload, work: FittedWork, total: int, original: tuple[int, int], request: BuildRequest
) -> list[FieldReport]:
    """The token table: its tokens add up to `total`, what the template takes around history is counted to history."""
    texts = fixed.prompt_tokens + work.tokens + sum(row.tokens for row in fixed.rows)
    template = total - texts - payload.history_tokens - payload.context_tokens
    history = FieldReport(
        field="history",
        limit=payload.shares.history,
        original_tokens=original[0],
        tokens=payload.history_tokens,
        method=payload.history_method,
    )
    context = FieldReport(
        field="context",
        limit=payload.shares.context,
        original_tokens=payload.context_tokens if payload.context_method == "whole" else original[1],
        tokens=payload.context_tokens,
        method=payload.context_method,
    )
    rest = request.mtu - (total - fixed.prompt_tokens)
    return [
        *fixed.rows,
        history,
        context,
        whole("template", template, template),
        whole("user_prompt", rest, fixed.prompt_tokens),
        *work_rows(work, request.work_tokens, request.mtu - total),
    ]


def _manifest(
    request: BuildRequest, tokenizer: Tokenizer, rows: list[FieldReport], written: WrittenPacket, dropped: list[str]
) -> PromptManifest:
    return PromptManifest(
        packet_id=request.full_id,
        mtu=request.mtu,
        model=request.model,
        tokenizer=tokenizer.fingerprint,
        fields=rows,
        total_tokens=written.tokens,
        reserve_tokens=request.reserve_tokens,
        dropped=dropped,
        prompt_sha256=prompt_sha256(written.rendered),
        prompts=prompts_in(written.packet, [row.method for row in rows]),
    )


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
) -> Built:
    """`built`'s turn for another stage, at most its MTU in tokens, counted exactly.

    `work` is all that was written in the turn so far, in order and whole; `inputs` are the stage's own, which choose
    from it. Where there is too little room for any work, history and context are chosen again from those of `built`.
    Raises BadInput, TokenBudgetError with each field's numbers, and as tokenizer and embedder do.
    """
    packet = msgspec.structs.replace(
        built.packet,
        packet_id=short(full_id),
        full_id=full_id,
        parent_id=parent_id,
        timestamp=timestamp,
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
        reserve_tokens=reserve_tokens,
    )
    same = await _same_beginning(packet, manifest, tokenizer, compressor, call, counter)
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
    packet = msgspec.structs.replace(packet, task_instruction=text)
    writer = PacketWriter(tokenizer, counter, call)
    placed = await place_work(packet, packet.work, writer, WorkFitter(tokenizer, compressor, call, counter))
    if placed is None:
        return None
    rows = _next_table(manifest, [whole("role", role, role), *feedback_rows(advised), task_row], placed)
    written = placed.written
    manifest = msgspec.structs.replace(
        manifest,
        fields=rows,
        total_tokens=written.tokens,
        prompt_sha256=prompt_sha256(written.rendered),
        prompts=prompts_in(written.packet, [row.method for row in rows]),
    )
    return Built(packet=written.packet, messages=written.messages, rendered=written.rendered, manifest=manifest)


def _next_table(manifest: PromptManifest, end: Sequence[FieldReport], placed: Placed) -> list[FieldReport]:
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
