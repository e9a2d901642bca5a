"""The daily check: folders, database and indexes held against each other and against the originals.

What is derived is repaired on the spot; what is not (a damaged original, a corrupt file) is reported with its remedy.
"""

import os
import random
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gaiad.archive.dense.vector_index import VectorIndex
from gaiad.archive.keeping import verify
from gaiad.archive.keeping.verify import intact_bytes
from gaiad.archive.reading.derive import DERIVED_VERSION
from gaiad.archive.reading.disk import path_text, stamp_of
from gaiad.archive.reading.reader import ignored_reason
from gaiad.archive.storing import arrivals, records, sessions
from gaiad.archive.storing.tenant import Tenant

_NAMED = 5  # problems of one kind that are named one by one; the rest are counted
_CHUNK = 500


@dataclass(slots=True)
class SweepReport:
    """`checked` counts what was looked at by kind; `repaired` were problems and are none any longer."""

    checked: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    repaired: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return {"checked": self.checked, "problems": self.problems, "repaired": self.repaired}


def sweep(
    tenant: Tenant,
    folders: Sequence[Path],
    check: Callable[[], None],
    budget_s: float,
    monotonic: Callable[[], float],
) -> SweepReport:
    """Check one tenant, vectors apart; originals are re-hashed for at most `budget_s` seconds, in random order."""
    report = SweepReport()
    _check_file(tenant, report)
    check()
    _check_pages(tenant, report)
    _check_text_index(tenant, report)
    check()
    _check_originals(tenant, report, check, monotonic() + budget_s, monotonic)
    _check_folders(tenant, folders, report, check)
    return report


def sweep_vectors(indexes: Iterable[VectorIndex], report: SweepReport) -> None:
    """Load an index again from file and database when it disagrees with them."""
    for index in indexes:
        report.checked["vectors"] = report.checked.get("vectors", 0) + index.count
        problems = index.check()
        if not problems:
            continue
        index.load()
        left = index.check()
        loaded = [problem for problem in problems if problem not in left]
        report.repaired += [f"{problem}: loaded again from the database" for problem in loaded]
        report.problems += left


def _check_file(tenant: Tenant, report: SweepReport) -> None:
    report.checked["database"] = 1
    found = tenant.file.check()
    if not found:
        rows = tenant.file.read(lambda connection: connection.execute("PRAGMA foreign_key_check").fetchall())
        found = [f"{tenant.file.path}: {row[0]} row {row[1]} points to nothing" for row in rows]
    report.problems += [f"{problem}; restore the last backup (gaiad restore DIR)" for problem in found[:_NAMED]]


def _check_pages(tenant: Tenant, report: SweepReport) -> None:
    counts = tenant.file.read(_page_counts)
    report.checked["packets"] = counts["packets"]
    report.checked["pages"] = counts["pages"]
    for name, remedy in (
        ("packets without an original", "restore the last backup (gaiad restore DIR)"),
        ("packets whose pages are missing or out of order", "run gaiad reindex"),
        ("pages searched or left out against their packet's revision", "run gaiad reindex"),
        ("packets without exactly one current revision", "run gaiad reindex"),
        ("packets read by an older gaiad", "run gaiad reindex"),
        ("turns that belong to no session", "run gaiad reindex"),
        ("pages of turns without a memo, or with an older one", "run gaiad reindex"),
    ):
        if counts[name]:
            report.problems.append(f"{counts[name]} {name}; {remedy}")


def _page_counts(connection: sqlite3.Connection) -> dict[str, int]:
    queries = {
        "packets": "SELECT count(*) FROM packets",
        "pages": "SELECT count(*) FROM pages",
        "packets without an original": "SELECT count(*) FROM packets p"
        " WHERE NOT EXISTS (SELECT 1 FROM originals o WHERE o.packet = p.id)",
        "packets whose pages are missing or out of order": "SELECT count(*) FROM ("
        "SELECT packet FROM pages GROUP BY packet HAVING min(sequence) <> 0 OR max(sequence) + 1 <> count(*))",
        "pages searched or left out against their packet's revision": "SELECT count(*) FROM pages g"
        " JOIN packets p ON p.id = g.packet WHERE g.active <> p.current",
        "packets without exactly one current revision": "SELECT count(*) FROM ("
        "SELECT packet_id FROM packets GROUP BY packet_id HAVING sum(current) <> 1)",
        "packets read by an older gaiad": f"SELECT count(*) FROM packets WHERE derived_version < {DERIVED_VERSION}",
    }
    counts = {name: int(connection.execute(query).fetchone()[0]) for name, query in queries.items()}
    counts["turns that belong to no session"] = sessions.not_entered(connection)
    counts["pages of turns without a memo, or with an older one"] = sessions.outdated(connection)
    return counts


def _check_text_index(tenant: Tenant, report: SweepReport) -> None:
    report.checked["text_index"] = 1
    problem = tenant.file.write(records.check_text_contents)
    if problem:
        tenant.file.write(records.rebuild_text_index)
        report.repaired.append(f"{problem}: rebuilt from the pages")


def _check_originals(
    tenant: Tenant, report: SweepReport, check: Callable[[], None], until: float, monotonic: Callable[[], float]
) -> None:
    rowids = tenant.file.read(lambda connection: verify.row_ids(connection, None))
    random.shuffle(rowids)  # so that every original has its turn when the budget does not reach for all
    checked, problems = 0, []
    for rowid in rowids:
        check()
        try:
            intact_bytes(tenant.file.read(lambda connection, rowid=rowid: verify.load(connection, rowid)))  # type: ignore[misc]
        except ValueError as error:
            problems.append(str(error))
        checked += 1
        if monotonic() > until:
            break
    report.checked["originals"] = checked
    report.problems += _named(problems, "more originals are damaged")


def _check_folders(tenant: Tenant, folders: Sequence[Path], report: SweepReport, check: Callable[[], None]) -> None:
    """Files that were never read or changed since; and rows that speak of packets the database does not have."""
    lost = tenant.file.read(arrivals.without_packet)
    if lost:
        tenant.file.write(lambda connection: arrivals.forget(connection, lost))
        report.repaired += _named(
            [f"{path}: its packet is not in the database, it will be read again" for path in lost], "more"
        )
    report.checked["files"] = 0
    for folder in folders:
        if not folder.is_dir():
            report.problems.append(
                f"{folder}: the watched folder is gone; make it again or remove it from intake.folders"
            )
            continue
        unread: list[str] = []
        for chunk in _chunks(_files_below(folder)):
            check()
            names = [path_text(path) for path in chunk]
            known = tenant.file.read(lambda connection, names=names: arrivals.load(connection, names))  # type: ignore[misc]
            report.checked["files"] += len(chunk)
            for path, name in zip(chunk, names, strict=True):
                stamp = stamp_of(path)
                row = known.get(name)
                if stamp is not None and (row is None or not row.holds(stamp)) and not ignored_reason(name):
                    unread.append(f"{name}: not in the archive in its present state; the next rescan reads it")
        report.problems += _named(unread, f"more files in {folder} wait for the next rescan")


def _files_below(folder: Path) -> Iterator[Path]:
    for root, directories, names in os.walk(folder):
        directories.sort()
        yield from (Path(root) / name for name in sorted(names))


def _chunks(paths: Iterator[Path]) -> Iterator[list[Path]]:
    chunk: list[Path] = []
    for path in paths:
        chunk.append(path)
        if len(chunk) >= _CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _named(problems: list[str], rest: str) -> list[str]:
    return problems[:_NAMED] + ([f"{len(problems) - _NAMED} {rest}"] if len(problems) > _NAMED else [])
