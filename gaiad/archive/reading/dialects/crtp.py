"""CRTP forward context: transmission_packet 2.x with packet_id, behavioral_inheritance and a session chronicle."""

from gaiad.archive.reading.dialects.table import FIELDS, SECTIONS, Dialect, Signature

CRTP = Dialect(
    name="crtp",
    signatures=(
        Signature(roots=("transmissionpacket",), children=("header", "behavioral_inheritance")),
        Signature(roots=("transmissionpacket",), children=("header", "session_chronicle")),
        Signature(children=("header", "behavioral_inheritance"), json=True),
    ),
    fields={
        **FIELDS,
        "id": ("header/packet_id", *FIELDS["id"]),
        "session_id": ("header/session_id", "header/lineage/parent_session"),
        "original_model": ("header/source_identity", *FIELDS["original_model"]),
        "current_model": ("header/current_model", "header/target_identity"),
        "topic": ("header/topic", "session_chronicle/title", "header/packet_type"),
        "tags": ("behavioral_inheritance/tags",),
        "notes": ("behavioral_inheritance/notes",),
        "summary": ("session_chronicle/summary", "context_topology/core_axiom"),
        "content": ("session_chronicle/narrative",),
        "artifacts": ("session_chronicle/key_artifacts",),
    },
    sections={
        **SECTIONS,
        "behavioral_inheritance": "behavior",
        "context_topology": "summary",
        "session_chronicle": "content",
        "session_chronicle/narrative": "content",
        "session_chronicle/key_artifacts": "artifact",
        "session_chronicle/quantitative_summary": "content",
        "forward_directives": "instructions",
        "awakening_triggers": "instructions",
        "packet_footer": "integrity",
    },
    metrics=("behavioral_inheritance", "session_chronicle/quantitative_summary"),
)
