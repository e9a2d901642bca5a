"""A disposable process waited for without an event loop."""

import select
import time
from collections.abc import Callable

from gaiad.models.tokens.disposable_process import DisposableProcess, ProcessLimits


def run(work: Callable[[], bytes], limits: ProcessLimits | None = None) -> bytes:
    """What `work` returned in a process of its own. Raises Died."""
    trial = DisposableProcess(work, limits)
    trial.start()
    try:
        while not trial.over:
            look = select.poll()
            for descriptor in trial.descriptors:
                look.register(descriptor, select.POLLIN)
            look.poll(max(0.0, trial.until - time.monotonic()) * 1e3 + 1.0)
            trial.pump()
    finally:
        trial.kill()
    return trial.outcome()
