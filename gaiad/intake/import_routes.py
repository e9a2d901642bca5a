"""The route of imports: paths on the daemon's machine, or one file sent as the body."""

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import IO
from uuid import uuid4

from gaiad.base.errors import BadInput, Unavailable
from gaiad.base.ports import RequestContext
from gaiad.intake.exchange import BODY_S, BodyTooLarge, Exchange, Reply, ReplyWithStatus, Route, TenantBody, asks
from gaiad.service.imports import UPLOADS, Upload
from gaiad.wire.ingest import ImportRequest
from gaiad.wire.schemas import DEFAULT_TENANT
from gaiad.wire.status import Job

UPLOAD_MAX_BYTES = 8 * 1024 * 1024 * 1024
_FREE_BYTES = 512 * 1024 * 1024  # left on the disk at the least
_CHUNK = 1 << 20


async def start_import(exchange: Exchange) -> Reply:
    """JSON names paths (the owner's only: the daemon would read its owner's files); any other body is a file.

    A file's name is in `?name=`, and so are `tenant`, `as_document` and `dry_run`. Answers as soon as the job is
    queued.
    """
    if exchange.request.content_type == "application/json" and "name" not in exchange.request.query:
        request = await exchange.body(ImportRequest)
        call = exchange.call(request.tenant)
        exchange.caller.require_owner("`paths`: reading the daemon's files (send the file itself)")
        if not request.paths:
            raise BadInput("/import: give at least one path")
        return ReplyWithStatus(202, {"job": await exchange.service.import_paths(request, call)})
    return ReplyWithStatus(202, {"job": await _upload(exchange)})


async def _upload(exchange: Exchange) -> Job:
    query = exchange.request.query
    name = PurePosixPath(query.get("name", "").replace("\\", "/")).name
    if not name or len(name.encode()) > 200 or not name.isprintable():
        raise BadInput("/import: give the file's name, such as POST /import?name=conversations.json")
    call: RequestContext = exchange.call(query.get("tenant", "") or DEFAULT_TENANT)
    folder = exchange.service.place.home / UPLOADS / uuid4().hex
    path = folder / f"upload{PurePosixPath(name).suffix[:20]}"
    await asyncio.to_thread(folder.mkdir, 0o700, parents=True)
    try:
        await _spool(exchange, path)
        return await exchange.service.import_upload(
            Upload(path, name, as_document=_flag(query, "as_document"), dry_run=_flag(query, "dry_run")), call
        )
    except BaseException:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        raise


async def _spool(exchange: Exchange, path: Path) -> None:
    """Write the body to `path`, a piece at a time. Raises BodyTooLarge, Unavailable when the disk would be full."""
    announced = exchange.request.content_length or 0
    limit = min(UPLOAD_MAX_BYTES, await asyncio.to_thread(_room, path.parent))
    stream: IO[bytes] = await asyncio.to_thread(path.open, "wb")
    written = 0
    try:
        if announced <= limit:
            while chunk := await _piece(exchange):
                written += len(chunk)
                limit = min(limit, written + await asyncio.to_thread(_room, path.parent))  # others write as well
                if written > limit:
                    break
                await asyncio.to_thread(stream.write, chunk)
    finally:
        await asyncio.to_thread(stream.close)
    if max(written, announced) <= limit:
        return
    if limit == UPLOAD_MAX_BYTES:
        raise BodyTooLarge(
            f"the file is larger than {UPLOAD_MAX_BYTES:,} bytes; import it from a terminal: gaiad import FILE"
        )
    raise Unavailable("not enough disk space for this file; free some and send it again")


def _room(folder: Path) -> int:
    """How many bytes more the disk may take."""
    return shutil.disk_usage(folder).free - _FREE_BYTES


async def _piece(exchange: Exchange) -> bytes:
    """The next piece of the body, b"" at its end. Raises BadInput when none comes."""
    try:
        async with asyncio.timeout(BODY_S):
            return await exchange.request.content.read(_CHUNK)
    except TimeoutError as error:
        raise BadInput(f"/import: the file stopped arriving for {BODY_S:g} s") from error


def _flag(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "").lower() in ("1", "true", "yes")


class QuarantineBody(TenantBody, frozen=True):
    """A file in quarantine by its number."""

    id: int


async def quarantine(exchange: Exchange) -> Reply:
    tenant = exchange.request.query.get("tenant", "") or DEFAULT_TENANT
    return {"quarantined": await exchange.service.archive.quarantined(exchange.call(tenant))}


show_quarantined = asks(QuarantineBody, lambda s, b, c: s.quarantined_file(b.id, c))
retry_quarantined = asks(QuarantineBody, lambda s, b, c: s.retry_quarantined(b.id, c))


async def drop_quarantined(exchange: Exchange) -> Reply:
    request = await exchange.body(QuarantineBody)
    await exchange.service.archive.drop_quarantined(request.id, exchange.call(request.tenant))
    return {"dropped": request.id}


def table() -> list[Route]:
    return [
        Route("POST", "/import", start_import, timed=False),
        Route("GET", "/quarantine", quarantine),
        Route("POST", "/quarantine/show", show_quarantined),
        Route("POST", "/quarantine/retry", retry_quarantined),
        Route("POST", "/quarantine/drop", drop_quarantined),
    ]
