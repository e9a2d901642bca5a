"""`gaiad packets`: the Transmission Packets kept, one by one: list, show, verify, export."""

import sys
from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gaiad.base.errors import BadInput, DaemonUnreachable, GaiadError
from gaiad.cli.command import Verb, VerbGroup, invocation, print_result, tenant_option
from gaiad.cli.flags import filter_options, filters_from, user_zone
from gaiad.cli.output import (
    FAILED,
    bold,
    counted,
    cut_line,
    date_of,
    dim,
    end,
    plain,
    size,
    table,
    terminal_width,
    warn,
    wrap,
    write_json,
)

if TYPE_CHECKING:
    from gaiad.wire.schemas import PacketDetail, PacketSummary, VerifyReport

_LONGEST = 40
_OWN_CHAT = "session_turn"


@click.group(
    cls=VerbGroup,
    example="""
        gaiad packets list --topic consent
        gaiad packets show tp-20251130-154500 --pages
        gaiad packets verify
        gaiad packets export tp-20251130-154500 --output packet.xml
    """,
)
def packets() -> None:
    """List, show, verify and export Transmission Packets."""


@packets.command("list", cls=Verb, example="gaiad packets list --since 2025-11-01 --order earliest --json")
@filter_options
@click.option(
    "--order", type=click.Choice(["earliest", "latest"]), default="latest", show_default=True, help="First to come."
)
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 10000), help="At most this many.")
@click.option("--include-chats", is_flag=True, help="Also the turns of chats with gaiad.")
@click.option("--offset", default=0, type=click.IntRange(0), help="Leave out this many first.")
@tenant_option
def list_packets(tenant: str, **given: Any) -> None:
    """List packets, the newest first, without chats with gaiad."""
    from gaiad.wire.schemas import PacketFilter

    with invocation().client() as client:
        request = PacketFilter(
            tenant=tenant,
            filters=filters_from(given),
            order=given["order"],
            limit=given["limit"],
            offset=given["offset"],
            include_chats=given["include_chats"],
        )
        found = client.packets(request)
    if invocation().as_json:
        write_json({"packets": found})
    else:
        click.echo(list_text(found, user_zone()))


def list_text(found: "list[PacketSummary]", zone: tzinfo) -> str:
    """A line a packet, a chat turn by its message; days are those of `zone`. Broken integrity is named."""
    rows = [
        (
            date_of(packet.timestamp, zone),
            cut_line(
                ("(integrity broken) " if packet.integrity == "broken" else "") + (packet.topic or packet.summary),
                _LONGEST,
            ),
            "chat" if packet.dialect == _OWN_CHAT else packet.dialect,
            str(packet.pages),
            packet.packet_id,
        )
        for packet in found
    ]
    return table(rows, ("date", "title", "kind", "pages", "packet")) if rows else "no packets"


@packets.command("show", cls=Verb, example="gaiad packets show tp-20251130-154500 --original | xmllint --format -")
@click.argument("packet_id", metavar="ID")
@click.option("--pages", is_flag=True, help="Also the text of its pages.")
@click.option("--original", is_flag=True, help="Print only the stored bytes.")
@tenant_option
def show(packet_id: str, pages: bool, original: bool, tenant: str) -> None:
    """Show a packet: its fields, its integrity findings, its pages."""
    with invocation().client() as client:
        if original:
            _write_bytes(client.original(packet_id, tenant))
            return
        found = client.packet(packet_id, tenant)
    print_result(found, detail_text(found, pages, terminal_width()))


