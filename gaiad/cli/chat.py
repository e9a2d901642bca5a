"""`gaiad chat`: say something in a session, see the answer as it is written, with the packets it is based on."""

import sys
from typing import Any

import click

from gaiad.cli.command import Verb, invocation, tenant_option
from gaiad.cli.conversation import TerminalChat
from gaiad.cli.flags import moment, user_zone
from gaiad.cli.output import FAILED, end


@click.command(
    cls=Verb,
    example="""
        gaiad chat
        gaiad chat what did we decide about the sensors in November
        gaiad chat --session garden --persona brief "and what is still open?"
        gaiad chat --depth full "check the plan for the sensors for gaps"
        echo "summarise the last session" | gaiad chat --json | jq -r .answer
    """,
)
@click.argument("message", nargs=-1)
@click.option("--session", "session_id", default="", metavar="S", help="The session to continue; default: a new one.")
@click.option("--persona", default="", metavar="P", help="The tone of the answer; stays with the session.")
@click.option("--project", default="", metavar="NAME", help="Whose persona holds when none is chosen; stays too.")
@click.option("--role", default="prime", show_default=True, help="Which role answers.")
@click.option(
    "--depth",
    type=click.Choice(("auto", "fast", "full")),
    help="fast is one call, full plans, refines, acts and verifies. Default: the setting council.depth.",
)
@click.option("--mtu", default=0, type=click.IntRange(0), help="Tokens of the packet; 0 is the setting cognition.mtu.")
@click.option("--max-tokens", default=0, type=click.IntRange(0), help="Tokens of the answer; 0 is the setting.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), help="Makes the answer repeatable.")
@click.option("--now", default="", metavar="TIME", help='The time "last week" is counted from; default: now.')
@click.option("--why", is_flag=True, help="Also say how each answer came about.")
@tenant_option
def chat(message: tuple[str, ...], why: bool, **given: Any) -> None:
    """Say something in a session, get an answer with its sources.

    Without MESSAGE it is read from standard input; a terminal is a conversation until Ctrl-D, where /help lists
    commands and keys. Ctrl-C ends the answer; what was said so far is remembered. A terminal shows the answer while it
    is written and the council at work; what the council retracts is marked. In a pipe stdout has the final answer
    alone, stderr its sources and notes.

    Exits 0 with an answer, 1 when the council gives none and asks you instead.
    """
    given["depth"] = given["depth"] or ""
    given["now"] = moment(given["now"], user_zone()) if given["now"] else ""
    words = " ".join(message).strip()
    if not message and sys.stdin.isatty() and not invocation().as_json:
        from gaiad.cli.chat_loop import converse

        converse(given, why=why)
        return
    if not message:
        words = sys.stdin.read().strip()
    if not words:
        raise click.UsageError("Missing MESSAGE: give it as words, or on standard input")
    with invocation().client() as client:
        answer = TerminalChat(given, why).say(client, words)
    if not answer.answered:
        end(FAILED)
