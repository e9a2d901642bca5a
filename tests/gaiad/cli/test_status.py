"""What `gaiad status` says at a glance."""

from msgspec.structs import replace

from gaiad.cli.status import status_text
from gaiad.wire.status import Status

QUIET = Status(
    pid=7,
    version="0.1.0",
    uptime_s=1.0,
    home="/h",
    socket="/h/s",
    url="",
    packets=0,
    pages=0,
    vectors=0,
    queue=0,
    quarantined=0,
    models=[],
    degraded=[],
)


def test_runs_under_way_are_counted_and_named_so_that_they_can_be_broken_off() -> None:
    assert "research" not in status_text(QUIET)
    busy = status_text(replace(QUIET, research=["res_1", "res_2"]))
    assert "2 runs under way: res_1, res_2" in busy
