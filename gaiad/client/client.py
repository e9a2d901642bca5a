"""The daemon's API for a program on the same machine: HTTP over the unix socket, standard library only.

It exists so that the command line starts fast: no event loop, no aiohttp, no numpy. Routes and the structs of `schemas`
are named here; how they travel, and how errors come back, is `connection`'s business.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from msgspec import structs

from gaiad.client.connection import ANSWER_TIMEOUT_S, CONNECT_TIMEOUT_S, DaemonConnection, ServerEvent, query_of
from gaiad.wire.chat import ChatRequest, PacketRecord, PersonaRow, Rendering, Replay
from gaiad.wire.council import CouncilStatus, RateRequest, SeedRecord, TurnRecord
from gaiad.wire.generation import GenerateBody
from gaiad.wire.ingest import ImportOutcome, ImportRequest, IngestOutcome, IngestRequest
from gaiad.wire.memory import MemoryPage, SessionSummary, SessionTurn
from gaiad.wire.schemas import (
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
from gaiad.wire.status import Check, Job, ModelChoices, ModelStatus, ModelUsed, ProbeReport, ReloadReport, Status

if TYPE_CHECKING:
    from gaiad.wire.research import ResearchRun, RunRow, SourceText


class CouncilClient:
    """`Client.council`."""

    def __init__(self, connection: DaemonConnection) -> None:
        self._connection = connection

    def status(self, tenant: str) -> CouncilStatus:
        """Who is there, who can vote, what is voted on and what waits."""
        return self._connection.call("POST", "/council/status", CouncilStatus, {"tenant": tenant})

    def log(self, tenant: str, after: str, limit: int, *, heartbeats: bool) -> list[dict[str, Any]]:
        """Envelopes of GCP 8.1, oldest first: the first `limit` after the message `after`, without it the last."""
        body = {"tenant": tenant, "after": after, "limit": limit, "heartbeats": heartbeats}
        return self._connection.call("POST", "/council/log", dict[str, list[dict[str, Any]]], body)["messages"]

    def follow(self, tenant: str, after: str, limit: int, *, heartbeats: bool) -> Iterator[ServerEvent]:
        """What is stored, then what is said: events `message` with an envelope; `following` comes between the two.

        An event's id is where to go on after it.
        """
        body = {"tenant": tenant, "after": after, "limit": limit, "heartbeats": heartbeats}
        return self._connection.stream("POST", "/council/log", body)

    def seeds(self, tenant: str, limit: int, state: str | None = None) -> list[SeedRecord]:
        """Thoughts for later, newest first; only those in one state when it is given."""
        body = {"tenant": tenant, "limit": limit, "state": state}
        return self._connection.call("POST", "/council/seeds", dict[str, list[SeedRecord]], body)["seeds"]

    def turn(self, turn: str, tenant: str) -> TurnRecord:
        """A turn by its id or the eight digits shown."""
        return self._connection.call("POST", "/turns/show", TurnRecord, {"turn": turn, "tenant": tenant})

    def rate(self, request: RateRequest) -> TurnRecord:
        """Keep what the person thinks of a turn's answer."""
        return self._connection.call("POST", "/turns/rate", TurnRecord, request)

    def turns(self, tenant: str, limit: int, session_id: str = "") -> list[TurnRecord]:
        """The last ones, newest first."""
        body = {"tenant": tenant, "limit": limit, "session_id": session_id}
        return self._connection.call("POST", "/turns/list", dict[str, list[TurnRecord]], body)["turns"]


