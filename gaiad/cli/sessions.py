"""`gaiad sessions`: conversations as they are remembered: list them, show the turns of one, or its pages and memos."""

from typing import TYPE_CHECKING

import click

from gaiad.cli.command import Verb, VerbGroup, invocation, tenant_option
from gaiad.cli.errors import FAILED, end
from gaiad.cli.output import bold, dim, plain, table, terminal_width, wrap, write_json

if TYPE_CHECKING:
    from gaiad.memory_schemas import MemoryPage, SessionTurn

_INDENT = "  "


@click.group(
    cls=VerbGroup,
    example="""
        gaiad sessions list
        gaiad sessions show garden
        gaiad sessions show garden --memos
    """,
)
def sessions() -> None:
    """List and show conversations as they are remembered."""


@sessions.command("list", cls=Verb, example="gaiad sessions list --json | jq '.sessions[0]'")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1000), help="At most this many.")
@tenant_option
def list_sessions(limit: int, tenant: str) -> None:
    """List sessions, the one spoken in last first."""
    with invocation().client() as client:
        found = client.sessions(tenant, limit)
    if invocation().as_json:
        write_json({"sessions": found})
        return
    rows = [
        (row.session_id, row.updated_at[:19], f"{row.turns:,}", f"{row.pages:,}", row.title or row.first_message)
        for row in found
    ]
    heads = ("session", "spoken in last", "turns", "pages", "title or first words")
    click.echo(table(rows, heads) if rows else "no sessions yet")


@sessions.command("show", cls=Verb, example="gaiad sessions show garden --memos --json | jq '.pages[].header'")
@click.argument("session_id", metavar="ID")
@click.option("--memos", is_flag=True, help="Its pages instead: header and memo of each, and what it adds.")
@click.option("--after", default=-1, type=int, metavar="N", help="With --memos: only pages numbered above N.")
@click.option("--limit", default=200, show_default=True, type=click.IntRange(1, 1000), help="At most this many.")
@tenant_option
def show(session_id: str, memos: bool, after: int, limit: int, tenant: str) -> None:
    """Show the last turns of a session, or the memos of its pages.

    Memos come from the first page on, with the header of each. Exits 1 when nothing is remembered of the session.
    """
    with invocation().client() as client:
        if memos:
            pages = client.session_pages(session_id, tenant, after, limit)
            answer, text = {"session_id": session_id, "pages": pages}, _pages_text(pages)
        else:
            turns = client.session_turns(session_id, tenant, limit)
            answer, text = {"session_id": session_id, "turns": turns}, turns_text(turns)
    if invocation().as_json:
        write_json(answer)
    elif text:
        click.echo(text)
    if not text and (not memos or after < 0):  # that no page is numbered above some number is no failure
        click.echo(f"nothing is remembered of a session called {plain(session_id)}; see gaiad sessions list", err=True)
        end(FAILED)


def turns_text(turns: "list[SessionTurn]") -> str:
    width = terminal_width()
    parts = []
    for turn in turns:
        head = f"{turn.sequence + 1}  {turn.started_at[:19]}  {turn.turn_id}  {turn.status}".rstrip()
        said = [f"{bold('you')}\n{wrap(turn.user, width, _INDENT)}"] if turn.user else []
        answered = (
            [f"{bold(plain(turn.model or 'answer'))}\n{wrap(turn.answer, width, _INDENT)}"] if turn.answer else []
        )
        parts.append("\n".join([dim(plain(head)), *said, *answered]))
    return "\n\n".join(parts)


def _pages_text(pages: "list[MemoryPage]") -> str:
    return "\n\n".join(_page_text(page) for page in pages)


def _page_text(page: "MemoryPage") -> str:
    """JIT's header as rows, then the memo."""
    header = page.header
    rows = [
        ("page", page.id),
        ("number", str(header.sequence)),
        ("written", header.created_at[:19]),
        ("agent", header.agent_id),
        ("tags", ", ".join(header.tags)),
        ("classification", ", ".join(header.classification)),
        ("policy", ", ".join(header.policy_tags)),
        ("from run", header.origin_run_id),
        ("asked for", header.request_intent),
    ]
    memo = wrap(page.memo or "nothing that was not known", terminal_width(), _INDENT)
    return f"{table([row for row in rows if row[1]])}\n{bold('memo')}\n{memo}"
