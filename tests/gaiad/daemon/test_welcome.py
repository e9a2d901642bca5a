"""What a start prints: commands that can do something with what is there."""

from pathlib import Path

from gaiad.daemon.daemon import ready_text

SOCKET = Path("/h/gaiad.sock")


def commands(packets: int, home: Path | None = None) -> list[str]:
    return [line.split("gaiad ", 1)[1] for line in ready_text(SOCKET, "", packets, home).splitlines()[1:]]


def test_a_memory_with_packets_is_asked_about_them() -> None:
    asked = 'ask --home /h "What is the acoustic monitoring of foundry bearings about?"'
    assert commands(1, Path("/h")) == ["status --home /h", 'search --home /h "foundry bearings"', asked]


def test_an_empty_memory_is_filled_before_it_is_asked() -> None:
    assert commands(0) == ["status", "ingest FOLDER", "chat"]
    assert ", 0 packets\n" in ready_text(SOCKET, "", 0, None)
