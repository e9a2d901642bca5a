"""Text for people: widths, tables, and nothing from a packet that could drive a terminal."""

import pytest

from gaiad.cli import output
from gaiad.cli.output import one_line
from gaiad.cli.progress import bar_text, waits


def test_text_of_a_packet_cannot_drive_the_terminal() -> None:
    assert output.plain("a\x1b[2Jb\x07c\u202ed\x9be\r\nf\tg") == "a[2Jbcde\nf\tg"


def test_an_error_is_one_line_whatever_the_message_holds() -> None:
    assert one_line("a\nb\x1b[31m  c\u202e") == "a b [31m c"


def test_a_line_is_cut_after_what_could_drive_the_terminal_is_gone() -> None:
    assert output.cut_line("a\nb\x1b[31m  c", 10) == "a b[31m c"
    assert output.cut_line("a\nb\x1b[31m  c", 5) == "a b[…"


def test_wrapping_keeps_lines_lists_and_long_words() -> None:
    text = "one two three four\n\n- item that is long\n  deeper one two three\n" + "x" * 30
    assert output.wrap(text, 12).splitlines() == [
        "one two",
        "three four",
        "",
        "- item that",
        "is long",
        "  deeper one",
        "  two three",
        "x" * 30,
    ]


def test_a_table_aligns_and_ends_lines_without_blanks() -> None:
    assert output.table([("a", "bb", ""), ("ccc", "d", "e\nf")]) == "a    bb\nccc  d   e f"
    assert output.table([]) == ""


def test_matched_words_are_bold_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert output.emphasise("Consents given", ["consent"]) == "Consents given"
    monkeypatch.setattr(output, "colours", lambda stream=None: True)
    assert output.emphasise("Consents given", ["consent"]) == "\x1b[1mConsents\x1b[0m given"


def test_no_colour_without_a_terminal_or_with_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert output.colours(Terminal())
    assert not output.colours()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not output.colours(Terminal())


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (61, "1 min 1 s"), (7260, "2 h 1 min"), (90000, "1 d 1 h")]
)
def test_durations_show_their_two_largest_units(seconds: float, text: str) -> None:
    assert output.duration(seconds) == text


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (1536, "1.5 KiB"), (2**30 * 2048, "2048.0 GiB")])
def test_sizes_have_units(count: float, text: str) -> None:
    assert output.size(count) == text


def test_a_progress_bar_shows_share_rate_and_time_left() -> None:
    assert bar_text("ingest", 50, 200, 5.0) == f"ingest [{'#' * 7}{'.' * 23}] 50/200  10/s, 15 s left"
    in_bytes = bar_text("import", 50_000_000, 200_000_000, 5.0, in_bytes=True)
    assert in_bytes.endswith("50.0/200.0 MB  10.0 MB/s, 15 s left")
    assert bar_text("ingest", 0, 0, 1.0) == "ingest: looking for files"
    assert bar_text("ingest", 200, 200, 5.0).endswith("200/200  40/s")


def test_a_job_is_looked_at_within_milliseconds_first_and_a_few_times_a_second_later() -> None:
    pace = waits()
    times = [next(pace) for _ in range(20)]
    assert times[0] < 0.01
    assert sum(times[:4]) < 0.05
    assert times[-1] == 0.25


def test_a_short_time_is_in_seconds_from_one_second_on() -> None:
    assert [output.milliseconds(ms) for ms in (0.4, 999, 1000, 17795)] == ["0 ms", "999 ms", "1.0 s", "17.8 s"]