class RunClient:
    """`Client.runs`; the structs of a run take long to import, so only who reads one does."""

    def __init__(self, connection: DaemonConnection) -> None:
        self._connection = connection

    def start(self, request: ResearchRequest) -> str:
        """Research that goes on by itself, also over a restart of the daemon; its id."""
        return str(self._connection.call("POST", "/research/start", dict[str, str], request)["research_id"])

    def follow(self, research_id: str, tenant: str, after: int = 0) -> Iterator[ServerEvent]:
        """The events of a run above number `after`, until its last: `result` or `error`."""
        path = f"/research/{quote(research_id, safe='')}/events{query_of(tenant=tenant, after=str(after))}"
        return self._connection.stream("GET", path, None)

    def cancel(self, research_id: str, tenant: str) -> bool:
        """Break a started run off; False when it is at its end. Raises NotFound."""
        path = f"/research/{quote(research_id, safe='')}/cancel"
        return bool(self._connection.call("POST", path, dict[str, object], {"tenant": tenant})["cancelled"])

    def forget(self, research_id: str, tenant: str) -> None:
        """Take a kept run out for good. Raises NotFound, Conflict while it is under way."""
        self._connection.call(
            "POST", f"/research/{quote(research_id, safe='')}/forget", dict[str, object], {"tenant": tenant}
        )

    def show(self, research_id: str, tenant: str) -> "ResearchRun":
        """A kept run with its answer and payload. Raises NotFound."""
        from gaiad.wire.research import ResearchRun

        path = f"/research/{quote(research_id, safe='')}{query_of(tenant=tenant)}"
        return self._connection.call("GET", path, ResearchRun)

    def newest(self, tenant: str, limit: int, *, to_review: bool = False) -> "list[RunRow]":
        """The last ones, newest first; `to_review` those that are PARTIAL or answered with low confidence."""
        from gaiad.wire.research import RunRow

        path = f"/research{query_of(tenant=tenant, limit=str(limit), review='1' if to_review else '')}"
        return self._connection.call("GET", path, dict[str, list[RunRow]])["runs"]

    def review(self, research_id: str, tenant: str, *, done: bool = True) -> None:
        """Tick a run to review off, or put it back. Raises NotFound, Conflict while it is under way."""
        path = f"/research/{quote(research_id, safe='')}/review"
        self._connection.call("POST", path, dict[str, object], {"tenant": tenant, "done": done})

    def source(self, research_id: str, source_id: str, tenant: str) -> "SourceText":
        """The whole text of one source of a run."""
        from gaiad.wire.research import SourceText

        names = f"{quote(research_id, safe='')}/sources/{quote(source_id, safe='')}"
        return self._connection.call("GET", f"/research/{names}{query_of(tenant=tenant)}", SourceText)


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
        self._connection = DaemonConnection(str(home) if home else None, environment)
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

    def import_paths(self, request: ImportRequest) -> Job:
        """Start an import of files, folders or archives; the job tells how far it is."""
        return self._connection.call("POST", "/import", dict[str, Job], request)["job"]

    def quarantine(self, tenant: str) -> list[dict[str, Any]]:
        answer = self._connection.call("GET", f"/quarantine{query_of(tenant=tenant)}", dict[str, list[dict[str, Any]]])
        return answer["quarantined"]

    def quarantined_file(self, number: int, tenant: str) -> dict[str, Any]:
        """One file in quarantine, with the beginning of its text. Raises NotFound."""
        return self._connection.call("POST", "/quarantine/show", dict[str, Any], {"id": number, "tenant": tenant})

    def retry_quarantined(self, number: int, tenant: str) -> IngestOutcome:
        """Read it again. Raises NotFound, Conflict when there is nothing left to read."""
        return self._connection.call("POST", "/quarantine/retry", IngestOutcome, {"id": number, "tenant": tenant})

    def drop_quarantined(self, number: int, tenant: str) -> None:
        """Forget it; the file itself stays. Raises NotFound."""
        self._connection.call("POST", "/quarantine/drop", dict[str, Any], {"id": number, "tenant": tenant})

    def backup(self, directory: Path) -> dict[str, Any]:
        return self._connection.call("POST", "/backup", dict[str, Any], {"directory": str(directory)}, timeout_s=None)

    def restore(self, directory: Path) -> dict[str, Any]:
        return self._connection.call("POST", "/restore", dict[str, Any], {"directory": str(directory)}, timeout_s=None)

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

    def probe_model(self, name: str, again: bool) -> ProbeReport:
        """What a model can do, measured now when it is not known."""
        body = {"name": name, "again": again}
        return self._connection.call("POST", "/models/probe", ProbeReport, body, timeout_s=None)

    def model_choices(self) -> ModelChoices:
        """Well-known models by what fits the daemon's machine, and servers there."""
        return self._connection.call("GET", "/models/catalogue", ModelChoices)

    def use_model(self, what: str, role: str) -> ModelUsed:
        """Another model for a role, or for all ("")."""
        return self._connection.call("POST", "/models/use", ModelUsed, {"what": what, "role": role}, timeout_s=None)

    def generate_events(self, body: GenerateBody) -> Iterator[ServerEvent]:
        """Text as events `delta`; the last is `done` with a GenerateReply."""
        return self._connection.stream("POST", "/generate", structs.replace(body, stream=True))

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

    def rename_session(self, session_id: str, title: str, tenant: str) -> SessionSummary:
        """With "" it is shown by its first words again. Raises BadInput, NotFound."""
        body = {"session_id": session_id, "title": title, "tenant": tenant}
        return self._connection.call("POST", "/sessions/rename", SessionSummary, body)

    def session_pages(self, session_id: str, tenant: str, after: int, limit: int) -> list[MemoryPage]:
        """Pages of a session numbered above `after`, in order: JIT's header, memo and text."""
        body = {"session_id": session_id, "tenant": tenant, "after": after, "limit": limit}
        return self._connection.call("POST", "/sessions/pages", _SessionPages, body).pages

    def reindex(self, tenant: str) -> Job:
        """Start rebuilding everything derived from the originals."""
        return self._connection.call("POST", "/reindex", Job, {"tenant": tenant})

    def jobs(self, tenant: str = "") -> list[Job]:
        """Newest first, of `tenant` or of all."""
        return self._connection.call("GET", f"/jobs{query_of(tenant=tenant)}", dict[str, list[Job]])["jobs"]

    def job(self, job_id: str, tenant: str = "") -> Job:
        return self._connection.call("GET", _job_path(job_id, tenant=tenant), Job)

    def outcomes(self, job_id: str, after: int = 0, tenant: str = "") -> list[IngestOutcome]:
        """What became of the job's files, those after the first `after`."""
        path = _job_path(job_id, "/outcomes", after=str(after), tenant=tenant)
        return self._connection.call("GET", path, dict[str, list[IngestOutcome]])["outcomes"]

    def imported(self, job_id: str, after: int = 0, tenant: str = "") -> list[ImportOutcome]:
        """What became of the conversations of an import, those after the first `after`."""
        path = _job_path(job_id, "/outcomes", after=str(after), tenant=tenant)
        return self._connection.call("GET", path, dict[str, list[ImportOutcome]])["outcomes"]

    def cancel_job(self, job_id: str, tenant: str = "") -> Job:
        """Ask a job to stop. Raises Conflict when it has ended."""
        return self._connection.call("POST", _job_path(job_id, "/cancel", tenant=tenant), Job, {})

    def events(self, after: int | None = None) -> Iterator[ServerEvent]:
        """What happens in the daemon, from event `after` on (None: from now), until the caller stops reading."""
        query = "" if after is None else f"?after={after}"
        return self._connection.stream("GET", f"/events{query}", None)

    def research_events(self, request: ResearchRequest) -> Iterator[ServerEvent]:
        """The steps of a research run as they happen; the last event is `result` with a ResearchResult."""
        return self._connection.stream("POST", "/research", request)

    def get(self, path: str) -> Any:
        """GET `path` as decoded JSON, for routes that have no method here."""
        return self._connection.call("GET", path, object)

    def post(self, path: str, body: object) -> Any:
        """POST `body` as JSON to `path`; the decoded answer. No time limit."""
        return self._connection.call("POST", path, object, body, timeout_s=None)


def _job_path(job_id: str, rest: str = "", **given: str) -> str:
    return f"/jobs/{quote(job_id, safe='')}{rest}{query_of(**given)}"
