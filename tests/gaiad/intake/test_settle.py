"""When a file counts as whole."""

from pathlib import Path

from gaiad.intake.folder_events import OPEN_FILE_PATIENCE, ObservedFile, Settling, Sign

FILE = Path("/inbox/a.xml")
LOOK = ObservedFile(10, 1, 7)
GROWN = ObservedFile(20, 2, 7)


def test_a_file_moved_in_is_whole_at_once() -> None:
    settling = Settling(1.0, 10)
    settling.hear(FILE, Sign.MOVED_IN, 5.0)
    assert settling.quiet(5.0, 10) == [FILE]
    assert settling.settle({FILE: LOOK}, 5.0) == [FILE]
    assert len(settling) == 0


def test_a_closed_file_waits_for_the_settle_time_and_every_sign_starts_it_anew() -> None:
    settling = Settling(1.0, 10)
    settling.hear(FILE, Sign.CLOSED, 0.0)
    settling.hear(FILE, Sign.CLOSED, 0.9)
    assert settling.quiet(1.5, 10) == []
    assert settling.next_due() == 1.9
    assert settling.settle({FILE: LOOK}, 1.5) == []
    assert settling.settle({FILE: LOOK}, 1.9) == [FILE]


def test_a_file_still_open_waits_much_longer_and_must_not_change_between_two_looks() -> None:
    settling = Settling(1.0, 10)
    settling.hear(FILE, Sign.WRITTEN, 0.0)
    assert settling.next_due() == OPEN_FILE_PATIENCE
    now = float(OPEN_FILE_PATIENCE)
    for look in (LOOK, GROWN):
        assert settling.settle({FILE: look}, now) == []
        now += OPEN_FILE_PATIENCE
    assert settling.settle({FILE: GROWN}, now) == [FILE]


def test_a_file_a_scan_saw_is_whole_when_the_next_look_shows_the_same() -> None:
    settling = Settling(1.0, 10)
    settling.hear(FILE, Sign.SEEN, 0.0, LOOK)
    assert settling.settle({FILE: GROWN}, 1.0) == []
    assert settling.settle({FILE: GROWN}, 2.0) == [FILE]


def test_a_file_that_has_gone_is_forgotten() -> None:
    settling = Settling(1.0, 10)
    settling.hear(FILE, Sign.CLOSED, 0.0)
    assert settling.settle({FILE: None}, 1.0) == []
    assert FILE not in settling
    assert settling.next_due() is None


def test_no_more_files_are_remembered_than_there_is_room_for() -> None:
    settling = Settling(1.0, 2)
    assert [settling.hear(Path(f"/{name}"), Sign.CLOSED, 0.0) for name in "abc"] == [True, True, False]
    assert settling.hear(Path("/a"), Sign.CLOSED, 1.0)
    assert len(settling) == 2
    assert len(settling.quiet(10.0, 1)) == 1
