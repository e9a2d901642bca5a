"""The universal form of irp-framework.org: PascalCase, a payload, source and target models."""

from gaiad.archive.reading.dialects.table import FIELDS, SECTIONS, Dialect, Signature

IRP_UNIVERSAL = Dialect(
    name="irp_universal",
    signatures=(
        Signature(namespace="irp-framework.org"),
        Signature(roots=("transmissionpacket",), children=("Header", "Payload")),
        Signature(children=("Header", "Payload"), json=True),
    ),
    fields={
        **FIELDS,
        "id": ("header/transmission_id", *FIELDS["id"]),
        "session_id": ("context/session_id", "header/session_id"),
        "original_model": ("header/source_model/model_name", "header/source_model"),
        "current_model": ("header/target_model/model_name", "header/target_model"),
        "topic": ("header/topic", "header/subject", "payload/title"),
        "summary": ("payload/summary", "payload/description"),
        "content": ("payload/content",),
        "artifacts": ("payload/artifacts",),
    },
    sections={
        **SECTIONS,
        "payload": "content",
        "payload/content": "content",
        "payload/metadata": "header",
        "payload/summary": "summary",
        "payload/transcript": "transcript",
        "payload/artifacts": "artifact",
        "context": "header",
    },
    metrics=("behavioral_metrics", "integrity/torsion_metrics", "metrics"),
)
