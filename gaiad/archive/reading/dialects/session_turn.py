"""A turn of a chat session, in the JSON that gaiad itself remembers it in (JIT; decision 18).

Only what was said becomes pages, each message a page of its own words; all else is canonical fields, index metadata
and, in the stored original, every byte. The shape is `gaiad.memory_schemas.SessionTurn`.
"""

from gaiad.archive.reading.dialects.table import Dialect, Said, Signature
from gaiad.memory_schemas import NOTHING_FOUND

SESSION_TURN = Dialect(
    name="session_turn",
    signatures=(Signature(children=("gaiad_session_turn", "session_id", "turn_id", "messages"), json=True),),
    fields={
        "id": ("turn_id",),
        "timestamp": ("started_at",),
        "schema_version": ("gaiad_session_turn",),
        "session_id": ("session_id",),
        "original_model": ("model",),
        "current_model": (),
        "researcher": (),
        "topic": ("title",),
        "challenge_phrases": (),
        "tags": ("tags",),
        "notes": ("description",),
        "summary": ("messages/item/content",),
        "content": (),
        "artifacts": (),
    },
    sections={},
    metrics=(),
    said=(
        Said(
            path="messages/item",
            speaker="role",
            text="content",
            kind="transcript",
            without=frozenset((NOTHING_FOUND,)),
        ),
        Said(
            path="blocks/item",
            speaker="role",
            text="text",
            kind="other",
            markers=frozenset(("THOUGHT_SEED", "VERIFY", "PLAN")),
        ),
    ),
    labels={
        "agent": ("agent_id",),
        "classification": ("classification",),
        "policy_tag": ("policy_tags",),
        "origin_run": ("origin_run_id",),
        "request_intent": ("request_intent",),
    },
)
