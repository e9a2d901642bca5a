"""`gaiad audit`: hold the audit's hash chain against itself, and write it out; a daemon may run or not.

It reads the home's files itself: whoever doubts the audit should not have to ask the daemon that writes it.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gaiad.base.errors import BadInput, GaiadError
from gaiad.cli.command import Verb, VerbGroup, invocation, print_result
from gaiad.cli.output import FAILED, counted, end, plain, warn

if TYPE_CHECKING:
    from gaiad.ledger.chain import ChainCheck

_SHA256 = re.compile(r"[0-9a-f]{64}")


@click.group(
    cls=VerbGroup,
    example="""
        gaiad audit verify
        gaiad audit export --output audit.jsonl
        gaiad audit verify audit.jsonl
    """,
)
def audit() -> None:
    """Verify and export decisions, approvals and changes of governance."""


@audit.command("verify", cls=Verb, example="gaiad audit verify --json | jq -r .head_sha256")
@click.argument("file", required=False, metavar="[FILE]", type=click.Path(dir_okay=False))
@click.option("--expect", default="", metavar="SHA256", help="A head you noted before; it must be in the chain.")
def verify(file: str | None, expect: str) -> None:
    """Find the first altered, missing or reordered row.

    In the home's audit, or in FILE, which gaiad audit export wrote. Note the head it prints: with --expect it proves
    later that nothing before it was changed since. Exits 1 when a row is wrong.
    """
    from gaiad.ledger.audit import verify_export, verify_home

    expected = expect.strip().lower()
    if expected and not _SHA256.fullmatch(expected):
        raise BadInput(f"--expect {expect!r}: give the 64 hexadecimal digits that gaiad audit verify printed")
    if file is not None:
        verdict = verify_export(Path(file).expanduser(), expected)
    else:
        verdict = verify_home(invocation().find_home().root, expected)
    print_result(verdict, verdict_text(verdict))
    if not verdict.ok:
        end(FAILED)


def verdict_text(verdict: "ChainCheck") -> str:
    """What was found, for people."""
    held = f"{counted(verdict.rows, 'row')} {'holds' if verdict.rows == 1 else 'hold'}"
    if verdict.ok:
        return f"{held}; head {verdict.head_sha256}"
    return f"{warn('problem: ')}{plain(verdict.problem)}\n{held} before it"


@audit.command("export", cls=Verb, example="gaiad audit export | jq -c '.body |= fromjson'")
@click.option("--output", metavar="FILE", default="-", help="Where to write; standard output without it.")
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
def export(output: str, force: bool) -> None:
    """Write all rows as JSON lines that verify by themselves.

    A row's body is a JSON string. Its sha256 is that of seven lines: the sha256 of the row before (64 zeros before the
    first), number, at, kind, tenant, actor, body.
    """
    from gaiad.ledger.audit import export_lines

    lines = export_lines(invocation().find_home().root)
    if output == "-":
        sys.stdout.flush()
        sys.stdout.buffer.writelines(lines)
        sys.stdout.buffer.flush()
        return
    target = Path(output).expanduser()
    rows = _write(target, lines, force)
    print_result({"path": str(target.absolute()), "rows": rows}, f"{target}: {counted(rows, 'row')}")


def _write(target: Path, lines: Iterator[bytes], force: bool) -> int:
    first = next(lines, b"")  # a home without an audit says so before a file is made
    rows = 1 if first else 0
    try:
        with target.open("wb" if force else "xb") as file:
            file.write(first)
            for line in lines:
                file.write(line)
                rows += 1
    except FileExistsError as error:
        raise BadInput(f"{target}: already exists; choose another --output or add --force") from error
    except OSError as error:
        raise GaiadError(f"{target}: cannot be written ({error.strerror}); choose another --output") from error
    return rows
