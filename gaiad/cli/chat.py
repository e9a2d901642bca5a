"""`gaiad chat`: say something in a session, see the answer as it is written, with the packets it stands on."""

import sys
from typing import TYPE_CHECKING, Any

import click

from gaiad.cli.command import Verb, invocation, tenant_option
from gaiad.cli.flags import moment, user_zone
from gaiad.cli.output import dim, plain, warn, write_json
from gaiad.errors import GaiadError

if TYPE_CHECKING:
    from gaiad.chat_schemas import ChatAnswer, ChatRequest
    from gaiad.client import Client


@click.command(
    cls=Verb,
    example="""
        gaiad chat what did we decide about the sensors in November
        gaiad chat --session garden --persona brief "and what is still open?"
        echo "summarise the last session" | gaiad chat --json | jq -r .answer
    """,
)
@click.argument("message", nargs=-1)
@click.option("--session", "session_id", default="", metavar="S", help="The session to go on with; default: a new one.")
@click.option("--persona", default="", metavar="P", help="The tone of the answer; stays with the session.")
@click.option("--project", default="", metavar="NAME", help="Whose persona holds when the session has none.")
@click.option("--role", default="prime", show_default=True, help="Which role answers.")
@click.option("--mtu", default=0, type=click.IntRange(0), help="Tokens of the packet; 0 is the setting cognition.mtu.")
@click.option("--max-tokens", default=0, type=click.IntRange(0), help="Tokens of the answer; 0 is the setting.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), help="Makes the answer repeatable.")
@click.option("--now", default="", metavar="TIME", help='The time "last week" is counted from; default: now.')
@tenant_option
def chat(message: tuple[str, ...], **given: Any) -> None:
    """Say something in a session, get an answer with its sources.

    Without MESSAGE it is read from standard input; on a terminal line after line, until Ctrl-D. Ctrl-C ends the answer;
    what was said so far is remembered. In a pipe stdout has the answer alone, stderr its sources and notes.
    """
    words = " ".join(message).strip()
    if not message and sys.stdin.isatty():
        _converse(given)
        return
    if not message:
        words = sys.stdin.read().strip()
    if not words:
        raise click.UsageError("Missing MESSAGE: give it as words, or on standard input")
    with invocation().client() as client:
        _say(client, words, given)


def _converse(given: dict[str, Any]) -> None:
    """A line, an answer, in one session, until the end of input."""
    import readline  # noqa: F401  (with it `input` lets one edit the line and go back in what was said)

    while True:
        try:
            line = input("> ").strip()
        except EOFError:
            click.echo()
            return
        if not line:
            continue
        with invocation().client() as client:
            try:
                _say(client, line, given)
            except GaiadError as error:
                click.echo(f"gaiad: {plain(error.message)}", err=True)
            except KeyboardInterrupt:
                click.echo(dim("\n(stopped)"))


def _say(client: "Client", words: str, given: dict[str, Any]) -> "ChatAnswer":
    """One turn; the answer is on stdout when this returns, its footer there only on a terminal and else on stderr.

    `given` then has the session, also when the turn fails.
    """
    import msgspec

    from gaiad.chat_schemas import ChatAnswer

    as_json = invocation().as_json
    answer: ChatAnswer | None = None
    shown = False
    for event in client.chat_events(_request(words, given)):
        if event.event == "turn":
            given["session_id"] = event.data["session_id"]
        elif event.event == "delta" and not as_json:
            click.echo(plain(event.data["text"]), nl=False)
            shown = True
        elif event.event == "done":
            answer = msgspec.convert(event.data, ChatAnswer)
    if answer is None:
        raise GaiadError("the daemon ended the turn without an answer; look at its log")
    if as_json:
        write_json(answer)
        return answer
    click.echo("" if shown else plain(answer.answer))
    click.echo(_footer(answer), err=not sys.stdout.isatty())
    return answer


def _request(words: str, given: dict[str, Any]) -> "ChatRequest":
    from gaiad.chat_schemas import ChatRequest

    values = {**given, "now": moment(given["now"], user_zone()) if given["now"] else ""}
    return ChatRequest(message=words, **values)


def _footer(answer: "ChatAnswer") -> str:
    """Sources, what looked back and why, engine and session: small, under the answer."""
    lines = [warn(f"note: {plain(note)}") for note in answer.notes]
    if answer.sources:
        lines.append(dim(plain("Sources: " + " ".join(f"[Packet: {source}]" for source in answer.sources))))
    if answer.history.sought:
        lines.append(dim(plain(f"Looked back ({answer.history.why}): {answer.history.status}")))
    took = sum(answer.timings.values())
    lines.append(dim(plain(f"Engine: {answer.engine} ({took:.0f} ms) | Session: {answer.session_id}")))
    return "\n".join(lines)
