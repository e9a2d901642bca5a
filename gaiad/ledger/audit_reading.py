"""The audit read by people: verified row by row and exported, whether a daemon runs or not.

Only reads, so it may run beside a daemon that writes. Memory stays flat over millions of rows.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from gaiad.base.errors import BadInput, Conflict, NotFound
from gaiad.ledger.audit import HEAD_NAME, SELECT_ROWS, newest_row, row_of
from gaiad.ledger.chain import ChainCheck, ChainHead, ChainRow, read_noted_head, walk
from gaiad.store.database import Damaged
from gaiad.store.home_databases import STATE_DATABASE, read_database


def verify_home(home: Path, expected_sha256: str = "") -> ChainCheck:
    """Walk along the whole audit of a home; damage of the file is a finding. Raises NotFound without an audit.

    `expected_sha256` is a head the caller noted: it must be in the chain.
    """
    noted, lost = _noted_head(home)
    counted = _Counted()
    try:
        with _reading(home) as connection:
            verdict = walk(counted.through(_rows(connection)), noted, expected_sha256)
    except Damaged as error:
        problem = f"the file cannot be read after row {counted.rows} ({error.__cause__}); restore it from a backup"
        return ChainCheck(
            ok=False, rows=counted.rows, head_sha256=counted.sha256, first_bad=counted.rows + 1, problem=problem
        )
    if verdict.ok and verdict.rows and lost:
        return msgspec.structs.replace(verdict, ok=False, first_bad=verdict.rows + 1, problem=lost)
    return verdict


def verify_copy(folder: Path) -> ChainCheck:
    """Walk along an audit that has no note of its head, as a backup's. Raises NotFound, Conflict."""
    with _reading(folder) as connection:
        return walk(_rows(connection), None, "")


def _noted_head(home: Path) -> tuple[ChainHead | None, str]:
    """The note of the head, or why there is none to hold the end against."""
    try:
        noted = read_noted_head(home / HEAD_NAME)
    except Conflict as error:
        return None, error.message
    problem = f"{HEAD_NAME} is missing, so a cut-off end cannot be detected; the next start creates it"
    return noted, "" if noted else problem


def verify_export(file: Path, expected_sha256: str = "") -> ChainCheck:
    """Walk along an exported file. Raises NotFound, and BadInput for a line that is not a row."""
    return walk(_exported_rows(file), None, expected_sha256)


def export_lines(home: Path) -> Iterator[bytes]:
    """All rows as JSON lines; `body` is a string, for its very bytes are under the hash."""
    with _reading(home) as connection:
        for row in _rows(connection):
            yield msgspec.json.encode(_printable(row)) + b"\n"


def newest_event(home: Path, kinds: tuple[str, ...]) -> ChainRow | None:
    """The last row of any of these kinds; None too without an audit."""
    if not (home / STATE_DATABASE).is_file():
        return None
    with _reading(home) as connection:
        return newest_row(connection, kinds)


class _Counted:
    """How far a walk came when the file itself gave out."""

    rows = 0
    sha256 = ""

    def through(self, rows: Iterator[ChainRow]) -> Iterator[ChainRow]:
        for row in rows:
            yield row
            self.rows, self.sha256 = row.number, row.sha256


@contextmanager
def _reading(home: Path) -> Iterator[sqlite3.Connection]:
    path = home / STATE_DATABASE
    if not path.is_file():
        raise NotFound(
            f"{home}: has no audit yet; the first start of gaiad creates it (or name another home with --home)"
        )
    with read_database(path) as connection:
        yield connection


def _rows(connection: sqlite3.Connection) -> Iterator[ChainRow]:
    for values in connection.execute(f"{SELECT_ROWS} ORDER BY number"):
        yield row_of(values)


def _exported_rows(file: Path) -> Iterator[ChainRow]:
    decoder = msgspec.json.Decoder(ChainRow)
    try:
        with file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    yield decoder.decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    raise BadInput(f"{file}: line {number} is not an exported row ({error})") from error
    except OSError as error:
        raise NotFound(
            f"{file}: cannot be read ({error.strerror}); give a file that gaiad audit export wrote"
        ) from error


def _printable(row: ChainRow) -> ChainRow:
    """With bytes that are not UTF-8 replaced: such a row is a bad one, and stays one."""
    texts = {name: value for name, value in msgspec.structs.asdict(row).items() if isinstance(value, str)}
    clean = {name: text.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for name, text in texts.items()}
    return msgspec.structs.replace(row, **clean)
