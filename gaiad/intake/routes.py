"""The routes: each decodes a struct, checks the tenant by making a call, asks the service and hands back its answer."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

import msgspec
from aiohttp import web

import gaiad
from gaiad.base.config import config_sections
from gaiad.base.errors import BadInput, NotFound
from gaiad.base.tasks import TaskGroup
from gaiad.intake import (
    chat_routes,
    context_routes,
    council_routes,
    import_routes,
    mcp_routes,
    memory_routes,
    metrics_routes,
    model_routes,
    openai_responses,
    research_routes,
)
from gaiad.intake.exchange import Exchange, Reply, ReplyWithStatus, Route, TenantBody, asks, error_body
from gaiad.intake.streams import EventStream, wants_events
from gaiad.wire.ingest import IngestRequest
from gaiad.wire.schemas import DEFAULT_TENANT, Input, PacketFilter, ResearchRequest, SearchRequest
from gaiad.wire.status import Job

_ENDED = ("done", "failed", "cancelled")
_LARGEST = 2**31 - 1  # of a number that counts revisions or outcomes
_INGEST_PATIENCE = 0.9  # of the request's time, after which a waiting ingest answers with the job as it is


class PacketBody(TenantBody, frozen=True):
    packet_id: str
    revision: Annotated[int, msgspec.Meta(ge=0, le=_LARGEST)] = 0


class VerifyBody(TenantBody, frozen=True):
    packet_ids: list[str] = msgspec.field(default_factory=list)


class DirectoryBody(Input, frozen=True):
    directory: str


# ------------------------------------------------------------------------------------------------ state and settings


async def healthz(exchange: Exchange) -> Reply:
    return {"ok": True, "version": gaiad.__version__}


async def doctor(exchange: Exchange) -> Reply:
    return {"checks": await exchange.service.doctor(exchange.call(DEFAULT_TENANT))}


async def settings(exchange: Exchange) -> Reply:
    return config_sections(exchange.service.config)


async def reload_settings(exchange: Exchange) -> Reply:
    return await exchange.service.reload()


async def stop(exchange: Exchange) -> Reply:
    """Answer first, stop right after."""
    asyncio.get_running_loop().call_soon(exchange.service.request_stop)
    return {"stopping": True}


# -------------------------------------------------------------------------------------------------- ingest and jobs


async def ingest(exchange: Exchange) -> Reply:
    """Paths (the owner's only, for the daemon would read its owner's files) or documents."""
    request = await exchange.body(IngestRequest)
    call = exchange.call(request.tenant)
    if bool(request.paths) == bool(request.documents):
        raise BadInput("/ingest: send either `paths` or `documents`, with at least one entry")
    if request.paths:
        exchange.caller.require_owner("`paths`: reading the daemon's files (send `documents`)")
    newest = exchange.service.hub.last_id
    job = await exchange.service.ingest(msgspec.structs.replace(request, wait=False), call)
    if request.wait and job.state not in _ENDED:
        patience = exchange.service.config.http.request_timeout_s * _INGEST_PATIENCE
        job = await _ended_job(exchange, job, newest, patience)
    if job.state not in _ENDED:
        return ReplyWithStatus(202, {"job": job, "outcomes": []})
    return {"job": job, "outcomes": await exchange.service.outcomes(job.job_id, 0, call)}


async def _ended_job(exchange: Exchange, job: Job, after: int, patience_s: float) -> Job:
    """The job once it has ended, or as it is after `patience_s`."""
    call = exchange.call(job.tenant)
    events = exchange.service.hub.follow(after)
    try:
        async with asyncio.timeout(patience_s):
            async for event in events:
                ended = event.kind == "job_ended" and event.data.get("job_id") == job.job_id
                if (ended or event.missed) and (job := await exchange.service.job(job.job_id, call)).state in _ENDED:
                    break
    except TimeoutError:
        return await exchange.service.job(job.job_id, call)
    return job


async def list_jobs(exchange: Exchange) -> Reply:
    jobs = [job for tenant in await exchange.tenants() for job in await exchange.service.jobs(exchange.call(tenant))]
    return {"jobs": sorted(jobs, key=lambda job: job.job_id, reverse=True)}


async def _job(exchange: Exchange) -> Job:
    """The job in the path, in whichever of the caller's tenants it is."""
    job_id = exchange.request.match_info["job_id"]
    for tenant in await exchange.tenants():
        try:
            return await exchange.service.job(job_id, exchange.call(tenant))
        except NotFound:
            continue
    raise NotFound(f"no job is called {job_id!r}; `gaiad jobs` lists them")


async def show_job(exchange: Exchange) -> Reply:
    return await _job(exchange)


async def job_outcomes(exchange: Exchange) -> Reply:
    job, after = await _job(exchange), exchange.request.query.get("after", "0")
    if not (after.isascii() and after.isdigit() and len(after) < 10):
        raise BadInput(f"after={after!r}: give the number of outcomes already read")
    return {"outcomes": await exchange.service.outcomes(job.job_id, int(after), exchange.call(job.tenant))}


