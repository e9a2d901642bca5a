"""For tests that wait for something to come true: patiently, for a loaded machine is slow, and not for ever."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

PATIENCE_S = 60.0


async def until(condition: Callable[[], Any], patience_s: float = PATIENCE_S) -> Any:
    """What `condition` returns once that is something; the event loop goes on meanwhile. In vain it fails the test."""
    end = time.monotonic() + patience_s
    while not (found := condition()):
        assert time.monotonic() < end, f"the condition did not come true within {patience_s:g} s"
        await asyncio.sleep(0.005)
    return found


def wait_until(condition: Callable[[], Any], patience_s: float = PATIENCE_S) -> Any:
    """As `until`, where nothing but the condition has to go on in this thread."""
    end = time.monotonic() + patience_s
    while not (found := condition()):
        assert time.monotonic() < end, f"the condition did not come true within {patience_s:g} s"
        time.sleep(0.02)
    return found
