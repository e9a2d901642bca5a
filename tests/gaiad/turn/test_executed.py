"""What a turn says of a command that was run."""

import pytest

from gaiad.turn.turn import command_line, how_it_ended, result_text, shortened
from gaiad.wire.governance import Approval, Execution


def approval(argv, **execution):
    ran = {"exit_status": 0, "stopped": "", "output": "", "output_bytes": 0, "took_ms": 1.0} | execution
    return Approval(
        id="a",
        command=argv,
        sha256="",
        proposed_by="prime",
        votes=[],
        risk_level="low",
        expires_at="",
        turn_id="t",
        execution=Execution(**ran),
    )


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["ls", "a b"], "`ls 'a b'`"),
        (["rm", "x\u202egnp.exe"], "`'rm' 'x\\u202egnp.exe'`"),
        (["echo", "a\nb"], "`'echo' 'a\\nb'`"),
    ],
)
def test_a_command_is_shown_so_that_nothing_hides_in_it(argv, line):
    assert command_line(approval(argv)) == line


def test_how_it_ended_is_its_status_or_the_limit_it_came_to():
    assert how_it_ended(approval(["ls"], exit_status=3)) == "ended with status 3"
    assert how_it_ended(approval(["ls"], exit_status=None, stopped="it ran too long")) == "was stopped: it ran too long"


def test_verify_reads_beginning_and_end_of_a_long_output():
    text = result_text(approval(["ls"], output="a" * 5000 + "b" * 5000), 100)
    assert "a" * 50 + "\n[... 9900 characters left out ...]\n" + "b" * 50 in text
    assert result_text(approval(["ls"]), 100).endswith("It wrote nothing.")
    assert shortened("short", 100) == "short"
