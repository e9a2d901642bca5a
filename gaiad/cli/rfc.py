"""`gaiad rfc`: change the rules of the council by proposal, review, vote and merge (GCP 11)."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gaiad.base.errors import NotFound
from gaiad.cli.command import Verb, VerbGroup, invocation, print_result
from gaiad.cli.output import FAILED, bold, end, plain, table, terminal_width, warn, wrap, write_json

if TYPE_CHECKING:
    from gaiad.wire.governance import RfcRecord

_KINDS = ("constant", "identity", "process", "security")
_STATES = ("proposed", "reviewed", "passed", "failed", "merged")
_SIGNED = ("identity", "security")


@click.group(
    cls=VerbGroup,
    example="""
        gaiad rfc propose --kind process --title "Two reviewers" "Every EXECUTE is read by two roles, because ..."
        gaiad rfc review 3fa41c22 && gaiad rfc vote 3fa41c22 && gaiad rfc merge 3fa41c22
    """,
)
def rfc() -> None:
    """Change the rules: propose, review, vote, merge.

    Prime and Lite review an RFC, all roles vote on it, and merging puts it in force. A change of identity needs the
    creator's signature; the vote too, once the stack is self-aware (gaiad identity show). An emergency for security
    needs the creator's signature and Prime's yes.
    """


@rfc.command("propose", cls=Verb, example="gaiad rfc propose --kind identity --identity new.toml --title T < why.md")
@click.argument("text", nargs=-1)
@click.option("--title", required=True, metavar="LINE", help="What should change, in one line.")
@click.option("--kind", required=True, type=click.Choice(_KINDS), help="What it changes.")
@click.option("--identity", metavar="FILE", type=click.Path(dir_okay=False), help="The new identity, in TOML.")
def propose(text: tuple[str, ...], title: str, kind: str, identity: str | None) -> None:
    """Propose a change.

    TEXT says what should change and why; without it, standard input is read. Nothing changes before the merge: of kind
    constant and process the merge records the decision, and who keeps the files carries it out.
    """
    words = " ".join(text).strip() or ("" if sys.stdin.isatty() else sys.stdin.read().strip())
    if not words:
        raise click.UsageError("Missing TEXT: give it as words, or on standard input")
    body = {"title": title, "text": words, "kind": kind, "identity_toml": _read(identity) if identity else ""}
    _say(_ask("/rfc/propose", body))


@rfc.command("review", cls=Verb, example="gaiad rfc review 3fa41c22")
@click.argument("name", metavar="ID")
def review(name: str) -> None:
    """Let Prime and Lite review it.

    A role that has reviewed it is not asked again. Exits 1 when a review is still missing.
    """
    found = _ask("/rfc/review", {"rfc": name})
    _say(found)
    if found.state == "proposed":
        end(FAILED)


@rfc.command("vote", cls=Verb, example="gaiad rfc vote 3fa41c22 --json | jq .votes[-1].reason")
@click.argument("name", metavar="ID")
def vote(name: str) -> None:
    """Let the council vote on it.

    A vote is final, except without a quorum: then it can be repeated. Exits 1 when the RFC did not pass.
    """
    found = _ask("/rfc/vote", {"rfc": name})
    _say(found)
    if found.state != "passed":
        end(FAILED)


@rfc.command("merge", cls=Verb, example="gaiad rfc merge 3fa41c22 --key /media/stick/identity.key")
@click.argument("name", metavar="ID")
@click.option("--key", metavar="FILE", type=click.Path(dir_okay=False), help="The private key, when it is elsewhere.")
def merge(name: str, key: str | None) -> None:
    """Put it in force.

    For kinds identity and security this signs with the owner's private key, which the daemon never reads. A merged
    identity takes force at the next start.
    """
    from msgspec import to_builtins

    record = _ask("/rfc/show", {"rfc": name})
    body: dict[str, Any] = {"rfc": record.rfc_id}
    if record.kind in _SIGNED and record.state != "merged":
        from gaiad.identity.signing import sign_here

        body["signature"] = to_builtins(sign_here(record, os.environ, Path(key).expanduser() if key else None))
    _say(_ask("/rfc/merge", body))


@rfc.command("show", cls=Verb, example="gaiad rfc show 3fa41c22")
@click.argument("name", metavar="ID")
def show(name: str) -> None:
    """Show one and its history.

    ID is the RFC's id or the eight digits shown.
    """
    found = _ask("/rfc/show", {"rfc": name})
    print_result(found, rfc_text(found))


@rfc.command("list", cls=Verb, example="gaiad rfc list --state passed")
@click.option("--state", default="", type=click.Choice(("", *_STATES)), help="Only those in this state.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1000), help="How many.")
def list_rfcs(state: str, limit: int) -> None:
    """List RFCs, the newest first."""
    from msgspec import convert

    from gaiad.wire.governance import RfcRecord

    with invocation().client() as client:
        answer = client.post("/rfc/list", {"state": state, "limit": limit})
    found = convert(answer["rfcs"], list[RfcRecord])
    rows = [(_digits(each), each.created_at[:10], each.kind, each.state, each.title) for each in found]
    print_result(answer, table(rows, ("rfc", "proposed", "kind", "state", "title")) if rows else "no RFCs yet")


def rfc_text(found: "RfcRecord") -> str:
    """An RFC for people: what it asks for, who said what, what comes next."""
    width = terminal_width()
    blocks = [
        bold(plain(f"{_digits(found)}  {found.title}")),
        f"{found.kind}, {found.state}; proposed {found.created_at[:16].replace('T', ' ')} ({found.rfc_id})",
        wrap(found.text, width),
    ]
    if found.identity_toml:
        blocks.append(f"attached identity {found.identity_version}, sha256 {found.identity_digest}")
    for each in found.reviews:
        head = f"{each.role} reviewed it: {each.verdict}, confidence {each.confidence:g}"
        blocks.append("\n".join([head, *(wrap(f"- {reason}", width - 2, "  ") for reason in each.reasons)]))
    for round_ in found.votes:
        ballots = (
            wrap(
                f"{each.role}: {each.vote} ({each.confidence:g}) {each.reason}"
                + (f" [{each.uncounted}]" if each.uncounted else ""),
                width - 2,
                "  ",
            )
            for each in round_.ballots
        )
        blocks.append("\n".join([wrap(f"the vote: {round_.reason}", width), *ballots]))
    failed = [entry for entry in found.history if entry.result == "failed" and entry.step == "review"]
    blocks += [warn(plain(f"{entry.by} did not review it: {entry.why}")) for entry in failed[-2:]]
    if found.ground:
        blocks.append(wrap(f"merged {found.updated_at[:16].replace('T', ' ')}: {found.history[-1].why}", width))
    elif found.next_steps:
        blocks.append("next: " + ", ".join(f"gaiad rfc {step} {_digits(found)}" for step in found.next_steps))
    return "\n\n".join(blocks)


def _ask(path: str, body: dict[str, Any]) -> "RfcRecord":
    from msgspec import convert

    from gaiad.wire.governance import RfcRecord

    with invocation().client() as client:
        return convert(client.post(path, body), RfcRecord)


def _say(found: "RfcRecord") -> None:
    if invocation().as_json:
        write_json(found)
        return
    last = found.history[-1]
    why = f": {last.why}" if last.why else ""
    click.echo(plain(f"{_digits(found)} is {found.state}{why}"))
    for each in found.reviews if last.step == "review" else ():
        click.echo(plain(f"{each.role}: {each.verdict} ({each.confidence:g}) {'; '.join(each.reasons)}"))
    if found.next_steps:
        click.echo("next: " + ", ".join(f"gaiad rfc {step} {_digits(found)}" for step in found.next_steps))


def _digits(found: "RfcRecord") -> str:
    from gaiad.base.ids import short

    return short(found.rfc_id)


def _read(file: str) -> str:
    try:
        return Path(file).expanduser().read_text(encoding="utf-8")
    except OSError as error:
        raise NotFound(f"{file}: cannot be read ({error.strerror}); give the identity's file") from error
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{file}: is not UTF-8 text; give an identity in TOML") from error
