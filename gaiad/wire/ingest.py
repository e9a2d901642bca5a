"""What comes into the archive, on the wire: files, folders or documents to read, and what became of each."""

from typing import Literal

from msgspec import field

from gaiad.wire.schemas import DEFAULT_TENANT, Input, IntegrityVerdict, Output, Tenant

Outcome = Literal["accepted", "duplicate", "revised", "quarantined", "ignored", "failed"]


class IngestDocument(Input, frozen=True):
    """A packet sent by value; `name` replaces the path."""

    name: str
    content: str


class IngestRequest(Input, frozen=True):
    """Files or folders on the daemon's machine (absolute paths), or documents by value.

    `wait` false answers as soon as the job is queued. An `idempotency_key` seen before answers with the earlier job.
    """

    paths: list[str] = field(default_factory=list)
    documents: list[IngestDocument] = field(default_factory=list)
    tenant: Tenant = DEFAULT_TENANT
    idempotency_key: str = ""
    wait: bool = True


class IngestOutcome(Output, frozen=True):
    """What became of one file. `reason` says why when the outcome is not accepted."""

    path: str
    outcome: Outcome
    packet_id: str = ""
    dialect: str = ""
    integrity: IntegrityVerdict | Literal[""] = ""
    reason: str = ""


ImportOutcomeKind = Literal["accepted", "revised", "duplicate", "ignored", "refused", "failed"]


class ImportRequest(Input, frozen=True):
    """Files, folders or archives on the daemon's machine (absolute paths).

    `as_document` takes well-formed XML and JSON of no known kind as one packet each. `dry_run` stores nothing.
    `again` also takes conversations that were deleted here one by one.
    """

    paths: list[str]
    tenant: Tenant = DEFAULT_TENANT
    as_document: bool = False
    dry_run: bool = False
    again: bool = False
    idempotency_key: str = ""


class ImportOutcome(Output, frozen=True):
    """What became of one conversation or note, or of a file that holds none (`kind` is "" then).

    `first_message` and `last_message` are UTC ISO 8601, "" when the source has no times. The counts are what a person
    sees in the source: no hidden messages, thoughts or tool calls. `reason` says why when the outcome is not accepted.
    `line` is set when only that line of `path` could not be read. `part` counts a long conversation's packets.
    """

    kind: str
    conversation_id: str
    title: str
    first_message: str
    last_message: str
    user_messages: int
    assistant_messages: int
    packet_id: str
    outcome: ImportOutcomeKind
    path: str = ""
    reason: str = ""
    left_out: dict[str, int] = field(default_factory=dict)
    line: int = 0
    part: int = 1


class ImportSummary(Output, frozen=True):
    """An import at its end. `conversations` have speakers, `notes` have none; `left_out` counts by reason."""

    conversations: int = 0
    notes: int = 0
    packets: int = 0
    first: str = ""
    last: str = ""
    outcomes: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    questions: list[str] = field(default_factory=list)
    dry_run: bool = False
