"""A service that answers from memory, so that intake is tested with real sockets and files and nothing behind them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from gaiad.base.clock import SystemClock
from gaiad.base.config import Config, load_config
from gaiad.base.errors import NotFound, Unavailable
from gaiad.base.events import EventHub
from gaiad.base.home import Home
from gaiad.base.metrics import Metrics
from gaiad.base.ports import RequestContext
from gaiad.intake.application import build_app, start_listener
from gaiad.intake.auth import PeerCheck
from gaiad.intake.doors import UnixDoor
from gaiad.intake.exchange import Route
from gaiad.intake.sockets import listen_unix
from gaiad.wire.ingest import IngestOutcome, IngestRequest
from gaiad.wire.schemas import ResearchRequest, ResearchResult, SearchRequest, SearchResponse
from gaiad.wire.status import Job, ReloadReport, Status


class Unscrubbed:
    """Conversations of a house in which nothing is scrubbed."""

    def scrubs(self, channel: str) -> bool:
        return False


class MemoryService:
    """What intake uses of the service. Search takes `search_takes_s`; files ingested are kept with their content."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.archive = self
        self.clock = SystemClock()
        self.hub = EventHub(self.clock)
        self.metrics = Metrics()
        self.folders: list[tuple[Path, str]] = []
        self.notes: dict[str, str] = {}
        self.conversations = Unscrubbed()
        self.calls: list[RequestContext] = []
        self.ingested: list[tuple[str, str, bytes]] = []  # tenant, path, content
        self.batches: list[int] = []
        self.unavailable = 0
        self.search_takes_s = 0.0
        self.search_error: Exception | None = None
        self.stopped = asyncio.Event()
        self._known: dict[Path, tuple[int, int]] = {}
        self._jobs: dict[str, Job] = {}

    def note(self, topic: str, text: str) -> None:
        self.notes[topic] = text
        if not text:
            del self.notes[topic]

    def request_stop(self) -> None:
        self.stopped.set()

    async def reload(self) -> ReloadReport:
        return ReloadReport(changed=[], restart_needed=[])

    async def status(self, call: RequestContext, tenants: Sequence[str] | None = None) -> Status:
        return Status(
            pid=1, version="0", uptime_s=0.0, home="", socket="", url="", packets=0, pages=0, vectors=0, queue=0,
            quarantined=0, models=[], degraded=[], tenants=["local", "work"] if tenants is None else list(tenants),
        )  # fmt: skip

    async def search(self, request: SearchRequest, call: RequestContext) -> SearchResponse:
        self.calls.append(call)
        if self.search_error is not None:
            raise self.search_error
        await asyncio.sleep(self.search_takes_s)
        return SearchResponse(hits=[], took_ms=0.0, degraded=[call.tenant])

    async def research(
        self, request: ResearchRequest, call: RequestContext, on_event: Any = None, channel: str | None = None
    ) -> ResearchResult:
        self.calls.append(call)
        if on_event is not None:
            on_event("searching", {"iteration": 1})
        if not request.query:
            raise NotFound("an empty question")
        await asyncio.sleep(self.search_takes_s)
        return ResearchResult(
            status="NOT_FOUND", answer=f"nothing about {request.query}", source_packets=[], citations=[],
            confidence=0.0, confidence_band="LOW", iterations_used=1, max_iterations=5, note="", suggestions=[],
            engine="test",
            took_ms=0.0,
        )  # fmt: skip

    async def ingest(self, request: IngestRequest, call: RequestContext) -> Job:
        job = Job(
            job_id=f"job_{len(self._jobs)}", kind="ingest", tenant=call.tenant, state="running", done=0, total=1,
            note="", created_at="", updated_at="",
        )  # fmt: skip
        self._jobs[job.job_id] = job
        asyncio.get_running_loop().call_later(0.05, self._end, job.job_id)
        return job

    def _end(self, job_id: str) -> None:
        job = self._jobs[job_id] = msgspec.structs.replace(self._jobs[job_id], state="done", done=1)
        self.hub.publish("job_ended", job.tenant, job_id=job_id)

    async def job(self, job_id: str, call: RequestContext) -> Job:
        job = self._jobs.get(job_id)
        if job is None or job.tenant != call.tenant:
            raise NotFound(f"no job is called {job_id}")
        return job

    async def jobs(self, call: RequestContext) -> list[Job]:
        return [job for job in self._jobs.values() if job.tenant == call.tenant]

    async def outcomes(self, job_id: str, after: int, call: RequestContext) -> list[IngestOutcome]:
        return [IngestOutcome(path="one", outcome="accepted")][after:]

    async def quarantined(self, call: RequestContext, limit: int = 100) -> list[dict[str, Any]]:
        return []

    async def original(self, packet_id: str, call: RequestContext, revision: int) -> tuple[bytes, str]:
        return b"<packet/>", "application/xml"

    async def changed_files(self, paths: Sequence[Path], call: RequestContext) -> list[Path]:
        return [path for path in paths if self._known.get(path) != _mark(path)]

    async def ingest_files(
        self, paths: Sequence[Path], call: RequestContext, root: Path | None = None
    ) -> list[IngestOutcome]:
        if self.unavailable:
            self.unavailable -= 1
            raise Unavailable("the disk is full", 0.1)
        self.batches.append(len(paths))
        outcomes = []
        for path in paths:
            try:
                content = path.read_bytes()
            except OSError as error:
                outcomes.append(IngestOutcome(path=str(path), outcome="failed", reason=str(error)))
                continue
            self._known[path] = _mark(path)
            self.ingested.append((call.tenant, str(path), content))
            outcomes.append(IngestOutcome(path=str(path), outcome="accepted"))
        return outcomes

    def contents(self) -> dict[str, bytes]:
        """What was ingested last under each file name."""
        return {Path(path).name: content for _, path, content in self.ingested}


def _mark(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except FileNotFoundError:
        return (0, 0)
    return status.st_size, status.st_mtime_ns


@pytest.fixture
def config() -> Config:
    return load_config((), {}, ("intake.settle_ms=60", "http.request_timeout_s=1.0", "http.max_body_bytes=65536"))


@pytest.fixture
async def service(config: Config) -> Any:
    return MemoryService(config)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    root = tmp_path.resolve() / "home"
    root.mkdir(mode=0o700)
    return Home(root, root / "gaiad.sock")


@pytest.fixture
def now() -> datetime:
    return datetime(2025, 11, 30, 12, 0, tzinfo=UTC)


@pytest.fixture
def serving(service: Any, home: Home) -> Any:
    """`async with serving(table()) as session`: the routes over the home's socket, behind `door`."""

    @asynccontextmanager
    async def served(routes: Sequence[Route], door: Any = None) -> AsyncIterator[aiohttp.ClientSession]:
        app = build_app(service, door or UnixDoor(PeerCheck(dict)), routes)
        runner = await start_listener(app, listen_unix(home.socket).socket, 0.5)
        connector = aiohttp.UnixConnector(str(home.socket), limit=0)
        async with aiohttp.ClientSession("http://localhost", connector=connector) as session:
            yield session
        await runner.cleanup()

    return served
