"""What a measurement says of a daemon that does not come up."""

import shlex
import sys
from pathlib import Path

import pytest

from gaiad.base.errors import Unavailable
from gaiad.bench import daemon_process
from gaiad.bench.daemon_process import running_daemon


def test_one_that_exits_is_reported_with_its_status() -> None:
    with pytest.raises(Unavailable, match=r"exited with status [1-9]"), running_daemon("http.port=none"):
        pass


def test_one_that_hangs_is_reported_with_its_stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} -c 'import time; time.sleep(100)'\n")
    script.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(script))
    monkeypatch.setattr(daemon_process, "_READY_S", 5.0)
    with pytest.raises(Unavailable, match=r"(?s)aborted, after \d+ s.*most recent call first"), running_daemon():
        pass
