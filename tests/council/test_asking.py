"""A message is taken to ask for an action only when it orders one and names what it is done to."""

import pytest

from council.depth import what_is_asked


@pytest.mark.parametrize(
    "message",
    [
        "Run the tests.",
        "Please delete the old log files in my home folder",
        "Can you restart the server?",
        "I have a question. Could you please install the package for me?",
        "GAIA, rename these files by date.",
        "I want you to create a backup of the database",
        "First, stop the daemon; then tell me what you see.",
        "> What shall I do?\nDelete the log files.",
        "Run `ls -l` for me",
        "please execute git pull",
    ],
)
def test_orders(message: str) -> None:
    assert what_is_asked(message).action


@pytest.mark.parametrize(
    "message",
    [
        "How do I delete a file?",
        "What did we decide about the server in May?",
        "Write a poem about the sea.",
        "Why does the build fail when I run the tests?",
        "He said that I should restart the server.",
        "What does this do?\n```\nRun the tests\n```",
        "> Delete the files\nWhat did she mean?",
        "",
    ],
)
def test_questions_and_quotes_are_no_orders(message: str) -> None:
    assert what_is_asked(message).action == ""


@pytest.mark.parametrize(
    ("message", "risk", "words"),
    [
        ("What is the capital of France?", "low", ()),
        ("Is the dosage right for these symptoms?", "med", ("dosage", "symptoms")),
        ("Where did I write down the passwords?", "high", ("passwords",)),
        ("Should I run rm  -rf on it?", "high", ("rm  -rf",)),
        ("Delete everything in the folder", "high", ("delete everything",)),
        ("Delete the folder", "med", ("delete",)),
        ("The syntax of a taxi is fine", "low", ()),
    ],
)
def test_risk(message: str, risk: str, words: tuple[str, ...]) -> None:
    asked = what_is_asked(message)
    assert (asked.risk, asked.risk_words) == (risk, words)


@pytest.mark.timeout(5)
def test_a_long_message_takes_no_time() -> None:
    assert what_is_asked("```" * 20_000 + "a " * 50_000 + ">" * 50_000).risk == "low"
