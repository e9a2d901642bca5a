"""The vectors of one tenant in one space, in memory: a base part from a file and a small fresh part scanned exactly.

Below `exact_scan_max` vectors the base is exact too; above it the base is an hnswlib index, immutable, built in a child
and swapped in. The database is the truth: what a file does not cover, or covers wrongly, comes from there.
"""

import hashlib
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from gaiad.archive.dense import vector_file, vectors
from gaiad.archive.dense.exact_rows import ExactRows
from gaiad.archive.dense.hnsw_base import HnswBase, Ids, IndexParts, QueryScores, Vectors
from gaiad.archive.dense.hnsw_build import EXIT_LOW_RECALL, RECALL_FLOOR
from gaiad.archive.storing.catalogue import Version, read_version
from gaiad.archive.storing.tenant import Tenant
from gaiad.base.errors import BadInput

_TIMEOUT_S = 6 * 3600.0


class NotBuilt(Exception):
    """No new base could be built; the message gives the reason, as the end of a sentence."""


class LowRecall(NotBuilt):
    """Another build of the same vectors would find as little."""


class BaseBuild:
    """One build at a time. `run` blocks for minutes; `stop` may come from another thread, and holds for good."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._starting = threading.Lock()
        self._stopped = False

    def run(self, database: Path, space: int, fingerprint: str, folder: Path) -> vector_file.VectorManifest:
        """The manifest of the base that the child wrote into `folder`. Raises NotBuilt."""
        arguments = [str(database), str(space), fingerprint, str(folder)]
        try:
            child = self._start([sys.executable, "-m", "gaiad.archive.dense.hnsw_build", *arguments])
            output, errors = child.communicate(timeout=_TIMEOUT_S)
            status = child.returncode
        except (OSError, subprocess.TimeoutExpired) as error:
            self._end()
            raise NotBuilt(f"could not be built ({error})") from error
        finally:
            self._child = None
        if status == EXIT_LOW_RECALL:
            raise LowRecall(f"an hnswlib index would find less than {RECALL_FLOOR:.0%} of what a scan finds")
        if status:
            last = errors.decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
            raise NotBuilt(f"building ended with status {status} ({last[0]})")
        return msgspec.json.decode(output, type=vector_file.VectorManifest)

    def stop(self) -> None:
        """End a running build, or one about to run; what it wrote is removed with the next index."""
        with self._starting:
            self._stopped = True
        self._end()

    def _start(self, command: list[str]) -> subprocess.Popen[bytes]:
        """The child, which `stop` finds from now on. Raises NotBuilt after it."""
        with self._starting:
            if self._stopped:
                raise NotBuilt("was not built because the archive is closing")
            self._child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            return self._child

    def _end(self) -> None:
        child = self._child
        if child is not None:
            child.kill()
            child.wait()


_REBUILD_SHARE = 0.25
"""An hnswlib base is built again once this share of all vectors is fresh or dead, and before those outgrow a scan."""


_DEAD_SHARE = 0.1
"""Dead rows are freed with the next snapshot once they are this share of all that are scanned."""


class VectorIndex:
    """`load` first. `search` may run in any thread while others add or forget; the rest takes turns."""

    def __init__(self, tenant: Tenant, fingerprint: str, dimension: int, exact_scan_max: int) -> None:
        self.fingerprint = fingerprint
        self.dimension = dimension
        self.refusal = ""
        self._tenant = tenant
        self._exact_scan_max = exact_scan_max
        self.folder = tenant.vectors_root / hashlib.sha256(fingerprint.encode()).hexdigest()[:16]
        self._writing = threading.RLock()
        self._notes: list[str] = []
        self._space = 0
        self._parts = IndexParts.empty(dimension)
        self._build = BaseBuild()
        self._count = 0
        self._unwritten = 0
        self._refused_at = 0
        self._pending_seen: tuple[Version, int, int] | None = None
        self._scanned: tuple[Version, int] | None = None

    def indexes(self) -> list["VectorIndex"]:
        """Itself: one index is the simplest source of indexes."""
        return [self]

    @property
    def problems(self) -> list[str]:
        """What went wrong at loading, and why there is no hnswlib base (`refusal`) until there is one."""
        return [*self._notes, self.refusal] if self.refusal else [*self._notes]

    @property
    def count(self) -> int:
        """Living vectors."""
        return self._count

    @property
    def kind(self) -> str:
        """What the base part is: exact or hnsw."""
        return "hnsw" if self._parts.base else "exact"

    def load(self, now_ms: int = 0) -> None:
        """Read the index file, or the database where the file is missing or broken (then `problems` says so)."""
        with self._writing:
            self._space = self._tenant.file.write(
                lambda c: vectors.open_space(c, self.fingerprint, self.dimension, now_ms)
            )
            known = len(self._notes)
            self._tenant.file.read(self._load)
            if len(self._notes) > known and not self.wants_build:
                self._rewrite()

    def _rewrite(self) -> None:
        """Replace a broken file; one that cannot be written costs the next start some time and nothing else."""
        try:
            self.snapshot(force=True)
        except OSError as error:
            self._notes.append(
                f"vector index of {self._tenant.name}: not written ({error}); free space or move it away"
            )

    def _load(self, connection: sqlite3.Connection) -> None:
        version = read_version(connection)
        live = vectors.live_pages(connection, self._space)
        parts, covered = IndexParts.empty(self.dimension), np.zeros(0, np.int64)
        try:
            parts, covered = self._load_file(connection, version)
        except (vector_file.BrokenIndex, OSError) as error:
            self._notes.append(f"vector index of {self._tenant.name}: {error}; rebuilt from the database")
        missing = np.setdiff1d(live, covered, assume_unique=True)
        rows = parts.rows.with_room(len(missing))
        for ids, matrix in vectors.read_vectors(connection, self._space, missing, self.dimension):
            rows = rows.appended(ids, matrix)
        self._parts = IndexParts(rows, parts.base)
        gone = np.setdiff1d(covered, live, assume_unique=True)
        self._parts.bury(gone)
        self._count, self._unwritten = len(live), len(missing) + len(gone)

    def _load_file(self, connection: sqlite3.Connection, version: Version) -> tuple[IndexParts, Ids]:
        """The base part as its file has it, and the pages it covers. Raises BrokenIndex, OSError.

        A file that this space did not write counts for nothing: the folder is named by the fingerprint, and a space
        that had the same one before left it there.
        """
        nothing = IndexParts.empty(self.dimension), np.zeros(0, np.int64)
        written = "SELECT value FROM changes WHERE name = ?"
        if connection.execute(written, (vectors.written_mark(self._space),)).fetchone() is None:
            return nothing
        manifest = vector_file.read_manifest(self.folder)
        if manifest is None:
            raise vector_file.BrokenIndex(f"{self.folder / vector_file.MANIFEST} is missing")
        if (manifest.fingerprint, manifest.dimension) != (self.fingerprint, self.dimension):
            raise vector_file.BrokenIndex(
                f"{self.folder} holds the space {manifest.fingerprint} ({manifest.dimension}), not {self.fingerprint}"
            )
        if manifest.pages_change != version.pages:
            return nothing
        if manifest.kind == "hnsw":
            base = HnswBase(self.folder, manifest)
            return IndexParts(nothing[0].rows, base), base.ids
        ids = vector_file.read_ids(self.folder, manifest)
        return IndexParts(ExactRows.of(ids, vector_file.read_exact(self.folder, manifest)), None), ids

    def pending(self, limit: int, aside: Sequence[int] = ()) -> list[tuple[int, str]]:
        """(page id, text to embed) of pages that wait for a vector, oldest first, without those set `aside`."""

        def read(connection: sqlite3.Connection) -> list[tuple[int, str]]:
            version = read_version(connection)
            seen = self._scanned
            same = seen is not None and (seen[0].pages, seen[0].active) == (version.pages, version.active)
            after = seen[1] if seen is not None and same else 0
            waiting = vectors.pending_pages(connection, self._space, after, limit, aside)
            self._scanned = (version, waiting[0][0] - 1 if waiting else version.last_page)
            return waiting

        return self._tenant.file.read(read)

    def pending_count(self) -> int:
        """How many pages wait for a vector."""

        def read(connection: sqlite3.Connection) -> int:
            version = read_version(connection)
            if self._pending_seen is None or self._pending_seen[:2] != (version, self._count):
                (pages,) = connection.execute("SELECT count(*) FROM pages_text_docsize").fetchone()
                self._pending_seen = (version, self._count, max(0, int(pages) - self._count))
            return self._pending_seen[2]

        return self._tenant.file.read(read)

    def add(self, pages: Sequence[int], new: Vectors, texts: Sequence[str] = ()) -> None:
        """Make vectors (len(pages), dimension) durable, then searchable.

        Pages gone meanwhile are left out, and so are those that no longer say what of `texts` was embedded for them.
        """
        if new.shape != (len(pages), self.dimension):
            raise BadInput(
                f"{len(pages)} pages need vectors of shape ({len(pages)}, {self.dimension}), got {new.shape}"
            )
        if not len(pages):
            return
        if not vectors.storable(new).all():
            raise BadInput("a vector holds NaN or infinity; check the embedding model")
        bodies = vectors.to_stored(new)
        with self._writing:
            stored = self._tenant.file.write(
                lambda c: vectors.store_vectors(c, self._space, pages, bodies, texts), background=True
            )
            wanted = np.isin(np.array(pages, np.int64), np.array(stored, np.int64))
            ids = np.array(pages, np.int64)[wanted]
            rows = vectors.from_stored(
                [body for body, keep in zip(bodies, wanted, strict=True) if keep], self.dimension
            )
            self._count += len(ids) - self._parts.bury(ids)
            self._parts = IndexParts(self._parts.rows.appended(ids, rows), self._parts.base)
            self._unwritten += len(ids)

    def forget(self, pages: Sequence[int]) -> None:
        """Take pages out of the search at once; their rows go at the next snapshot."""
        with self._writing:
            buried = self._parts.bury(np.array(pages, np.int64))
            self._count -= buried
            self._unwritten += buried

    def compare(self, query: Vectors, count: int, allowed: Ids | None = None) -> QueryScores:
        """The `count` pages nearest to `query` (dimension,), only of `allowed` when given."""
        return self._parts.compare(query, count, allowed)

    def search(self, query: Vectors, count: int, allowed: Sequence[int] | Ids | None = None) -> tuple[Ids, Vectors]:
        """Ids and cosines of the `count` nearest pages, best first."""
        found = self.compare(query, count, None if allowed is None else np.array(allowed, np.int64))
        return found.ids, found.cosines

    def snapshot(self, *, force: bool = False) -> bool:
        """Write what is in memory as the index file, if that has changed (or `force`); True when it was written.

        An hnswlib base is left alone: its fresh part is read from the database at load.
        """
        with self._writing:
            if self._parts.base is not None or not (self._unwritten or force):
                return False
            version = self._tenant.file.read(read_version)
            ids, matrix = self._parts.rows.live()
            vector_file.write_exact(self.folder, ids, matrix, self.fingerprint, version.pages)
            if len(ids) < (1 - _DEAD_SHARE) * self._parts.rows.count:
                self._parts = IndexParts(ExactRows.of(ids, matrix), None)
            self._mark_written(len(ids))
            self._unwritten = 0
            return True

    def _mark_written(self, count: int) -> None:
        def mark(connection: sqlite3.Connection) -> None:
            vectors.delete_orphans(connection)
            connection.execute(
                "INSERT INTO changes VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                (vectors.written_mark(self._space), count),
            )

        self._tenant.file.write(mark)

    @property
    def wants_build(self) -> bool:
        """True when the vectors have outgrown an exact scan, or the hnswlib base covers too few of them."""
        if self._count <= self._exact_scan_max or self._count < self._refused_at * (1 + _REBUILD_SHARE):
            return False
        allowed = min(_REBUILD_SHARE * (self._exact_scan_max + self._count), self._exact_scan_max)
        return self._parts.base is None or self._unwritten > allowed

    def build_base(self) -> bool:
        """Build an hnswlib base in a child (minutes), check it, swap it in; the search goes on meanwhile.

        False, with the reason in `problems`, when recall@10 stays below 0.95 or the child fails: exact scans go on.
        """
        count = self._count
        try:
            manifest = self._build.run(self._tenant.file.path, self._space, self.fingerprint, self.folder)
            return self._swap_in(manifest, HnswBase(self.folder, manifest))
        except NotBuilt as error:
            self._refused_at = count if isinstance(error, LowRecall) else 0
            return self._refuse(count, str(error))
        except (vector_file.BrokenIndex, OSError) as error:
            return self._refuse(count, f"the built index is broken: {error}")

    def stop_build(self) -> None:
        """End a running build; what it wrote is removed with the next index."""
        self._build.stop()

    def _swap_in(self, manifest: vector_file.VectorManifest, base: HnswBase) -> bool:
        """Search `base` beside the vectors that came after it; False when pages were rewritten meanwhile."""
        with self._writing:
            if self._tenant.file.read(read_version).pages != manifest.pages_change:
                return False
            ids = self._parts.live_ids()
            fresh, matrix = self._parts.live(np.setdiff1d(ids, base.ids))
            base.bury(np.setdiff1d(base.ids, ids))
            vector_file.write_manifest(self.folder, manifest)
            self._mark_written(manifest.count)
            self._parts = IndexParts(ExactRows.of(fresh, matrix), base)
            self._unwritten, self._refused_at = len(fresh) + int((~base.alive).sum()), 0
            self.refusal = ""
            return True

    def _refuse(self, count: int, reason: str) -> bool:
        self.refusal = f"vector index of {self._tenant.name}: {reason}; searching {count} vectors exactly"
        return False

    def check(self) -> list[str]:
        """Hold index, file and database against each other; what does not agree, one line each. `load` repairs it.

        What does not agree at first is looked at again while nobody writes: vectors on their way are not damage.
        """
        if not self._disagreements():
            return []
        with self._writing:
            return self._disagreements()

    def _disagreements(self) -> list[str]:
        problems = []
        live = self._tenant.file.read(lambda c: vectors.live_pages(c, self._space))
        held = self._parts.live_ids()
        if not np.array_equal(held, live):
            missing, surplus = len(np.setdiff1d(live, held)), len(np.setdiff1d(held, live))
            problems.append(f"vector index of {self._tenant.name}: {missing} vectors missing, {surplus} too many")
        try:
            manifest = vector_file.read_manifest(self.folder)
            if manifest is not None:
                vector_file.verify(self.folder, manifest.ids)
                vector_file.verify(self.folder, manifest.rows)
        except (vector_file.BrokenIndex, OSError) as error:
            problems.append(f"vector index of {self._tenant.name}: {error}")
        return problems
