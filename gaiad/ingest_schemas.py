"""What comes into the archive, on the wire: files, folders or documents to read, and what became of each."""

from typing import Literal

from msgspec import field

from gaiad.schemas import DEFAULT_TENANT, Input, IntegrityVerdict, Output, Tenant

Outcome = Literal["accepted", "duplicate", "revised", "quarantined", "ignored", "failed"]


class IngestDocument(Input, frozen=True):
    """A packet sent by value; `name` stands in for the path."""

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
