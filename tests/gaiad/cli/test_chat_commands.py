"""Lines that begin with a slash: which are commands, what completes them, and what their history file keeps."""

import stat
from pathlib import Path

import pytest

from gaiad.cli.chat_commands import COMMANDS, completions, read_command, run_command
from gaiad.cli.chat_editor import Editor, newer_half
from gaiad.cli.conversation import TerminalChat


@pytest.fixture
def conversation() -> TerminalChat:
    return TerminalChat({"session_id": "", "persona": "", "project": "", "depth": "", "tenant": "local"})


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("/why", ("why", "")),
        ("/depth  full ", ("depth", "full")),
        ("/session my garden", ("session", "my garden")),
        ("/", ("", "")),
        ("/etc/passwd", None),
        ("/Users are many", None),
        (" /why", None),
        ("why /why", None),
        ("/why\nand more", None),
        ("", None),
    ],
)
def test_a_command_is_a_slash_and_a_word_of_small_letters_on_a_line_of_its_own(
    line: str, read: tuple[str, str] | None
) -> None:
    assert read_command(line) == read


def test_names_are_completed_with_a_space_where_something_may_follow(conversation: TerminalChat) -> None:
    assert completions("/s", conversation) == ["/session ", "/sources "]
    assert completions("/q", conversation) == ["/quit"]
    assert len(completions("/", conversation)) == len(COMMANDS)
    assert completions("/x", conversation) == completions("s", conversation) == completions("/why ", conversation) == []
    assert completions("/depth fast f", conversation) == completions("/d\n/s", conversation) == []


def test_a_command_that_is_none_names_the_nearest_and_one_without_argument_takes_none(
    conversation: TerminalChat,
) -> None:
    assert run_command("sorces", "", conversation).startswith("no command is called /sorces; did you mean /sources?")
    assert "there are /persona, /session" in run_command("", "", conversation)
    assert run_command("new", "one", conversation) == "/new takes nothing after it"


def test_depth_and_a_new_session_need_no_daemon(conversation: TerminalChat) -> None:
    conversation.options["session_id"] = "old"
    assert run_command("depth", "", conversation).startswith("Depth: as set (council.depth)")
    run_command("depth", "fast", conversation)
    assert run_command("depth", "", conversation).startswith("Depth: fast")
    run_command("new", "", conversation)
    assert conversation.session_id == ""


def test_a_history_that_grew_too_long_keeps_its_newer_entries_whole() -> None:
    entries = [f"\n# 2025-12-01 12:00:00\n+line {number}\n+and more\n" for number in range(10)]
    kept = newer_half("".join(entries).encode()).decode()
    assert kept == "".join(entries[5:])
    assert newer_half(b"no entry at all") == b""


def test_the_history_file_is_the_owners_alone_and_is_cut_when_it_is_opened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "history"
    path.write_text("\n# then\n+something\n" * 60_000)
    path.chmod(0o644)
    assert Editor(path, lambda line: []).trouble == ""
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert 500_000 < path.stat().st_size <= 60_000 * 20 // 2
    assert path.read_text().startswith("\n# then\n+something\n")


def test_a_history_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "history").symlink_to(tmp_path / "elsewhere")
    assert "is not kept for the next time" in Editor(tmp_path / "history", lambda line: []).trouble
    assert not (tmp_path / "elsewhere").exists()
