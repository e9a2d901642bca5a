"""A command that was approved and run, as the turn that goes on from there knows it (decision 13). Pure.

What a command wrote is text of a stranger: it goes into a packet as such, cut at its middle.
"""

import shlex
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from gaiad.approval_schemas import Approval

_CUT = "\n[... {} characters left out ...]\n"


class Executed(NamedTuple):
    """`revert` puts the work directory back: "" when that was done, else why not. It may raise Unavailable."""

    approval: Approval
    revert: Callable[[], Coroutine[Any, Any, str]]


def command_line(approval: Approval) -> str:
    """The arguments as a shell would take them; what hides or moves text on a screen is spelled out."""
    line = shlex.join(approval.command)
    return f"`{line if line.isprintable() else ' '.join(map(ascii, approval.command))}`"


def how_it_ended(approval: Approval) -> str:
    """In a few words."""
    execution = approval.execution
    if execution is None:
        return "was not run"
    return f"was stopped: {execution.stopped}" if execution.stopped else f"ended with status {execution.exit_status}"


def result_text(approval: Approval, shown_characters: int) -> str:
    """What Verify reads of it: the command, how it ended, what it wrote."""
    execution = approval.execution
    output = "" if execution is None else execution.output.strip()
    lines = [
        f"{command_line(approval)} was approved by the person and {how_it_ended(approval)}.",
        "It ran in a sandbox without network; only its work directory /work could be changed.",
        f"It wrote:\n{shortened(output, shown_characters)}" if output else "It wrote nothing.",
    ]
    return "\n".join(lines)


def shortened(text: str, characters: int) -> str:
    """Beginning and end, where it is longer."""
    if len(text) <= characters:
        return text
    half = characters // 2
    return f"{text[:half]}{_CUT.format(len(text) - 2 * half)}{text[-half:]}"
