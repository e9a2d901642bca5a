"""The import job: steps of sources become conversations, each step durable before the cursor moves behind it.

After a kill the job goes on behind its cursor; what the step under way had stored is known by the import's own mark.
"""

import asyncio
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec

from gaiad.archive.archive import LocalArchive
from gaiad.archive.importing.conversation_store import DELETED, EMPTY
from gaiad.archive.importing.importer import ImportOptions
from gaiad.base.errors import BadInput
from gaiad.base.ports import RequestContext
from gaiad.service.jobs import JobRun
from gaiad.store.jobs import Jobs
from gaiad.wire.ingest import ImportOutcome, ImportSummary, IngestDocument, IngestOutcome, IngestRequest
from gaiad.wire.status import Job

UPLOADS = "uploads"
"""The folder of a home where files that are sent lie until they are imported."""
_LEFT_OUT = {
    EMPTY.reason: "empty conversations",
    DELETED.reason: "conversations deleted here before, which --again takes",
}
_CANDIDATES = 8
_TITLE_CHARS = 60
_NO_TITLE = re.compile(r"…$|[\[\]{}<>/\\_]|^\W*\w*\W*$")
"""Titles that make no question: cut off, of one word, file names, ids, or the mark of an attachment."""
_FILE_TITLES = frozenset(("specstory", "transcript", "thoughtstream"))


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that was sent: where it was put, in a folder of its own, and what its sender calls it."""

    path: Path
    name: str
    as_document: bool = False
    dry_run: bool = False


def sweep_uploads(folder: Path, payloads: Sequence[Mapping[str, Any]]) -> None:
    """Remove what was sent and belongs to none of these jobs: the daemon was killed while it came. Blocks."""
    ours = {Path(path).parent for payload in payloads if payload.get("upload") for path in payload["paths"]}
    for sent in folder.iterdir() if folder.is_dir() else ():
        if sent not in ours:
            shutil.rmtree(sent, ignore_errors=True)


class ImportJob:
    """Work for jobs of kind `import`; payload {paths, as_document, dry_run, upload}, cursor {source, items, tally}."""

    def __init__(self, archive: LocalArchive) -> None:
        self._archive = archive

    async def __call__(self, run: JobRun) -> dict[str, Any]:
        paths = [Path(given) for given in run.payload["paths"]]
        upload = str(run.payload.get("upload", ""))
        options = ImportOptions(
            import_id=run.job.job_id,
            as_document=bool(run.payload.get("as_document")),
            dry_run=bool(run.payload.get("dry_run")),
            upload=upload,
            again=bool(run.payload.get("again")),
            resumed=run.job.state == "running",
        )
        tally = msgspec.convert(run.cursor.get("tally", {}), ImportTally)
        async for step in self._archive.import_paths(paths, options, run.call, run.cursor):
            for outcome in step.outcomes:
                tally.add(outcome)
            log = [msgspec.json.encode(outcome) for outcome in step.outcomes]
            cursor = {**step.cursor, "tally": msgspec.to_builtins(tally)}
            await run.report(step.done, step.total, tally.note(), cursor=cursor, log=log)
        if upload:
            shutil.rmtree(paths[0].parent, ignore_errors=True)
        summary: dict[str, Any] = msgspec.to_builtins(tally.summary(dry_run=options.dry_run))
        return summary


class ImportTally(msgspec.Struct):
    """What an import has done so far; small enough for the job's cursor, however long the import."""

    conversations: int = 0
    notes: int = 0
    packets: int = 0
    first: str = ""
    last: str = ""
    outcomes: dict[str, int] = msgspec.field(default_factory=dict)
    left_out: dict[str, int] = msgspec.field(default_factory=dict)
    most_said: list[tuple[int, str]] = msgspec.field(default_factory=list)
    months: dict[str, int] = msgspec.field(default_factory=dict)

    def add(self, outcome: ImportOutcome) -> None:
        """Count one outcome."""
        self._count(self.outcomes, outcome.outcome)
        if outcome.outcome in ("refused", "failed"):
            return  # reported by name
        if outcome.outcome == "ignored":
            other = "lines that cannot be read" if outcome.line else "other files"
            self._count(self.left_out, _LEFT_OUT.get(outcome.reason, other))
            return
        for reason, number in outcome.left_out.items():
            self._count(self.left_out, reason, number)
        said = outcome.user_messages + outcome.assistant_messages
        self.packets += outcome.kind == "packet"
        self.conversations += said > 0 and outcome.part == 1
        self.notes += said == 0 and outcome.kind != "packet"
        if outcome.first_message:
            self.first = min(self.first or outcome.first_message, outcome.first_message)
            self.last = max(self.last, outcome.last_message)
        if said:
            self._count(self.months, outcome.first_message[:7])
            self._title(said, outcome)

    def _title(self, said: int, outcome: ImportOutcome) -> None:
        """Keep the titles of the conversations in which most was said."""
        title = outcome.title
        if len(title) <= _TITLE_CHARS and outcome.kind not in _FILE_TITLES and not _NO_TITLE.search(title):
            self.most_said = sorted({*self.most_said, (said, title)}, reverse=True)[:_CANDIDATES]

    def note(self) -> str:
        """What the progress line says."""
        return f"{self.conversations:,} conversations" if self.conversations else ""

    def summary(self, *, dry_run: bool) -> ImportSummary:
        """The import at its end, with questions about what most was said of, and about the month with most of it."""
        return ImportSummary(
            conversations=self.conversations,
            notes=self.notes,
            packets=self.packets,
            first=self.first,
            last=self.last,
            outcomes=self.outcomes,
            left_out=dict(Counter(self.left_out).most_common(12)),
            questions=_questions(self.most_said, self.months),
            dry_run=dry_run,
        )

    @staticmethod
    def _count(counts: dict[str, int], name: str, number: int = 1) -> None:
        counts[name] = counts.get(name, 0) + number


