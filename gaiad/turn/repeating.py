"""The answer of a turn that was taken before, for whoever asks again under its key: from memory and turn log."""

import msgspec

from gaiad.chat_schemas import ChatAnswer, ChatBlock
from gaiad.council_schemas import HistoryNote, StageRecord, TurnRecord
from gaiad.ids import short
from gaiad.memory_schemas import SessionTurn
from gaiad.turn.also import remembered
from gaiad.turn.story import UNANSWERED, engine_name

_TIMES = ("queue_ms", "prefill_ms", "decode_ms")


def as_before(turn: SessionTurn, record: TurnRecord | None, kind: str) -> ChatAnswer:
    """`record` is the turn's in the log, None when it is not there (any more); `kind` is that of its model, "" when the
    model is there no more.
    """
    stages = [] if record is None else record.stages
    acted = next((row.packet_id for row in reversed(stages) if row.stage == "act" and row.packet_id), "")
    answer = ChatAnswer(
        session_id=turn.session_id,
        turn_id=turn.turn_id,
        packet_id=short(acted) if acted else "",
        blocks=[ChatBlock(marker=block.marker, text=block.text) for block in turn.blocks],
        answer=turn.answer,
        sources=turn.sources,
        status=turn.status,
        engine=engine_name(turn.model, kind or turn.model),
        persona=turn.persona,
        history=HistoryNote(sought=False, why="this turn was taken before", packets=turn.sources),
        timings={name: round(sum(getattr(row, name) for row in stages), 3) for name in _TIMES} if stages else {},
        tokens=_tokens(stages) if stages else {},
        answered=not turn.metadata.get(UNANSWERED, False),
        also=remembered(turn),
    )
    return answer if record is None else _with_record(answer, record)


def _with_record(answer: ChatAnswer, record: TurnRecord) -> ChatAnswer:
    return msgspec.structs.replace(
        answer,
        notes=record.notes,
        depth=record.depth,
        depth_why=record.depth_why,
        reduced_quorum=record.reduced_quorum,
        end_why=record.end_why,
        votes=record.votes,
        escalations=record.escalations,
    )


def _tokens(stages: list[StageRecord]) -> dict[str, int]:
    return {
        "prompt": sum(row.prompt_tokens for row in stages),
        "cached": sum(row.cached_tokens for row in stages),
        "reply": sum(row.tokens for row in stages),
    }