async def cancel_job(exchange: Exchange) -> Reply:
    job = await _job(exchange)
    return await exchange.service.cancel_job(job.job_id, exchange.call(job.tenant))


reindex = asks(TenantBody, lambda s, _, c: s.reindex(c))
sweep = asks(TenantBody, lambda s, _, c: s.sweep(c))


async def backup(exchange: Exchange) -> Reply:
    exchange.caller.require_terminal("backup")
    directory = _absolute((await exchange.body(DirectoryBody)).directory)
    return await exchange.service.backup(directory, exchange.call(DEFAULT_TENANT))


async def restore(exchange: Exchange) -> Reply:
    exchange.caller.require_terminal("restore")
    directory = _absolute((await exchange.body(DirectoryBody)).directory)
    return await exchange.service.restore(directory, exchange.call(DEFAULT_TENANT))


def _absolute(directory: str) -> str:
    if not Path(directory).is_absolute() or "\0" in directory:
        raise BadInput(f"directory = {directory!r}: give an absolute path; the daemon has its own working directory")
    return directory


# ----------------------------------------------------------------------------------------------------------- memory


search = asks(SearchRequest, lambda s, b, c: s.search(b, c))


async def research(exchange: Exchange) -> Reply:
    """One answer, or with `Accept: text/event-stream` its steps as events and the answer as the event `result`."""
    request = await exchange.body(ResearchRequest)
    call = exchange.call(request.tenant)
    if not wants_events(exchange.request):
        return await exchange.service.research(request, call, channel=exchange.channel)
    async with EventStream(exchange.request) as stream, TaskGroup("research") as tasks:
        events: asyncio.Queue[tuple[str, object]] = asyncio.Queue()

        def tell(name: str, data: dict[str, Any]) -> None:
            events.put_nowait((name, data))

        async def run() -> None:
            try:
                result = await exchange.service.research(request, call, tell, exchange.channel)
                events.put_nowait(("result", result))
            except Exception as error:  # noqa: BLE001  (sent to the reader; an unexpected one is logged with its id)
                events.put_nowait(("error", error_body(error, exchange.request.path)[1]))

        tasks.start("run", run())
        kind = ""
        while kind not in ("result", "error"):
            kind, data = await events.get()
            await stream.send(kind, await exchange.shown(data))
    return stream.response


list_packets = asks(PacketFilter, lambda s, b, c: s.archive.list_packets(b, c), "packets")
packet_timeline = asks(PacketFilter, lambda s, b, c: s.archive.timeline(b, c))
show_packet = asks(PacketBody, lambda s, b, c: s.archive.packet_detail(b.packet_id, c))


async def export_packet(exchange: Exchange) -> Reply:
    """The original bytes; a browser must save them, never show them. Not for a scrubbed reader."""
    exchange.require_unscrubbed("an original is not shown in part; gaiad packets export ID writes it")
    request = await exchange.body(PacketBody)
    call = exchange.call(request.tenant)
    content, media_type = await exchange.service.archive.original(request.packet_id, call, request.revision)
    return web.Response(body=content, content_type=media_type, headers={"Content-Disposition": "attachment"})


verify_packets = asks(VerifyBody, lambda s, b, c: s.archive.verify_packets(b.packet_ids or None, c, None))


def table() -> list[Route]:
    """Every route of the API, the same on both listeners."""
    job = "/jobs/{job_id}"
    return [
        Route("GET", "/healthz", healthz, public=True),
        *metrics_routes.table(),
        Route("POST", "/ingest", ingest),
        Route("GET", "/jobs", list_jobs),
        Route("GET", job, show_job),
        Route("GET", f"{job}/outcomes", job_outcomes, beside=True),
        Route("POST", f"{job}/cancel", cancel_job),
        Route("POST", "/search", search),
        Route("POST", "/research", research, plain=True, beside=True),
        Route("POST", "/packets/list", list_packets),
        Route("POST", "/packets/timeline", packet_timeline),
        Route("POST", "/packets/show", show_packet),
        Route("POST", "/packets/export", export_packet),
        Route("POST", "/packets/verify", verify_packets, timed=False),
        Route("POST", "/reindex", reindex, owner="reindex"),
        Route("POST", "/sweep", sweep, owner="sweep"),
        Route("POST", "/backup", backup, owner="backup", timed=False, plain=True),
        Route("POST", "/restore", restore, owner="restore", timed=False, plain=True),
        Route("POST", "/stop", stop, owner="stop"),
        Route("GET", "/config", settings, owner="reading the settings", plain=True),
        Route("POST", "/config/reload", reload_settings, owner="reloading the settings", plain=True),
        Route("GET", "/doctor", doctor, owner="doctor", timed=False, plain=True),
        *import_routes.table(),
        *model_routes.table(),
        *chat_routes.table(),
        *council_routes.table(),
        *research_routes.table(),
        *memory_routes.table(),
        *context_routes.table(),
        *openai_responses.table(),
        *mcp_routes.table(),
    ]
