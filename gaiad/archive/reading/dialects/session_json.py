"""The session form in JSON: header.packet_id, identity_context, behavioral_profile, cryptographic_integrity."""

from gaiad.archive.reading.dialects.table import FIELDS, SECTIONS, Dialect, Signature

SESSION_JSON = Dialect(
    name="session_json",
    signatures=(
        Signature(children=("header", "cryptographic_integrity")),
        Signature(children=("header", "behavioral_profile", "session_state")),
    ),
    fields={
        **FIELDS,
        "id": ("header/packet_id", *FIELDS["id"]),
        "timestamp": (*FIELDS["timestamp"], "cryptographic_integrity/packet_creation_timestamp"),
        "session_id": ("identity_context/session_id", "header/session_id", "header/session_branch"),
        "topic": ("header/topic", "identity_context/session_purpose", "session_state/current_action"),
        "tags": ("behavioral_profile/tags", "behavioral_profile/tone_token"),
        "summary": ("summary", "forward_context/continuation_prompt", "session_state/map_hash"),
        "content": ("content", "achievements"),
        "artifacts": ("forward_context/session_artifacts", "artifacts"),
    },
    sections={
        **SECTIONS,
        "identity_context": "header",
        "session_state": "content",
        "achievements": "content",
        "forward_context": "instructions",
        "forward_context/session_artifacts": "artifact",
        "constraints": "instructions",
        "cryptographic_integrity": "integrity",
    },
    metrics=("behavioral_profile",),
)
