"""The orchestrator's handoff: achievements and workstreams in the body, instructions for the next model beside it."""

from gaiad.archive.reading.dialects.table import FIELDS, METRICS, SECTIONS, Dialect, Signature

ORCHESTRATOR_HANDOFF = Dialect(
    name="orchestrator_handoff",
    signatures=(Signature(roots=("orchestratorhandoffpacket",)),),
    fields={
        **FIELDS,
        "id": ("header/packet_id", *FIELDS["id"]),
        "summary": ("body/session_summary", "body/summary"),
        "content": ("body/critical_achievements", "body/content"),
        "artifacts": ("body/artifacts", "body/correlated_workstreams"),
    },
    sections={
        **SECTIONS,
        "body/cryptographic_chain": "integrity",
        "instructions_for_next_model/files_awaiting_git_sync": "artifact",
        "symphony_health_check": "closure",
        "meta_observation": "closure",
    },
    metrics=METRICS,
)
