"""The ingest job: paths become a sorted list of files, read in batches, each batch durable before the cursor moves.

After a kill the job goes on behind its cursor; the batch that was under way is offered again, and what had already
been accepted from it is recognised by its bytes.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec

from gaiad.archive.archive import LocalArchive
from gaiad.errors import BadInput
from gaiad.ingest_schemas import IngestDocument, IngestOutcome, IngestRequest
from gaiad.jobs import JobRun
from gaiad.ports import Call
from gaiad.status_schemas import Job
from gaiad.store.jobs import Jobs

_FIRST_BATCH = 8


class IngestJob:
    """Work for jobs of kind `ingest`; payload {"paths": [...]}, cursor {"root": i, "path": last path done}."""

    def __init__(self, archive: LocalArchive, batch_files: int) -> None:
        self._archive = archive
        self._batch_files = batch_files

    async def __call__(self, run: JobRun) -> dict[str, Any]:
        roots = [Path(given) for given in run.payload["paths"]]
        files = await asyncio.to_thread(lambda: list(files_behind(roots, run.cursor)))
        done = run.job.done if run.cursor else 0
        total = done + len(files)
        tally: Counter[str] = Counter(run.cursor.get("tally", {}))
        await run.report(done, total)
        for root, batch in in_batches(files, self._batch_files):
            folder = roots[root] if roots[root].is_dir() else None
            outcomes = await self._archive.ingest_files(batch, run.call, folder)
            tally.update(outcome.outcome for outcome in outcomes)
            done += len(batch)
            cursor = {"root": root, "path": str(batch[-1]), "tally": dict(tally)}
            await run.report(done, total, cursor=cursor, log=[msgspec.json.encode(o) for o in outcomes])
        return dict(tally)


def files_behind(roots: Sequence[Path], cursor: dict[str, Any]) -> Iterator[tuple[int, Path]]:
    """(index of the root, file) in a fixed order, from behind the cursor on. Folders are walked, links are not."""
    first, last = int(cursor.get("root", 0)), str(cursor.get("path", ""))
    for index, root in enumerate(roots):
        if index < first:
            continue
        for file in _files_under(root):
            if index > first or not last or str(file) > last:
                yield index, file


def in_batches(files: Sequence[tuple[int, Path]], size: int) -> Iterator[tuple[int, list[Path]]]:
    """Batches of one root each: a small first one, so that a caller sees progress at once, then `size` files."""
    limit = min(_FIRST_BATCH, size)
    for root, group in groupby(files, key=itemgetter(0)):
        paths = [path for _, path in group]
        while paths:
            yield root, paths[:limit]
            paths, limit = paths[limit:], size


def _files_under(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    found = (Path(folder) / name for folder, _, names in os.walk(path) for name in names)
    yield from sorted(found, key=str)


def check_paths(paths: Sequence[str]) -> None:
    """Raise BadInput for a path that is not absolute or not there, before anything starts."""
    for text in paths:
        if not Path(text).is_absolute():
            raise BadInput(f"{text}: give an absolute path; the daemon does not share your working directory")
        if not os.path.lexists(text):
            raise BadInput(f"{text}: no such file or folder on the daemon's machine")


async def read_documents(archive: LocalArchive, jobs: Jobs, request: IngestRequest, call: Call) -> Job:
    """Store documents by value at once; the job of the same idempotency key when there was one."""
    job = await asyncio.to_thread(
        jobs.create, "ingest_documents", call.tenant, {}, len(request.documents), request.idempotency_key
    )
    if job.state != "queued":
        return job
    outcomes = await archive.ingest_documents(encoded(request.documents), call)
    log = [msgspec.json.encode(outcome) for outcome in outcomes]
    await asyncio.to_thread(jobs.progress, job.job_id, len(outcomes), len(outcomes), "", None, log)
    await asyncio.to_thread(jobs.finish, job.job_id, "done")
    return await asyncio.to_thread(jobs.get, job.job_id)


def encoded(documents: Sequence[IngestDocument]) -> list[tuple[str, bytes]]:
    """Documents by value as (name, bytes)."""
    return [(document.name, document.content.encode()) for document in documents]


def decode_outcomes(lines: Sequence[bytes]) -> list[IngestOutcome]:
    """Outcomes from a job's log lines."""
    return [msgspec.json.decode(line, type=IngestOutcome) for line in lines]