def _questions(titles: Sequence[tuple[int, str]], months: Mapping[str, int]) -> list[str]:
    """Up to three: two about titles, a title that is a question as it is, and one about the busiest month."""
    names = list(dict.fromkeys(title for _, title in titles))
    forms = ('What did we say about "{name}"?', 'When did we talk about "{name}"?')
    asked = [name if name.endswith("?") else form.format(name=name) for form, name in zip(forms, names, strict=False)]
    month = max((each for each in months if each), key=lambda each: (months[each], each), default="")
    if month:
        asked.append(f"What did we talk about in {datetime.fromisoformat(f'{month}-01'):%B %Y}?")
    return asked


def decode_imported(lines: Sequence[bytes]) -> list[ImportOutcome]:
    """Outcomes from a job's log lines."""
    return [msgspec.json.decode(line, type=ImportOutcome) for line in lines]


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


async def read_documents(archive: LocalArchive, jobs: Jobs, request: IngestRequest, call: RequestContext) -> Job:
    """Store documents by value at once; the job of the same idempotency key when there was one."""
    job = await jobs.create("ingest_documents", call.tenant, {}, len(request.documents), request.idempotency_key)
    if job.state != "queued":
        return job
    outcomes = await archive.ingest_documents(encoded(request.documents), call)
    log = [msgspec.json.encode(outcome) for outcome in outcomes]
    await jobs.progress(job, len(outcomes), len(outcomes), log=log)
    await jobs.finish(job, "done")
    return await jobs.get(call.tenant, job.job_id)


def encoded(documents: Sequence[IngestDocument]) -> list[tuple[str, bytes]]:
    """Documents by value as (name, bytes)."""
    return [(document.name, document.content.encode()) for document in documents]


def decode_outcomes(lines: Sequence[bytes]) -> list[IngestOutcome]:
    """Outcomes from a job's log lines."""
    return [msgspec.json.decode(line, type=IngestOutcome) for line in lines]
