"""`gaiad cognition`: the Cognition Packets: what would be sent, what was sent, and the same once more."""

import sys
from typing import TYPE_CHECKING, Any

import click

from gaiad.cli.command import Verb, VerbGroup, invocation, print_result, tenant_option
from gaiad.cli.output import FAILED, cut_line, dim, end, plain, table

if TYPE_CHECKING:
    from gaiad.wire.chat import PacketRecord, Rendering, Replay

_FIELD_HEADS = ("field", "limit", "original", "tokens", "method")


@click.group(
    cls=VerbGroup,
    example="""
        gaiad cognition render "what did we decide about the sensors?"
        gaiad cognition show 1ab94c2f
    """,
)
def cognition() -> None:
    """Inspect exactly what is sent to models."""


@cognition.command("render", cls=Verb, example="gaiad cognition render --json --mtu 2048 hello | jq .fields")
@click.argument("prompt", nargs=-1)
@click.option("--session", "session_id", default="", metavar="S", help="With this session's history.")
@click.option("--persona", default="", metavar="P", help="With this persona.")
@click.option("--project", default="", metavar="NAME", help="With this project's persona.")
@click.option("--mtu", default=0, type=click.IntRange(0), help="Tokens of the packet; 0 is the setting cognition.mtu.")
@click.option("--max-tokens", default=0, type=click.IntRange(0), help="Tokens of the answer; 0 is the setting.")
@click.option("--depth", type=click.Choice(("auto", "fast", "full")), help="As of a turn. Default: council.depth.")
@click.option("--role", default="prime", show_default=True, help="Which role answers.")
@tenant_option
def render(prompt: tuple[str, ...], **given: Any) -> None:
    """Show exactly what a turn would send, and its token table.

    Of a turn of several stages the first packet. Nothing is sent to a model and nothing is remembered. Exits 1 when the
    prompt does not fit, saying by how much.
    """
    from gaiad.wire.chat import ChatRequest

    words = " ".join(prompt).strip() or ("" if sys.stdin.isatty() else sys.stdin.read().strip())
    if not words:
        raise click.UsageError("Missing PROMPT: give it as words, or on standard input")
    with invocation().client() as client:
        found = client.render_packet(ChatRequest(message=words, **given | {"depth": given["depth"] or ""}))
    print_result(found, _rendering_text(found))


@cognition.command("list", cls=Verb, example="gaiad cognition list --session garden")
@click.option("--session", "session_id", default="", metavar="S", help="Only of this session.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1000), help="How many.")
@tenant_option
def list_packets(session_id: str, limit: int, tenant: str) -> None:
    """List the packets that were sent, the newest first."""
    with invocation().client() as client:
        found = client.cognition_packets(tenant, limit, session_id)
    rows = [_row(record) for record in found]
    heads = ("packet", "made", "role", "tokens", "session", "prompt")
    print_result({"packets": found}, table(rows, heads) if rows else "no packets yet")


@cognition.command("show", cls=Verb, example="gaiad cognition show 1ab94c2f --json | jq .packet.history")
@click.argument("packet", metavar="ID")
@tenant_option
def show(packet: str, tenant: str) -> None:
    """Show a sent packet and its reply.

    ID is the packet's id, the eight digits shown, or the turn's id.
    """
    with invocation().client() as client:
        found = client.cognition_packet(packet, tenant)
    print_result(found, _record_text(found))


@cognition.command("replay", cls=Verb, example="gaiad cognition replay 1ab94c2f --generate")
@click.argument("packet", metavar="ID")
@click.option("--generate", is_flag=True, help="Make the reply again too, in a fresh worker, and compare.")
@tenant_option
def replay(packet: str, generate: bool, tenant: str) -> None:
    """Build a packet's prompt again and compare it.

    The model is the one it was sent to, whichever has the role now. Exits 1 when prompt or reply differ, or
    cannot be compared because that model is gone.
    """
    with invocation().client() as client:
        found = client.replay_packet(packet, tenant, generate=generate)
    print_result(found, _replay_text(found))
    if not found.same_prompt or found.differs_at not in (None, -1):
        end(FAILED)


def _rendering_text(found: "Rendering") -> str:
    rows = [_field_row(row) for row in found.fields]
    total = f"{found.total_tokens:,} of {found.mtu:,} tokens, and {found.reserve_tokens:,} for the reply"
    counted = "" if found.exact else "  (estimates: this model has no tokenizer here)"
    dropped = [f"dropped: {', '.join(found.dropped)}"] if found.dropped else []
    notes = [f"note: {plain(note)}" for note in found.notes]
    first = [f"depth {found.depth} ({found.depth_why}): {found.stage} by {found.role}", ""] if found.stage else []
    parts = [*map(plain, first), table(rows, _FIELD_HEADS), total + counted, *dropped, *notes, ""]
    return "\n".join([*parts, dim("--- the prompt ---"), plain(found.prompt)])


def _row(record: "PacketRecord") -> tuple[str, ...]:
    packet = record.packet
    return (
        packet["packet_id"],
        packet["timestamp"][:19],
        packet["role"],
        f"{record.manifest['total_tokens']:,}",
        record.session_id,
        cut_line(packet["user_prompt"], 50),
    )


def _record_text(found: "PacketRecord") -> str:
    packet, manifest, reply = found.packet, found.manifest, found.reply
    rows = [
        ("packet", f"{packet['packet_id']} ({packet['full_id']})"),
        ("turn", packet["turn_id"]),
        ("session", found.session_id),
        ("made", packet["timestamp"]),
        ("role", packet["role"]),
        ("model", manifest["model"]),
        ("tokens", f"{manifest['total_tokens']:,} of {manifest['mtu']:,}"),
        ("prompt sha-256", manifest["prompt_sha256"]),
    ]
    if reply:
        cached = f"{reply['cached_tokens']:,} of the prompt cached"
        rows += [("seed", str(reply["seed"])), ("reply", f"{reply['tokens']:,} tokens, {cached}")]
    fields = table([_field_row(row) for row in manifest["fields"]], _FIELD_HEADS)
    dropped = [f"dropped: {', '.join(map(plain, manifest['dropped']))}"] if manifest["dropped"] else []
    said = [dim("--- the reply ---"), plain(reply["text"])] if reply else [f"no reply came: {plain(found.failure)}"]
    return "\n".join([table(rows), "", fields, *dropped, "", *said])


def _field_row(row: dict[str, Any]) -> tuple[str, ...]:
    return row["field"], f"{row['limit']:,}", f"{row['original_tokens']:,}", f"{row['tokens']:,}", row["method"]


def _replay_text(found: "Replay") -> str:
    same = {True: "the same prompt, byte for byte", False: "NOT the same prompt", None: "the prompt cannot be compared"}
    lines = [f"{found.packet_id}: {same[found.same_prompt]} ({found.prompt_sha256[:16]})"]
    if not found.same_model:
        lines.append(f"its model is no longer configured; {found.model}, which now has its role, rendered the prompt")
    if found.changed_prompts:
        lines.append(f"prompt texts that are others since then: {', '.join(found.changed_prompts)}")
    if found.differs_at == -1:
        lines.append("the same reply, token for token")
    elif found.differs_at is not None:
        lines.append(f"the reply differs at token {found.differs_at}: {found.expected!r} before, {found.found!r} now")
    return plain("\n".join(lines))
