"""The dialects gaiad knows, the most particular first; `generic` takes what no other does."""

from gaiad.archive.reading.dialect import FIELDS, METRICS, SECTIONS, Dialect, DialectSignature, SpeechRule
from gaiad.archive.reading.document import Document
from gaiad.wire.memory import NOTHING_FOUND

# A turn of a chat session, in the JSON that gaiad itself remembers it in (JIT; decision 18).

SESSION_TURN = Dialect(
    name="session_turn",
    signatures=(DialectSignature(children=("gaiad_session_turn", "session_id", "turn_id", "messages"), json=True),),
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
        SpeechRule(
            path="messages/item",
            speaker="role",
            text="content",
            kind="transcript",
            without=frozenset((NOTHING_FOUND,)),
        ),
        SpeechRule(
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


# The universal form of irp-framework.org: PascalCase, a payload, source and target models.

IRP_UNIVERSAL = Dialect(
    name="irp_universal",
    signatures=(
        DialectSignature(namespace="irp-framework.org"),
        DialectSignature(roots=("transmissionpacket",), children=("Header", "Payload")),
        DialectSignature(children=("Header", "Payload"), json=True),
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


# The orchestrator form of starwreck.ai: a thread topology with drift vectors instead of a body.

ORCHESTRATOR = Dialect(
    name="orchestrator",
    signatures=(
        DialectSignature(namespace="starwreck.ai"),
        DialectSignature(roots=("orchestratorpacket",)),
        DialectSignature(children=("header", "thread_topology"), json=True),
    ),
    fields={
        **FIELDS,
        "original_model": ("header/original_model", "header/model", "header/routing_source"),
        "current_model": ("header/current_model", "header/routing_target"),
        "summary": ("body/summary", "thread_topology/convergence_point"),
        "content": ("body/content", "thread_topology/torsion_analysis/coherence_assessment"),
        "artifacts": ("body/artifacts", "thread_topology/resultant_artifact"),
    },
    sections={
        **SECTIONS,
        "thread_topology": "content",
        "thread_topology/convergence_point": "summary",
        "thread_topology/resultant_artifact": "artifact",
    },
    metrics=(*METRICS, "thread_topology/torsion_analysis"),
)


# The orchestrator's handoff: achievements and workstreams in the body, instructions for the next model beside it.

ORCHESTRATOR_HANDOFF = Dialect(
    name="orchestrator_handoff",
    signatures=(DialectSignature(roots=("orchestratorhandoffpacket",)),),
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


# CRTP forward context: transmission_packet 2.x with packet_id, behavioral_inheritance and a session chronicle.

CRTP = Dialect(
    name="crtp",
    signatures=(
        DialectSignature(roots=("transmissionpacket",), children=("header", "behavioral_inheritance")),
        DialectSignature(roots=("transmissionpacket",), children=("header", "session_chronicle")),
        DialectSignature(children=("header", "behavioral_inheritance"), json=True),
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


# The session form in JSON: header.packet_id, identity_context, behavioral_profile, cryptographic_integrity.

SESSION_JSON = Dialect(
    name="session_json",
    signatures=(
        DialectSignature(children=("header", "cryptographic_integrity")),
        DialectSignature(children=("header", "behavioral_profile", "session_state")),
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


# GAM Appendix B: snake_case sections, metrics as direct elements, repeated challenge_phrases; also as JSON.

GAM_APPENDIX_B = Dialect(
    name="gam_appendix_b",
    signatures=(
        DialectSignature(namespace="docs.google.com/transmission_packet"),
        DialectSignature(roots=("transmissionpacket", "packet"), children=("header", "behavior_profile", "body")),
        DialectSignature(children=("header", "behavior_profile", "body"), json=True),
    ),
    fields=FIELDS,
    sections=SECTIONS,
    metrics=METRICS,
)


# The reference form: transmissionPacket of ai-collaboration.org, camelCase sections; the same shape in JSON.

REFERENCE = Dialect(
    name="reference",
    signatures=(
        DialectSignature(namespace="ai-collaboration.org"),
        DialectSignature(roots=("transmissionpacket",), children=("header", "behaviorProfile")),
        DialectSignature(children=("header", "behaviorProfile"), json=True),
        DialectSignature(children=("header", "packetLoopClosure"), json=True),
    ),
    fields={**FIELDS, "timestamp": ("header/packet_created", *FIELDS["timestamp"])},
    sections=SECTIONS,
    metrics=METRICS,
)


# Anything well-formed: fields by their common names near the root, everything kept and searchable (decision 21).

GENERIC = Dialect(
    name="generic",
    signatures=(DialectSignature(),),
    fields={
        "id": ("**/packet_id", "@id", "id", "**/transmission_id", "header/id", "**/uuid", "**/id", "task_id"),
        "timestamp": (
            "**/timestamp",
            "**/packet_created",
            "**/created_at",
            "**/created",
            "**/create_time",
            "**/datetime",
            "**/date",
            "@timestamp",
            "@date",
            "@created",
        ),
        "schema_version": ("@version", "**/schema_version", "version"),
        "session_id": ("**/session_id", "**/conversation_id", "**/thread_id", "@session_id"),
        "original_model": (
            "**/original_model",
            "**/source_model",
            "**/source_model/model_name",
            "**/model_name",
            "**/model",
            "**/source_identity",
            "**/agent_type",
            "@model",
        ),
        "current_model": ("**/current_model", "**/target_model", "**/target_identity"),
        "researcher": ("**/researcher", "**/author", "**/user"),
        "topic": ("**/topic", "**/title", "**/subject", "**/purpose", "**/session_purpose", "**/persona", "@title"),
        "challenge_phrases": ("**/challenge_phrases",),
        "tags": ("**/tags", "**/keywords", "**/labels"),
        "notes": ("**/notes", "**/note"),
        "summary": ("**/summary", "**/session_summary", "**/abstract", "**/description"),
        "content": ("**/content", "**/text", "**/body"),
        "artifacts": ("**/artifacts", "**/key_artifacts", "**/session_artifacts"),
    },
    sections={
        **SECTIONS,
        "messages": "transcript",
        "turns": "transcript",
        "conversation": "transcript",
        "dialogue": "transcript",
        "chat": "transcript",
        "body/messages": "transcript",
        "instructions": "instructions",
        "forward_context": "instructions",
        "forward_directives": "instructions",
    },
    metrics=(*METRICS, "scores", "**/scores", "**/behavioral_inheritance", "**/behavior_profile"),
)


DIALECTS: tuple[Dialect, ...] = (
    SESSION_TURN,
    IRP_UNIVERSAL,
    ORCHESTRATOR,
    ORCHESTRATOR_HANDOFF,
    CRTP,
    SESSION_JSON,
    GAM_APPENDIX_B,
    REFERENCE,
    GENERIC,
)


def choose_dialect(document: Document) -> Dialect:
    """The first dialect one of whose signatures matches; never fails, for generic matches everything."""
    children = frozenset(child.name for child in document.root.children)
    for dialect in DIALECTS:
        if any(signature.matches(document, children) for signature in dialect.signatures):
            return dialect
    return GENERIC
