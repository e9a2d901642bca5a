"""`gaiad feedback`: whether a packet was useful, by which search ranks its pages, and whether an answer was good."""

from typing import TYPE_CHECKING

import click

from gaiad.cli.command import Verb, VerbGroup, invocation, print_result, tenant_option
from gaiad.cli.output import counted, cut_line, plain, table

if TYPE_CHECKING:
    from gaiad.wire.council import Rating
    from gaiad.wire.memory import FeedbackRow

_LONGEST = 60


class _FeedbackGroup(VerbGroup):
    """`gaiad feedback ID useful` is `gaiad feedback give ID useful`."""

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if arguments[0] not in self.commands and len(arguments) > 1:
            arguments = ["give", *arguments]
        return super().resolve_command(context, arguments)


@click.group(
    cls=_FeedbackGroup,
    example="""
        gaiad feedback tp-20250928-134500 useful
        gaiad feedback tp-20250928-134500 not-useful --query "how often do the bearings fail"
        gaiad feedback answer up
        gaiad feedback list
        gaiad feedback reset tp-20250928-134500
    """,
)
def feedback() -> None:
    """Say which packets and answers were useful."""


@feedback.command(
    "give", cls=Verb, example='gaiad feedback tp-20250928-134500 not-useful --query "when did the bearings fail"'
)
@click.argument("packet_id", metavar="ID")
@click.argument("verdict", type=click.Choice(("useful", "not-useful")))
@click.option(
    "--query",
    default="",
    metavar="TEXT",
    help="The question you asked: the feedback counts most for similar questions.",
)
@tenant_option
def give(packet_id: str, verdict: str, query: str, tenant: str) -> None:
    """Say that a packet was useful or not.

    Its pages gain or lose at most a share of their own score (search.weight_feedback); `gaiad search --explain` shows
    it as feedback. For the same question it counts in full, a quarter elsewhere; without --query half everywhere. The
    word "give" may be left out.
    """
    body = {"packet_id": packet_id, "verdict": verdict, "query": query, "tenant": tenant}
    with invocation().client() as client:
        row = client.post("/feedback", body)
    asked = f" for: {plain(row['query'])}" if row["query"] else ""
    print_result(row, f"[Packet: {plain(row['packet_id'])}] is {row['verdict']}{asked}")


@feedback.command("answer", cls=Verb, example="gaiad feedback answer down")
@click.argument("rating", type=click.Choice(("up", "down", "none")))
@click.argument("turn", metavar="[TURN]", default="")
@tenant_option
def answer(rating: str, turn: str, tenant: str) -> None:
    """Say what you think of an answer, the last one unless TURN is given.

    The next reflection on the council's turns takes it into account (`gaiad context feedback`); "none" takes it back.
    """
    from gaiad.base.ids import short
    from gaiad.wire.council import RateRequest

    with invocation().client() as client:
        if not turn:
            newest = client.council.turns(tenant, 1)
            if not newest:
                raise click.UsageError("nothing has been answered yet")
            turn = newest[0].turn_id
        given: Rating = "" if rating == "none" else rating  # type: ignore[assignment]
        rated = client.council.rate(RateRequest(turn=turn, rating=given, tenant=tenant))
    said = f"thumbs {rated.rating}" if rated.rating else "not rated"
    print_result(rated, f"turn {short(rated.turn_id)}: {said}: {cut_line(rated.message, _LONGEST)}")


@feedback.command("list", cls=Verb, example="gaiad feedback list --json | jq -r '.feedback[].packet_id'")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1000), help="At most this many.")
@tenant_option
def list_feedback(limit: int, tenant: str) -> None:
    """List feedback on packets, newest first."""
    from msgspec import convert

    from gaiad.wire.memory import FeedbackRow

    with invocation().client() as client:
        answer = client.post("/feedback/list", {"limit": limit, "tenant": tenant})
    found = convert(answer["feedback"], list[FeedbackRow])
    print_result({"feedback": found}, feedback_text(found))


@feedback.command(
    "reset", cls=Verb, example='gaiad feedback reset tp-20250928-134500 --query "when did the bearings fail"'
)
@click.argument("packet_id", metavar="[ID]", default="")
@click.option("--query", metavar="TEXT", help='Only feedback for this question; "" for feedback on the packet itself.')
@click.option("--all", "everything", is_flag=True, help="All feedback in this memory.")
@tenant_option
def reset(packet_id: str, query: str | None, everything: bool, tenant: str) -> None:
    """Delete feedback on a packet, for a question, or on all packets.

    Search then ranks as if it had never been given. --query without ID covers that question on every packet.
    """
    if everything is bool(packet_id or query is not None):
        raise click.UsageError("say of which packet or for which --query, or --all for whatever was said")
    body = {"packet_id": packet_id, "query": query, "tenant": tenant}
    with invocation().client() as client:
        answer = client.post("/feedback/reset", body)
    print_result(answer, f"{counted(answer['removed'], 'verdict')} forgotten")


def feedback_text(found: "list[FeedbackRow]") -> str:
    """A row a verdict."""
    rows = [(row.packet_id, row.verdict, row.at[:19].replace("T", " "), cut_line(row.query, _LONGEST)) for row in found]
    return table(rows, ("packet", "verdict", "said (UTC)", "asked")) if rows else "no feedback has been given yet"
