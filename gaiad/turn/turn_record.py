"""What stays of a turn and what the person gets of it: its record in the turn log, its memory, its answer.

The turn is in the log from its first stage on, should the daemon end before it does; what came of it is kept however it
ends, also when its reader has left.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from gaiad.base.config import model_label
from gaiad.ledger.turn_log import RUNNING
from gaiad.turn.acting import RESPONSE
from gaiad.turn.beside import as_metadata, shown_in
from gaiad.turn.gathering import CHOSEN_PERSONA, CHOSEN_PROJECT
from gaiad.turn.stage_call import StageCall
from gaiad.turn.turn import CANCELLED, FAILED, REFUSED, REVERTED, Turn, WrittenBlock
from gaiad.wire.chat import ChatAnswer, ChatBlock
from gaiad.wire.council import StageRecord, TurnRecord
from gaiad.wire.memory import NOTHING_FOUND, SessionTurn, TurnBlock, TurnMessage

UNANSWERED = "unanswered"  # in a turn's metadata
VERY_SMALL = "SmolLM2-135M"
"""The model that a checkout starts with (`make run`)."""
_AFTER_ANSWER = ("THOUGHT_SEED", "VERIFY")
_TIMES = ("queue_ms", "prefill_ms", "decode_ms")


def log_running(turn: Turn) -> None:
    """The turn so far goes into the turn log."""
    running = msgspec.structs.replace(turn_record(turn, ""), status=RUNNING)
    turn.write("not in the turn log", turn.services.turn_log.put(turn.tenant, running))


def stage_ended(turn: Turn, stage: StageCall) -> None:
    """A stage call is over, however: its packet and the turn so far are kept. One that was cut off has its row."""
    if not any(row.packet_id == stage.built.packet.full_id for row in turn.stages):
        turn.stages.append(stage.record("cancelled"))
    if stage.reply is not None:
        turn.services.rates.observe(stage.model.name, stage.reply)
    else:
        turn.services.rates.observe_part(stage.model.name, stage.tokens, stage.writing_ms)
    turn.write("its packet was not kept", turn.turn_store.keep(turn.names.session_id, stage.sent(), turn.tenant))
    log_running(turn)


async def close_turn(turn: Turn) -> None:
    """Keep all of it, also when the turn is cancelled meanwhile. A turn that failed is in the turn log alone; one
    that was left is remembered as heard.
    """
    await turn.turn_store.finish(_close(turn))


async def _close(turn: Turn) -> None:
    seeds = [block for block in turn.blocks if block.marker == "THOUGHT_SEED"]
    if turn.status not in (CANCELLED, FAILED, REFUSED, REVERTED):  # thoughts of an answer that holds
        for seed in seeds:
            work = turn.services.add_seed(turn.tenant, seed.text, turn.names.turn_id)
            turn.write("a thought was not kept", work)
    await turn.written()
    heard = turn.status == CANCELLED and bool(turn.shown.strip())
    if heard or turn.status not in (CANCELLED, FAILED, REFUSED):
        said = session_turn(turn, turn.turn_store.now())
        await turn.attempt("not remembered", turn.turn_store.remember(said, turn.tenant))
    record = turn_record(turn, turn.turn_store.now())
    await turn.attempt("not in the turn log", turn.services.turn_log.put(turn.tenant, record))


def session_turn(turn: Turn, ended_at: str) -> SessionTurn:
    """What the memory keeps: what was said, and the blocks that become pages."""
    gathered, model = turn.gathered, turn.model
    texts = [block for block in _in_order(turn) if turn.kept.get(block.marker) == "page" and block.text]
    surfaced = shown_in(gathered.turns) if turn.beside is None else turn.beside.surfaced
    return SessionTurn(
        session_id=turn.names.session_id,
        turn_id=turn.names.turn_id,
        messages=[TurnMessage(role="user", content=turn.request.message), *_said(turn)],
        started_at=turn.started,
        ended_at=ended_at,
        persona=gathered.persona,
        model="" if model is None else model.name,
        fingerprint="" if model is None else model.fingerprint,
        status=turn.status,
        blocks=[TurnBlock(marker=block.marker, text=block.text, role=block.role) for block in texts],
        sources=turn.sources(),
        classification=gathered.labels.classification,
        policy_tags=gathered.labels.policy_tags,
        metadata={**_chosen(turn), **_events(turn), **as_metadata(turn.also, surfaced)},
    )


def _said(turn: Turn) -> list[TurnMessage]:
    """The answer. A model without weights that quotes nothing says that nothing was found: that is not evidence."""
    nothing = turn.model is not None and turn.model.kind == "extractive" and not turn.cited
    said = TurnMessage(role="assistant", content=turn.shown, marker=NOTHING_FOUND if nothing else "")
    return [said] if turn.shown else []


def _chosen(turn: Turn) -> dict[str, Any]:
    """What a person chose for the session, so that its next turn has it too."""
    chosen = {CHOSEN_PERSONA: turn.gathered.chosen_persona, CHOSEN_PROJECT: turn.gathered.chosen_project}
    return {what: name for what, name in chosen.items() if name}


def _events(turn: Turn) -> dict[str, Any]:
    """An INTERRUPT is remembered as an event and not as a page (decision 16), and so is a missing answer."""
    reasons = [block.text for block in turn.blocks if block.marker == "INTERRUPT" and "INTERRUPT" in turn.kept]
    unanswered = {} if turn.answered else {UNANSWERED: True}
    return {**({"interrupts": reasons} if reasons else {}), **unanswered}


def turn_record(turn: Turn, ended_at: str) -> TurnRecord:
    """What the turn log keeps."""
    end = turn.end
    return TurnRecord(
        turn_id=turn.names.turn_id,
        session_id=turn.names.session_id,
        depth=turn.choice.depth,
        depth_why=turn.choice.why,
        stages=turn.stages,
        votes=turn.votes,
        status=turn.status,
        end_why="" if end is None else end.why,
        reduced_quorum=end is not None and end.reduced_quorum,
        message=turn.request.message,
        persona=turn.gathered.persona,
        started_at=turn.started,
        ended_at=ended_at,
        risk_level=turn.risk,
        escalations=turn.escalations,
        blocks=[msgspec.to_builtins(block) for block in _in_order(turn)],
        notes=turn.all_notes(),
        history=turn.gathered.note,
    )


def chat_answer(turn: Turn) -> ChatAnswer:
    """What the person gets."""
    end = turn.end
    return ChatAnswer(
        session_id=turn.names.session_id,
        turn_id=turn.names.turn_id,
        packet_id=turn.packet_id,
        blocks=[ChatBlock(marker=block.marker, text=block.text) for block in _in_order(turn) if block.text],
        answer=turn.shown,
        sources=turn.sources(),
        status=turn.status,
        engine="" if turn.model is None else engine_name(turn.model.name, turn.model.kind),
        persona=turn.gathered.persona,
        history=turn.gathered.note,
        timings={"prepare_ms": round(turn.gathered.took_ms + turn.packed_ms, 3), **times_of(turn.stages)},
        tokens=tokens_of(turn.stages),
        notes=turn.all_notes(),
        depth=turn.choice.depth,
        depth_why=turn.choice.why,
        reduced_quorum=end is not None and end.reduced_quorum,
        answered=turn.answered,
        end_why="" if end is None else end.why,
        votes=turn.votes,
        escalations=turn.escalations,
        also=turn.also,
        citations=turn.citations(),
    )


def _in_order(turn: Turn) -> list[WrittenBlock]:
    """The last plan, and the answer where Act was: before its thoughts for later and what was verified of it."""
    plans = [block for block in turn.blocks if block.marker == "PLAN"]
    blocks = [block for block in turn.blocks if block.marker != "PLAN" or block is plans[-1]]
    actor = next((row.role for row in reversed(turn.stages) if row.stage == "act"), turn.request.role)
    answer = [WrittenBlock(marker=RESPONSE, text=turn.shown, role=actor)] if turn.shown else []
    place = next((i for i, block in enumerate(blocks) if block.marker in _AFTER_ANSWER), len(blocks))
    return [*blocks[:place], *answer, *blocks[place:]]


def packet_sizes(turn: Turn, stage: StageCall) -> dict[str, Any]:
    """The packet of a stage, for whoever watches."""
    manifest = stage.built.manifest
    return {
        "packet_id": stage.built.packet.packet_id,
        "stage": stage.task.stage,
        "mtu": manifest.mtu,
        "total_tokens": manifest.total_tokens,
        "persona": turn.gathered.persona,
        "engine": engine_name(stage.model.name, stage.model.kind),
        "history": turn.gathered.note,
    }


def times_of(stages: Sequence[StageRecord]) -> dict[str, float]:
    """Milliseconds of all stages together, by what they went into."""
    return {name: round(sum(getattr(row, name) for row in stages), 3) for name in _TIMES}


def tokens_of(stages: Sequence[StageRecord]) -> dict[str, int]:
    """Tokens of all stages together: read, found in the cache, written."""
    return {
        "prompt": sum(row.prompt_tokens for row in stages),
        "cached": sum(row.cached_tokens for row in stages),
        "reply": sum(row.tokens for row in stages),
    }


def engine_name(name: str, kind: str) -> str:
    """What wrote the answer, for its footer (decision 4); of a model set by its path, the name of the file."""
    name = model_label(name)
    if name == VERY_SMALL:
        return f"{name}, a very small model; `gaiad models use` for a better one"
    return name if name == kind else f"{name} ({kind})"
