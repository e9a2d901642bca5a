"""The only door: what intake may ask of gaiad. Methods take checked structs and a RequestContext, and return structs.

It wires requests to the archive, the researcher and the job runner, and keeps the numbers `status` shows. Who may ask
for which tenant is intake's business; what a request means is the packages' below.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from council.initiative.initiative import Initiative
from gaiad.archive.archive import LocalArchive
from gaiad.base.clock import Clock
from gaiad.base.config import Config, assign, changes
from gaiad.base.errors import BadInput, ConfigError, Conflict, NotFound
from gaiad.base.events import EventHub, OnEvent
from gaiad.base.ids import IdMaker
from gaiad.base.metrics import Metrics
from gaiad.base.ports import RequestContext
from gaiad.service.approvals import ApprovalService
from gaiad.service.backups import BackupService
from gaiad.service.chat_channels import Receipts
from gaiad.service.context import ContextService
from gaiad.service.conversations import Conversations
from gaiad.service.council import CouncilService
from gaiad.service.governance import GovernanceService
from gaiad.service.health import Condition, Place
from gaiad.service.imports import (
    UPLOADS,
    ImportJob,
    IngestJob,
    Upload,
    check_paths,
    decode_imported,
    decode_outcomes,
    read_documents,
    sweep_uploads,
)
from gaiad.service.jobs import JobRun, JobRunner
from gaiad.service.memory import ForgetService, MemoryApi, search
from gaiad.service.models import ROLES, Models, find, write, written
from gaiad.service.openai_api import OpenAiApi
from gaiad.service.research import ResearchService
from gaiad.service.turn_runs import TurnRuns
from gaiad.store.home_databases import HomeDatabases
from gaiad.turn.services import rulebook
from gaiad.wire.chat import ChatChannel
from gaiad.wire.ingest import ImportOutcome, ImportRequest, IngestOutcome, IngestRequest
from gaiad.wire.schemas import (
    ResearchRequest,
    ResearchResult,
    SearchRequest,
    SearchResponse,
)
from gaiad.wire.status import Check, Job, ModelUsed, ReloadReport, Status
from router.routing import routing_of

_SHOWN_BYTES = 4096  # of a file in quarantine


class Service:
    """Made by the daemon of parts that are open; `start` registers and resumes jobs, `stop` ends them."""

    def __init__(
        self,
        *,
        load_config: Callable[[], Config],
        config: Config,
        clock: Clock,
        databases: HomeDatabases,
        archive: LocalArchive,
        models: Models,
        conversations: Conversations,
        runner: JobRunner,
        research: ResearchService,
        context: ContextService,
        governance: GovernanceService,
        council: CouncilService,
        initiative: Initiative,
        approvals: ApprovalService,
        backups: BackupService,
        deletion: ForgetService,
        receipts: Receipts,
        turn_runs: TurnRuns,
        condition: Condition,
        hub: EventHub,
        metrics: Metrics,
        request_stop: Callable[[], None],
        on_reload: Sequence[Callable[[Config], None]],
    ) -> None:
        self.config = config
        self.clock = clock
        self.hub = hub
        self.metrics = metrics
        self.request_stop = request_stop
        self.models = models
        self.conversations = conversations
        self.governance = governance
        self.counsel = council
        self.initiative = initiative
        self.approving = approvals
        self.research_runs = research
        self.context = context
        self.receipts = receipts
        self.turn_runs = turn_runs
        self.condition = condition
        self.folders = condition.folders
        self.feedback = archive.feedback
        self.on_reload = [*on_reload]
        self._backups = backups
        self.deletion = deletion
        self._load_config = load_config
        self._databases = databases
        self.archive = archive
        self._runner = runner
        self.memory = MemoryApi(
            archive, clock, metrics, lambda: self.config, lambda: models.tokenizer("prime"), lambda: research
        )
        self.openai = OpenAiApi(models, conversations, archive, IdMaker(clock))
        runner.register("ingest", IngestJob(archive, config.intake.batch_files))
        runner.register("import", ImportJob(archive))
        runner.register("reindex", self._reindex)
        runner.register("sweep", self._sweep)

    async def start(self) -> None:
        """Go on with the jobs that a stop or crash interrupted."""
        await self.resume_jobs()
        if not self._databases.problems():  # else a job may wait that cannot be read now
            await asyncio.to_thread(sweep_uploads, self.place.home / UPLOADS, self._runner.payloads("import"))

    async def resume_jobs(self) -> None:
        """Start every job in the tables that does not run."""
        await self._runner.resume(await asyncio.to_thread(self._databases.tenants))

    async def stop(self) -> None:
        """Stop running jobs; they go on at the next start."""
        await self._runner.stop()

    @property
    def place(self) -> Place:
        """Where this daemon lives and listens."""
        return self.condition.place

    # ------------------------------------------------------------------------------------------------ health

    def note(self, topic: str, text: str) -> None:
        """Show `text` under degraded in status until the topic is noted again with ""."""
        self.condition.note(topic, text)

    async def status(self, call: RequestContext, tenants: Sequence[str] | None = None) -> Status:
        """The whole state at a glance; only of `tenants` when given."""
        return await self.condition.status(tenants)

    async def doctor(self, call: RequestContext) -> list[Check]:
        """What the daemon can say about itself; the command line adds what needs no daemon."""
        return await self.condition.doctor()

    # ------------------------------------------------------------------------------------------------ intake

    async def ingest(self, request: IngestRequest, call: RequestContext) -> Job:
        """Start a job for paths, or store documents at once; the job holds the outcomes either way."""
        if request.documents:
            return await read_documents(self.archive, self._runner.jobs, request, call)
        check_paths(request.paths)
        job = await self._runner.submit("ingest", call.tenant, {"paths": request.paths}, request.idempotency_key)
        return await self._runner.wait(job) if request.wait else job

    async def import_paths(self, request: ImportRequest, call: RequestContext) -> Job:
        """Start an import of files, folders or archives on this machine. Raises BadInput for a missing path."""
        check_paths(request.paths)
        payload = {
            "paths": request.paths,
            "as_document": request.as_document,
            "dry_run": request.dry_run,
            "again": request.again,
        }
        return await self._runner.submit("import", call.tenant, payload, request.idempotency_key)

    async def import_upload(self, upload: Upload, call: RequestContext) -> Job:
        """Start an import of what was sent; the file is the job's from here on, and gone when it has ended."""
        payload = {
            "paths": [str(upload.path)],
            "upload": upload.name,
            "as_document": upload.as_document,
            "dry_run": upload.dry_run,
        }
        return await self._runner.submit("import", call.tenant, payload)

    async def outcomes(
        self, job_id: str, after: int, call: RequestContext
    ) -> list[IngestOutcome] | list[ImportOutcome]:
        """Outcomes of an ingest or import job from number `after` + 1 on, as far as it came."""
        job = await self.job(job_id, call)
        lines = await self._runner.jobs.log(call.tenant, job_id, after)
        return decode_imported(lines) if job.kind == "import" else decode_outcomes(lines)

    async def ingest_files(
        self, paths: Sequence[Path], call: RequestContext, root: Path | None = None
    ) -> list[IngestOutcome]:
        """Files a watched folder reported: packets are stored at once, exports by a job of their own."""
        exports = await self.archive.exports_among(paths, call)
        outcomes = await self.archive.ingest_files([path for path in paths if path not in exports], call, root)
        if wanted := [path for path, refusal in exports.items() if not refusal]:
            job = await self._runner.submit("import", call.tenant, {"paths": [str(path) for path in wanted]})
            await self.archive.handed_to_import(wanted, job.job_id, call)
            reason = f"an export, read by {job.job_id}"
            outcomes += [IngestOutcome(path=str(path), outcome="accepted", reason=reason) for path in wanted]
        if refused := {path: refusal for path, refusal in exports.items() if refusal}:
            outcomes += await self.archive.refuse_files(refused, call)
        return outcomes

    async def quarantined_file(self, number: int, call: RequestContext) -> dict[str, Any]:
        """One file in quarantine, with the first of its bytes as text when they were kept. Raises NotFound."""
        row, kept = await self.archive.quarantined_file(number, call)
        return {**row, "text": (kept or b"")[:_SHOWN_BYTES].decode("utf-8", "replace")}

    async def retry_quarantined(self, number: int, call: RequestContext) -> IngestOutcome:
        """Read a file in quarantine again, from its place or else from the bytes that were kept. Raises NotFound."""
        row, kept = await self.archive.quarantined_file(number, call)
        path = Path(row["path"])
        if await asyncio.to_thread(path.is_file):
            (outcome,) = await self.ingest_files([path], call)
        elif kept is not None:
            (outcome,) = await self.archive.ingest_documents([(row["path"], kept)], call)
        else:
            raise Conflict(f"{row['path']}: the file is gone and its bytes were not kept; drop it from quarantine")
        if outcome.outcome == "accepted" and row["kept"] is False:
            await self.archive.drop_quarantined(number, call)
        return outcome

    # ------------------------------------------------------------------------------------------------ memory

    async def search(self, request: SearchRequest, call: RequestContext) -> SearchResponse:
        """Pages for a query (JIT, GAM 2); those that gaiad wrote itself only where they are asked for."""
        started = time.perf_counter()
        response = await search(self.archive, request, call)
        self.metrics.observe_ms(f"search_{request.mode}", (time.perf_counter() - started) * 1000)
        return response

    async def research(
        self,
        request: ResearchRequest,
        call: RequestContext,
        on_event: OnEvent | None = None,
        channel: ChatChannel | None = None,
    ) -> ResearchResult:
        """An answer with verified citations (GAM 1 to 6), as `channel` may have it."""
        result = await self.research_runs.research(request, call, on_event)
        return result if channel is None else await self.conversations.routed_result(result, channel, call)

    async def hidden(self, names: Collection[str], call: RequestContext) -> set[str]:
        """Those of these packet and page ids that the call may not see; none for an unknown tenant."""
        try:
            return await self.archive.hidden(names, call)
        except (NotFound, BadInput):
            return set()

    # -------------------------------------------------------------------------------------------- maintenance

    async def jobs(self, call: RequestContext) -> list[Job]:
        """The tenant's jobs, newest first."""
        return [self._runner.current(job) for job in await self._runner.jobs.newest(call.tenant)]

    async def job(self, job_id: str, call: RequestContext) -> Job:
        """One job of the tenant. Raises NotFound."""
        return await self._runner.get(call.tenant, job_id)

    async def cancel_job(self, job_id: str, call: RequestContext) -> Job:
        """Ask a job to stop. Raises NotFound, Conflict when it has ended."""
        return await self._runner.cancel(call.tenant, job_id)

    async def reindex(self, call: RequestContext) -> Job:
        """Start rebuilding everything derived from the originals."""
        return await self._runner.submit("reindex", call.tenant, {})

    async def sweep(self, call: RequestContext) -> Job:
        """Start checking folders, database and indexes against each other."""
        return await self._runner.submit("sweep", call.tenant, {})

    async def backup(self, directory: str, call: RequestContext) -> dict[str, Any]:
        """A consistent copy of everything, taken while others read and write. Raises BadInput for one in the home."""
        return await self._backups.backup(Path(directory))

    async def restore(self, directory: str, call: RequestContext) -> dict[str, Any]:
        """Put a backup in place as a whole; what was there is moved aside, never deleted."""
        return await self._backups.restore(Path(directory))

    async def reload(self) -> ReloadReport:
        """Read the settings again. Raises ConfigError and keeps the last good ones when they do not fit."""
        fresh = self._load_config()
        assign(fresh.roles, fresh.models.known)
        rulebook(fresh.council)
        routing_of(fresh)
        report = changes(self.config, fresh)
        if (fresh.roles, fresh.models.known) != (self.config.roles, self.config.models.known):
            await self.models.reassign(fresh)
        self.config = fresh
        for apply in self.on_reload:
            apply(fresh)
        return report

    async def use_model(self, what: str, role: str, call: RequestContext) -> ModelUsed:
        """Another model for a role, or for all: tried with a question, written to the settings, in use at once.

        Raises BadInput, Conflict, Unavailable, each with one remedy; nothing has changed then.
        """
        if role and role not in ROLES:
            raise BadInput(f"{role!r} is not a role; roles are {', '.join(ROLES)}")
        roles, started = [role] if role else [*ROLES], self.clock.monotonic()
        name, model = await asyncio.to_thread(find, what, self.config)
        answer = await self.models.try_out(name, model, call)
        path = self.condition.place.home / "config.toml"
        before = path.read_text(encoding="utf-8") if path.is_file() else ""
        write(path, written(before, name, model, roles))
        try:
            await self.reload()
        except ConfigError:
            write(path, before)
            raise
        if others := [one for one in roles if getattr(self.config.roles, one) != name]:
            write(path, before)
            await self.reload()
            raise Conflict(f"roles.{others[0]} is set by the environment or by --set; remove that, then try again")
        kind = model.kind if model else next((row.kind for row in self.models.statuses() if row.name == name), name)
        seconds = round(self.clock.monotonic() - started, 1)
        return ModelUsed(name=name, kind=kind, roles=[*roles], answer=answer, seconds=seconds, settings=str(path))

    async def use_built_models(self) -> None:
        """llama.cpp is there at last: start what waited for it, under the settings as they are now."""
        try:
            await self.reload()
            self.note("config", "")
        except ConfigError as error:
            self.note("config", f"settings not reloaded: {error.message}")
        await self.models.begin(self.config)

    async def _reindex(self, run: JobRun) -> dict[str, Any]:
        return await self.archive.reindex(run.call, run.record)

    async def _sweep(self, run: JobRun) -> dict[str, Any]:
        folders = [folder for folder, tenant in self.folders if tenant == run.call.tenant]
        report = await self.archive.sweep(folders, run.call)
        self.note("sweep", "; ".join(report["problems"][:3]))
        return report
