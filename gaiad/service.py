"""The only door: what intake may ask of gaiad. Each method takes checked structs and a Call, and returns structs.

It wires requests to the archive, the researcher and the job runner, and keeps the numbers `status` shows. Who may ask
for which tenant is intake's business; what a request means is the packages' below.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import msgspec

from council.initiative.initiative import Initiative
from gaiad.approving import Approving
from gaiad.archive.archive import LocalArchive
from gaiad.chat_schemas import ChatChannel
from gaiad.clock import Clock
from gaiad.condition import Condition, Place
from gaiad.config import Config
from gaiad.config_changes import changes
from gaiad.conversing import Conversations
from gaiad.counsel import Counsel
from gaiad.discording import Receipts
from gaiad.errors import BadInput, NotFound
from gaiad.events import EventHub
from gaiad.generating import Models
from gaiad.governing import Governing
from gaiad.ingest_schemas import IngestOutcome, IngestRequest
from gaiad.ingesting import IngestJob, check_paths, decode_outcomes, read_documents
from gaiad.jobs import JobRun, JobRunner
from gaiad.memory_api import MemoryApi
from gaiad.memory_schemas import MemoryPage
from gaiad.metrics import Metrics
from gaiad.ports import Call
from gaiad.researching import Researching
from gaiad.restoring import Restorer
from gaiad.roles import assign
from gaiad.routing import routing_of
from gaiad.run_events import OnEvent
from gaiad.schemas import (
    PacketDetail,
    PacketFilter,
    PacketSummary,
    ResearchRequest,
    ResearchResult,
    SearchRequest,
    SearchResponse,
    VerifyReport,
)
from gaiad.status_schemas import Check, Job, ReloadReport, Status
from gaiad.store.file import DatabaseFile
from gaiad.turn.company import rulebook
from gaiad.turn_runs import TurnRuns


class Service:
    """Made by the daemon; `start` registers and resumes jobs, `stop` ends them."""

    governance: Governing  # set by the daemon once the council is open
    counsel: Counsel  # and this
    initiative: Initiative  # likewise
    restorer: Restorer  # likewise
    approving: Approving  # likewise
    research_runs: Researching  # likewise
    receipts: Receipts  # likewise
    turn_runs: TurnRuns  # likewise

    def __init__(
        self,
        *,
        place: Place,
        load_config: Callable[[], Config],
        config: Config,
        clock: Clock,
        archive: LocalArchive,
        models: Models,
        conversations: Conversations,
        runner: JobRunner,
        hub: EventHub,
        metrics: Metrics,
        request_stop: Callable[[], None],
    ) -> None:
        self.place = place
        self.config = config
        self.clock = clock
        self.hub = hub
        self.metrics = metrics
        self.request_stop = request_stop
        self._load_config = load_config
        self._archive = archive
        self.feedback = archive.feedback
        self.models = models
        self.conversations = conversations
        self._runner = runner
        self.memory = MemoryApi(
            archive,
            clock,
            metrics,
            lambda: self.config,
            lambda: models.tokenizer("prime"),
            lambda: self.research_runs,
        )
        self.condition = Condition(lambda: self.place, clock, archive, runner, models, metrics)
        self.also_backed_up: list[Callable[[], dict[str, DatabaseFile]]] = []
        self.on_reload: list[Callable[[Config], None]] = []
        self.folders = self.condition.folders

    async def start(self) -> None:
        """Register what jobs do and go on with those a stop or crash interrupted."""
        self._runner.register("ingest", IngestJob(self._archive, self.config.intake.batch_files))
        self._runner.register("reindex", self._reindex)
        self._runner.register("sweep", self._sweep)
        await self._runner.resume()
        self.note(
            "research", "; ".join(await self.research_runs.resume(self._begun, self.config.http.request_timeout_s))
        )

    async def stop(self) -> None:
        """Stop running jobs; they go on at the next start."""
        await self._runner.stop()

    # ------------------------------------------------------------------------------------------------ health

    def note(self, topic: str, text: str) -> None:
        """Show `text` under degraded in status until the topic is noted again with ""."""
        self.condition.note(topic, text)

    async def status(self, call: Call, tenants: Sequence[str] | None = None) -> Status:
        """The whole state at a glance; only of `tenants` when given."""
        return await self.condition.status(tenants)

    async def doctor(self, call: Call) -> list[Check]:
        """What the daemon can say about itself; the command line adds what needs no daemon."""
        return await self.condition.doctor()

    # ------------------------------------------------------------------------------------------------ intake

    async def ingest(self, request: IngestRequest, call: Call) -> Job:
        """Start a job for paths, or store documents at once; the job holds the outcomes either way."""
        if request.documents:
            return await read_documents(self._archive, self._runner.jobs, request, call)
        check_paths(request.paths)
        job = await self._runner.submit("ingest", call.tenant, {"paths": request.paths}, request.idempotency_key)
        return await self._runner.wait(job.job_id) if request.wait else job

    async def outcomes(self, job_id: str, after: int, call: Call) -> list[IngestOutcome]:
        """Outcomes of an ingest job from number `after` + 1 on, as far as it came."""
        await self.job(job_id, call)
        return decode_outcomes(await asyncio.to_thread(self._runner.jobs.log, job_id, after))

    async def ingest_files(self, paths: Sequence[Path], call: Call, root: Path | None = None) -> list[IngestOutcome]:
        """Files a watched folder reported."""
        return await self._archive.ingest_files(paths, call, root)

    async def changed_files(self, paths: Sequence[Path], call: Call) -> list[Path]:
        """Those of `paths` that are new or have changed since they were read."""
        return await self._archive.changed_files(paths, call)

    async def quarantined(self, call: Call, limit: int = 100) -> list[dict[str, Any]]:
        """What could not be read, newest first, with line and reason."""
        return await self._archive.quarantined(call, limit)

    # ------------------------------------------------------------------------------------------------ memory

    async def search(self, request: SearchRequest, call: Call) -> SearchResponse:
        """Pages for a query (JIT, GAM 2)."""
        started = time.perf_counter()
        response = await self._archive.search(request, call)
        self.metrics.observe_ms(f"search_{request.mode}", (time.perf_counter() - started) * 1000)
        return response

    async def research(
        self,
        request: ResearchRequest,
        call: Call,
        on_event: OnEvent | None = None,
        channel: ChatChannel | None = None,
        research_id: str = "",
    ) -> ResearchResult:
        """An answer with verified citations (GAM 1 to 6), as `channel` may have it."""
        started = time.perf_counter()
        result = await self.research_runs.research(request, call, on_event, research_id)
        self.metrics.observe_ms("research", (time.perf_counter() - started) * 1000)
        self.metrics.count(f"research_{result.status.lower()}")
        return result if channel is None else await self.conversations.routed_result(result, channel, call)

    async def start_research(self, request: ResearchRequest, call: Call) -> str:
        """Research that goes on though nobody waits, also over a restart; its id. Raises Unavailable."""
        return await self.research_runs.start(request, call, self._begun)

    async def _begun(self, request: ResearchRequest, call: Call, research_id: str) -> ResearchResult:
        return await self.research(request, call, research_id=research_id)

    async def packets(self, request: PacketFilter, call: Call) -> list[PacketSummary]:
        """One line a packet."""
        return await self._archive.list_packets(request, call)

    async def packet(self, packet_id: str, call: Call) -> PacketDetail:
        """A packet whole."""
        return await self._archive.packet_detail(packet_id, call)

    async def hidden(self, names: Collection[str], call: Call) -> set[str]:
        """Those of these packet and page ids that the call may not see; none where there is no such tenant."""
        try:
            return await self._archive.hidden(names, call)
        except (NotFound, BadInput):
            return set()

    async def session_pages(self, session_id: str, after: int, limit: int, call: Call) -> list[MemoryPage]:
        """Pages of a session numbered above `after`, in order, each with JIT's header and its memo; [] when unknown."""
        return await self._archive.session_pages(session_id, call, after, limit)

    async def original(self, packet_id: str, revision: int, call: Call) -> tuple[bytes, str]:
        """The original bytes and their media type; revision 0 is the newest."""
        return await self._archive.original(packet_id, call, revision)

    async def verify(self, packet_ids: Sequence[str], call: Call) -> VerifyReport:
        """Hold packets (all, when none are named) against their stored originals."""
        return await self._archive.verify_packets(packet_ids or None, call, None)

    # -------------------------------------------------------------------------------------------- maintenance

    async def jobs(self, call: Call) -> list[Job]:
        """The tenant's jobs, newest first."""
        found = await asyncio.to_thread(self._runner.jobs.newest, (call.tenant,))
        return [self._runner.as_it_stands(job) for job in found]

    async def job(self, job_id: str, call: Call) -> Job:
        """One job of the tenant; another tenant's is not found."""
        job = await self._runner.get(job_id)
        if job.tenant != call.tenant:
            raise NotFound(f"no job is called {job_id!r}; `gaiad jobs` lists them")
        return job

    async def cancel_job(self, job_id: str, call: Call) -> Job:
        """Ask a job to stop."""
        await self.job(job_id, call)
        return await self._runner.cancel(job_id)

    async def reindex(self, call: Call) -> Job:
        """Start rebuilding everything derived from the originals."""
        return await self._runner.submit("reindex", call.tenant, {})

    async def sweep(self, call: Call) -> Job:
        """Start checking folders, database and indexes against each other."""
        return await self._runner.submit("sweep", call.tenant, {})

    async def backup(self, directory: str, call: Call) -> dict[str, Any]:
        """A consistent copy of everything, taken while others read and write. Raises BadInput for one in the home."""
        _refuse_within(self.place.home, Path(directory))
        return await self._archive.backup(Path(directory), await asyncio.to_thread(self._files_besides))

    async def restore(self, directory: str, call: Call) -> dict[str, Any]:
        """Put a backup in place as a whole; what was there is moved aside, never deleted."""
        report = await self.restorer.restore(Path(directory), self._files_besides)
        self.note("audit", self.restorer.audit_trouble)
        return report

    def _files_besides(self) -> dict[str, DatabaseFile]:
        """The databases that are not the memory's, by path under the home; for threads that may wait."""
        files = {"state.db": self._runner.jobs.file}
        for more in self.also_backed_up:
            files |= more()
        return files

    async def reload(self) -> ReloadReport:
        """Read the settings again. Raises ConfigError and keeps the last good ones when they do not fit."""
        fresh = self._load_config()
        assign(fresh.roles, fresh.models.known)
        rulebook(fresh.council)
        routing_of(fresh)
        report = changes(self.config, fresh)
        self.config = fresh
        for apply in self.on_reload:
            apply(fresh)
        return report

    def config_values(self) -> dict[str, Any]:
        """The settings in force."""
        values: dict[str, Any] = msgspec.to_builtins(self.config)
        return values

    async def _reindex(self, run: JobRun) -> dict[str, Any]:
        return await self._archive.reindex(run.call, run.record)

    async def _sweep(self, run: JobRun) -> dict[str, Any]:
        folders = [folder for folder, tenant in self.folders if tenant == run.call.tenant]
        report = await self._archive.sweep(folders, run.call)
        self.note("sweep", "; ".join(report["problems"][:3]))
        return report


def _refuse_within(home: Path, directory: Path) -> None:
    if directory.resolve().is_relative_to(home.resolve()):
        raise BadInput(f"{directory}: lies in the home {home} and would be lost with it; name a folder elsewhere")