def detail_text(found: "PacketDetail", pages: bool, width: int) -> str:
    """A packet for people."""
    packet = found.packet
    rows = [
        ("date", packet.timestamp),
        ("dialect", packet.dialect),
        ("integrity", packet.integrity),
        ("model", packet.model),
        ("session", packet.session_id),
        ("size", f"{size(packet.bytes)}, {counted(packet.pages, 'page')}"),
        ("sha256", packet.sha256),
        ("source", found.source),
        ("received", found.received_at),
        ("revision", f"{packet.revision} of {max(len(found.revisions), 1)}"),
        *((name.replace("_", " "), _field_text(value)) for name, value in found.fields.items() if value),
    ]
    findings = [plain("  ".join(str(part) for part in finding.values())) for finding in found.integrity]
    blocks = [
        bold(plain(f"[Packet: {packet.packet_id}] {packet.topic}")),
        "\n".join(_row_text(name, value, width) for name, value in rows if value),
        "\n".join(["Integrity", *(f"  {line}" for line in findings)]) if findings else "",
    ]
    if pages:
        blocks += [
            dim(plain(f"{page.sequence}. {page.section}  {page.speaker}  {page.page_id}"))
            + "\n"
            + wrap(page.text, width, "  ")
            for page in found.pages
        ]
    return "\n\n".join(block for block in blocks if block)


def _row_text(name: str, value: str, width: int) -> str:
    lines = wrap(value, width - 22).splitlines() or [""]
    return "\n".join([f"{name:<20}  {lines[0]}", *(f"{'':<20}  {line}" for line in lines[1:])])


def _field_text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_field_text(item)}" for name, item in value.items() if item not in ("", [], {}))
    if isinstance(value, list):
        return "; ".join(_field_text(item) for item in value)
    return str(value)


@packets.command("verify", cls=Verb, example="gaiad packets verify tp-20251130-154500 --json")
@click.argument("packet_ids", nargs=-1, metavar="[ID]...")
@click.option("--offline", is_flag=True, help="Read the home's files even when a daemon runs.")
@tenant_option
def verify(packet_ids: tuple[str, ...], offline: bool, tenant: str) -> None:
    """Hold packets against their stored originals.

    Hashes, pages and spans, of all packets without ID. Works without a daemon as well. Exits 1 when a problem is found.
    """
    report = _verify_offline(packet_ids, tenant) if offline else _verify(packet_ids, tenant)
    problems = [warn("problem: ") + plain(problem) for problem in report.problems]
    print_result(report, "\n".join([*problems, f"{counted(report.checked, 'packet')} checked, {report.ok:,} fine"]))
    if report.problems:
        end(FAILED)


def _verify(packet_ids: tuple[str, ...], tenant: str) -> "VerifyReport":
    try:
        with invocation().client() as client:
            return client.verify(list(packet_ids), tenant)
    except DaemonUnreachable:
        return _verify_offline(packet_ids, tenant)


def _verify_offline(packet_ids: tuple[str, ...], tenant: str) -> "VerifyReport":
    from gaiad.cli.offline import verify_packets

    return verify_packets(invocation().find_home(), packet_ids, tenant)


@packets.command("export", cls=Verb, example="gaiad packets export tp-20251130-154500 --revision 1 --output old.xml")
@click.argument("packet_id", metavar="ID")
@click.option("--output", metavar="FILE", default="-", help="Where to write; standard output without it.")
@click.option("--revision", default=0, type=click.IntRange(0), help="Which revision; 0 is the newest.")
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
@tenant_option
def export(packet_id: str, output: str, revision: int, force: bool, tenant: str) -> None:
    """Write a packet's original bytes, exactly as they came in."""
    target = Path(output).expanduser()
    if output != "-" and target.exists() and not force:
        raise BadInput(f"{target} already exists; choose another --output or add --force")
    with invocation().client() as client:
        content = client.original(packet_id, tenant, revision)
    if output == "-":
        _write_bytes(content)
        return
    try:
        target.write_bytes(content)
    except OSError as error:
        raise GaiadError(f"{target}: cannot be written ({error.strerror}); choose another --output") from error
    print_result(
        {"packet_id": packet_id, "path": str(target.absolute()), "bytes": len(content)},
        f"{target}: {size(len(content))}",
    )


def _write_bytes(content: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()
