"""A conversation in the terminal: turns one after the other, shown as they are written, and what waits for approval."""

import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from gaiad.base.errors import DaemonWentAway, GaiadError
from gaiad.base.ids import short
from gaiad.cli.approvals import command_line
from gaiad.cli.chat_screen import Screen
from gaiad.cli.command import invocation
from gaiad.cli.output import one_line, warn, write_json

if TYPE_CHECKING:
    from gaiad.client.client import Client
    from gaiad.wire.chat import ChatAnswer, ChatRequest
    from gaiad.wire.governance import Approval


_AWAITING = "AWAITING_APPROVAL"
_MOST = 1000


@dataclass
class TerminalChat:
    """What stays from one message to the next: the options, the session once it has a name, the last turn.

    `begun` is whether the daemon took the last message up, `heard` whether words of its answer came that
    were not retracted, `last` what came of the last one that was answered.
    """

    options: dict[str, Any]
    why: bool = False
    last: "ChatAnswer | None" = None
    begun: bool = field(default=False)
    heard: bool = field(default=False)

    @property
    def tenant(self) -> str:
        return str(self.options["tenant"])

    @property
    def session_id(self) -> str:
        """ "" before the first message of a new one."""
        return str(self.options["session_id"])

    def say(self, client: "Client", words: str, key: str = "") -> "ChatAnswer":
        """One turn, shown. Raises as Client.chat_events, and DaemonWentAway when it ends before its answer."""
        if invocation().as_json:
            answer = self._take(client, words, key, lambda event, data: None)
            write_json(answer)
            return answer
        with Screen(why=self.why) as screen:
            answer = self._take(client, words, key, screen.show)
            screen.finish(answer)
        if answer.status == _AWAITING:
            self._tell_waiting(client, answer)
        return answer

    def _take(
        self, client: "Client", words: str, key: str, show: Callable[[str, dict[str, Any]], None]
    ) -> "ChatAnswer":
        """The turn to its end; what happens in between goes to `show`. The session is known also when it fails."""
        import msgspec

        from gaiad.wire.chat import ChatAnswer

        self.begun = self.heard = False
        for event in client.chat_events(self._request(words, key)):
            self.begun = True
            if event.event == "turn":
                self.options["session_id"] = event.data["session_id"]
            elif event.event == "done":
                self.last = msgspec.convert(event.data, ChatAnswer)
                self.options["session_id"] = self.last.session_id
                return self.last
            else:
                self._hear(event.event, event.data)
                show(event.event, event.data)
        raise DaemonWentAway("the daemon stopped during the turn; see gaiad turns list for how it ended")

    def _hear(self, event: str, data: dict[str, Any]) -> None:
        """A turn that is left is remembered when something of its answer was said that was not taken back."""
        if event == "delta" and data["text"].strip():
            self.heard = True
        elif event == "retract":
            self.heard = False

    def _request(self, words: str, key: str) -> "ChatRequest":
        from gaiad.wire.chat import ChatRequest

        return ChatRequest(message=words, idempotency_key=key, **self.options)

    def _tell_waiting(self, client: "Client", answer: "ChatAnswer") -> None:
        """The turn's commands that wait for the person. The answer remains, whatever becomes of this."""
        under = sys.stdout if sys.stdout.isatty() else sys.stderr
        try:
            found = [one for one in waiting(client, self.tenant) if one.turn_id == answer.turn_id]
        except GaiadError as error:
            click.echo(f"gaiad: what waits for your approval is not known: {one_line(error.message)}", err=True)
            return
        for one in found:
            click.echo(warn(approval_lines(one), under), file=under)


def waiting(client: "Client", tenant: str) -> "list[Approval]":
    """Commands that wait for the person, oldest first."""
    from msgspec import convert

    from gaiad.wire.governance import Approval

    answer = client.post("/approvals/list", {"tenant": tenant, "limit": _MOST})
    return convert(answer["approvals"], list[Approval])


def approval_lines(found: "Approval") -> str:
    """What waits, until when, and how to say yes to exactly these arguments, or no."""
    until = found.expires_at[:19].replace("T", " ")
    home = invocation().home
    where = f" --home {shlex.quote(home)}" if home else ""
    return "\n".join(
        [
            f"Waits for your approval until {until} UTC: {command_line(found)}",
            f"  gaiad approve {short(found.id)} --sha256 {found.sha256}{where}",
            f"  gaiad deny {short(found.id)}{where}",
        ]
    )
