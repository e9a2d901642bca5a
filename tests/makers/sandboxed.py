"""A real shell for tests; without bubblewrap they are skipped and say why, and under GAIAD_CI they fail."""

import os

import pytest

from gaiad.base.clock import SystemClock
from gaiad.base.config import load_config
from router.channels.command_run import Shell


async def open_shell(*assignments):
    """A shell that was tried, with shell.* settings as `timeout_s=5`."""
    settings = load_config(environment={}, assignments=[f"shell.{one}" for one in assignments]).shell
    shell = Shell(settings, SystemClock("UTC"), os.environ)
    if refusal := await shell.probe():
        if os.environ.get("GAIAD_CI"):
            pytest.fail(f"no sandbox: {refusal}")
        pytest.skip(f"no sandbox: {refusal}")
    return shell
