"""The daemon's API for a program on the same machine: HTTP over the unix socket, standard library only.

It exists so that the command line starts fast: no event loop, no aiohttp, no numpy. Routes and the structs of `schemas`
are named here; how they travel, and how errors come back, is `connection`'s business.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from msgspec import structs

from gaiad.chat_schemas import ChatRequest, PacketRecord, PersonaRow, Rendering, Replay
from gaiad.connection import ANSWER_TIMEOUT_S, CONNECT_TIMEOUT_S, Connection, ServerEvent, query_of
from gaiad.council_client import CouncilClient
from gaiad.ingest_schemas import IngestOutcome, IngestRequest
from gaiad.memory_schemas import MemoryPage, SessionSummary, SessionTurn
from gaiad.model_schemas import GenerateBody
from gaiad.run_client import RunClient
from gaiad.schemas import (
    Output,
    PacketDetail,
    PacketFilter,
    PacketSummary,
    ResearchRequest,
    ResearchResult,
    SearchRequest,
    SearchResponse,
    VerifyReport,
)
from gaiad.status_schemas import Check, Job, ModelStatus, ReloadReport, Status


class IngestAnswer(Output, frozen=True):
    """The job that reads the files, and what became of those already read."""

    job: Job
    outcomes: list[IngestOutcome]


class _SessionTurns(Output, frozen=True):
    session_id: str
    turns: list[SessionTurn]


class _SessionPages(Output, frozen=True):
    session_id: str
    pages: list[MemoryPage]


class _ModelRows(Output, frozen=True):
    models: list[ModelStatus]


class _Packets(Output, frozen=True):
    packets: list[PacketSummary]


class Client:
    """One connection, opened at the first call and kept; for one thread. `home` is what --home says, None without.

    Every method raises the GaiadError the daemon answered with, DaemonUnreachable when none answers, DaemonWentAway
    when it goes away under the call, DeadlineExceeded when it does not answer in time.
    """

    def __init__(self, home: Path | str | None = None, environment: Mapping[str, str] = os.environ) -> None:
        self._connection = Connection(str(home) if home else None, environment)
        self.runs = RunClient(self._connection)
        self.council = CouncilClient(self._connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def socket_path(self) -> Path:
        """Where the daemon is looked for."""
        return self._connection.socket_path

    def close(self) -> None:
        """Close the connection; the daemon cancels whatever it was still doing for it."""
        self._connection.close()

    # ------------------------------------------------------------------------------------------- the daemon itself

    def health(self) -> dict[str, Any]:
        return self._connection.call("GET", "/healthz", dict[str, Any], timeout_s=CONNECT_TIMEOUT_S)

    def status(self, tenant: str = "") -> Status:
        """The whole daemon, or with `tenant` that tenant's counts."""
        return self._connection.call("GET", f"/status{query_of(tenant=tenant)}", Status)

    def stop(self) -> dict[str, Any]:
        """Ask the daemon to stop; it answers before it has."""
        return self._connection.call("POST", "/stop", dict[str, Any], {})

    def config(self) -> dict[str, Any]:
        """The settings in effect, by section."""
        return self._connection.call("GET", "/config", dict[str, Any])

    def reload_config(self) -> ReloadReport:
        """Re-read the configuration. Raises ConfigError when it does not fit, and the last good one stays."""
        return self._connection.call("POST", "/config/reload", ReloadReport, {})

    def doctor(self) -> list[Check]:
        return self._connection.call("GET", "/doctor", dict[str, list[Check]], timeout_s=None)["checks"]

    # --------------------------------------------------------------------------------------------------- the archive

    def ingest(self, request: IngestRequest) -> IngestAnswer:
        return self._connection.call(
            "POST", "/ingest", IngestAnswer, request, timeout_s=None if request.wait else ANSWER_TIMEOUT_S
        )

    def search(self, request: SearchRequest) -> SearchResponse:
        return self._connection.call("POST", "/search", SearchResponse, request)

    def research(self, request: ResearchRequest) -> ResearchResult:
        return self._connection.call("POST", "/research", ResearchResult, request)

    def packets(self, request: PacketFilter) -> list[PacketSummary]:
        return self._connection.call("POST", "/packets/list", _Packets, request).packets

    def packet(self, packet_id: str, tenant: str) -> PacketDetail:
        return self._connection.call("POST", "/packets/show", PacketDetail, {"packet_id": packet_id, "tenant": tenant})

    def original(self, packet_id: str, tenant: str, revision: int = 0) -> bytes:
        """The packet's bytes as they came in; `revision` 0 is the newest."""
        body = {"packet_id": packet_id, "tenant": tenant, "revision": revision}
        return self._connection.exchange("POST", "/packets/export", body, ANSWER_TIMEOUT_S)

    def verify(self, packet_ids: list[str], tenant: str) -> VerifyReport:
        """Hold packets against their stored originals; [] is all of the tenant."""
        body = {"packet_ids": packet_ids, "tenant": tenant}
        return self._connection.call("POST", "/packets/verify", VerifyReport, body, timeout_s=None)

    def quarantine(self, tenant: str) -> list[dict[str, Any]]:
        answer = self._connection.call("GET", f"/quarantine{query_of(tenant=tenant)}", dict[str, list[dict[str, Any]]])
        return answer["quarantined"]

    def backup(self, directory: Path) -> dict[str, Any]:
        return self._connection.call("POST", "/backup", dict[str, Any], {"directory": str(directory)}, timeout_s=None)

    def restore(self, directory: Path) -> dict[str, Any]:
        return self._connection.call("POST", "/restore", dict[str, Any], {"directory": str(directory)}, timeout_s=None)

    # -------------------------------------------------------------------------------------------------------- models

    def models(self) -> list[ModelStatus]:
        """A row for each role, for each model without one, and for the embedder."""
        return self._connection.call("GET", "/models", _ModelRows).models

    def load_model(self, name: str) -> list[ModelStatus]:
        """Bring a model (or a role's) into memory and wait until it answers."""
        return self._connection.call("POST", "/models/load", _ModelRows, {"name": name}, timeout_s=None).models

    def unload_model(self, name: str) -> list[ModelStatus]:
        """Send a model to sleep. Raises Conflict when it is answering."""
        return self._connection.call("POST", "/models/unload", _ModelRows, {"name": name}, timeout_s=None).models

    def pin_model(self, name: str, pinned: bool) -> list[ModelStatus]:
        """Keep a model in memory, or no longer."""
        return self._connection.call("POST", "/models/pin", _ModelRows, {"name": name, "pinned": pinned}).models

    def generate_events(self, body: GenerateBody) -> Iterator[ServerEvent]:
        """Text as events `delta`; the last is `done` with a GenerateReply."""
        return self._connection.stream("POST", "/generate", structs.replace(body, stream=True))

    # -------------------------------------------------------------------------------------------------- conversations

    def chat_events(self, request: ChatRequest) -> Iterator[ServerEvent]:
        """A turn as it happens; the last event is `done` with a ChatAnswer."""
        return self._connection.stream("POST", "/chat", request)

    def render_packet(self, request: ChatRequest) -> Rendering:
        """What a turn would send."""
        return self._connection.call("POST", "/cognition/render", Rendering, request, timeout_s=None)

    def cognition_packet(self, packet: str, tenant: str) -> PacketRecord:
        """A packet that was sent, with what came back."""
        return self._connection.call("POST", "/cognition/show", PacketRecord, {"packet": packet, "tenant": tenant})

    def cognition_packets(self, tenant: str, limit: int, session_id: str = "") -> list[PacketRecord]:
        """The last ones, newest first."""
        body = {"tenant": tenant, "limit": limit, "session_id": session_id}
        return self._connection.call("POST", "/cognition/list", dict[str, list[PacketRecord]], body)["packets"]

    def replay_packet(self, packet: str, tenant: str, *, generate: bool) -> Replay:
        """Build a packet's prompt again, and with `generate` its reply."""
        body = {"packet": packet, "tenant": tenant, "generate": generate}
        return self._connection.call("POST", "/cognition/replay", Replay, body, timeout_s=None)

    def personas(self) -> list[PersonaRow]:
        """Those in force, by name."""
        return self._connection.call("GET", "/personas", dict[str, list[PersonaRow]])["personas"]

    def sessions(self, tenant: str, limit: int) -> list[SessionSummary]:
        """The one spoken in last first."""
        body = {"tenant": tenant, "limit": limit}
        return self._connection.call("POST", "/sessions/list", dict[str, list[SessionSummary]], body)["sessions"]

    def session_turns(self, session_id: str, tenant: str, limit: int) -> list[SessionTurn]:
        """The last turns of a session, in order."""
        body = {"session_id": session_id, "tenant": tenant, "limit": limit}
        return self._connection.call("POST", "/sessions/show", _SessionTurns, body).turns

    def session_pages(self, session_id: str, tenant: str, after: int, limit: int) -> list[MemoryPage]:
        """Pages of a session numbered above `after`, in order: JIT's header, memo and text."""
        body = {"session_id": session_id, "tenant": tenant, "after": after, "limit": limit}
        return self._connection.call("POST", "/sessions/pages", _SessionPages, body).pages

    # ---------------------------------------------------------------------------------------------------------- jobs

    def reindex(self, tenant: str) -> Job:
        """Start rebuilding everything derived from the originals."""
        return self._connection.call("POST", "/reindex", Job, {"tenant": tenant})

    def sweep(self, tenant: str) -> Job:
        """Start checking folders, database and indexes against each other."""
        return self._connection.call("POST", "/sweep", Job, {"tenant": tenant})

    def jobs(self, tenant: str = "") -> list[Job]:
        """Newest first, of `tenant` or of all."""
        return self._connection.call("GET", f"/jobs{query_of(tenant=tenant)}", dict[str, list[Job]])["jobs"]

    def job(self, job_id: str, tenant: str = "") -> Job:
        return self._connection.call("GET", _job_path(job_id, tenant=tenant), Job)

    def outcomes(self, job_id: str, after: int = 0, tenant: str = "") -> list[IngestOutcome]:
        """What became of the job's files, those after the first `after`."""
        path = _job_path(job_id, "/outcomes", after=str(after), tenant=tenant)
        return self._connection.call("GET", path, dict[str, list[IngestOutcome]])["outcomes"]

    def cancel_job(self, job_id: str, tenant: str = "") -> Job:
        """Ask a job to stop. Raises Conflict when it has ended."""
        return self._connection.call("POST", _job_path(job_id, "/cancel", tenant=tenant), Job, {})

    # -------------------------------------------------------------------------------------------------------- streams

    def events(self, after: int | None = None) -> Iterator[ServerEvent]:
        """What happens in the daemon, from event `after` on (None: from now), until the caller stops reading."""
        query = "" if after is None else f"?after={after}"
        return self._connection.stream("GET", f"/events{query}", None)

    def research_events(self, request: ResearchRequest) -> Iterator[ServerEvent]:
        """The steps of a research run as they happen; the last event is `result` with a ResearchResult."""
        return self._connection.stream("POST", "/research", request)

    # ------------------------------------------------------------------------------------------------------- exchange

    def get(self, path: str) -> Any:
        """GET `path` as decoded JSON, for routes that have no method here."""
        return self._connection.call("GET", path, object)

    def post(self, path: str, body: object) -> Any:
        """POST `body` as JSON to `path`; the decoded answer. No time limit."""
        return self._connection.call("POST", path, object, body, timeout_s=None)


def _job_path(job_id: str, rest: str = "", **given: str) -> str:
    return f"/jobs/{quote(job_id, safe='')}{rest}{query_of(**given)}"
