"""Progress of jobs on a terminal's stderr, and following a job to its end.

A job is asked for its state, quickly at first so that small things feel instant, then a few times a second. Ctrl-C asks
the daemon to cancel the job and keeps following; a second one leaves.
"""

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from gaiad.cli.output import plain

if TYPE_CHECKING:
    from gaiad.client.client import Client
    from gaiad.wire.status import Job

_BAR_WIDTH = 30
_FIRST_WAIT_S = 0.004
_LONGEST_WAIT_S = 0.25
_SHOW_AFTER_S = 0.3
ENDED = ("done", "failed", "cancelled")


def waits() -> Iterator[float]:
    """Seconds between two looks at a job: short, then longer, up to a quarter of a second."""
    wait_s = _FIRST_WAIT_S
    while True:
        yield wait_s
        wait_s = min(wait_s * 1.5, _LONGEST_WAIT_S)


def bar_text(label: str, done: int, total: int, elapsed_s: float, *, in_bytes: bool = False) -> str:
    """One line: label, bar, counts (or megabytes), rate and the time left at that rate."""
    if total <= 0:
        return f"{label}: looking for files"
    filled = _BAR_WIDTH * min(done, total) // total
    rate = done / elapsed_s if elapsed_s > 0 else 0.0
    left = f", {(total - done) / rate:.0f} s left" if rate and done < total else ""
    counts = f"{done:,}/{total:,}  {rate:,.0f}/s"
    if in_bytes:
        counts = f"{done / 1e6:,.1f}/{total / 1e6:,.1f} MB  {rate / 1e6:,.1f} MB/s"
    return f"{label} [{'#' * filled}{'.' * (_BAR_WIDTH - filled)}] {counts}{left}"


class Bar:
    """A progress line on stderr; silent when stderr is not a terminal or the work is over at once."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._started = time.monotonic()
        self._shown = False
        self._terminal = sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def show(self, done: int, total: int, note: str = "") -> None:
        text = bar_text(self._label, done, total, self.elapsed_s(), in_bytes=self._label == "import")
        self.write(f"{text}{'  ' + plain(note)[:40] if note else ''}")

    def elapsed_s(self) -> float:
        return time.monotonic() - self._started

    def write(self, text: str) -> None:
        """Put `text` where the line is, once the work has taken long enough to be worth one."""
        if not self._terminal or self.elapsed_s() < _SHOW_AFTER_S:
            return
        sys.stderr.write(f"\r\x1b[2K{text}")
        sys.stderr.flush()
        self._shown = True

    def clear(self) -> None:
        """Take the line away, before other text."""
        if self._shown:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
            self._shown = False


class Followed(NamedTuple):
    """The job as it ended, and whether a Ctrl-C here asked for that."""

    job: "Job"
    interrupted: bool


def follow_job(client: "Client", job: "Job", label: str, each: Callable[["Job"], None] | None = None) -> Followed:
    """Wait until the job has ended; `each` is called at every look, the last time with the ended job."""
    pace = waits()
    asked = False
    with _Interrupts() as interrupts, Bar(label) as bar:
        while True:
            job = client.job(job.job_id, job.tenant)
            bar.show(job.done, job.total, job.note)
            if each is not None:
                each(job)
            if job.state in ENDED:
                return Followed(job, asked)
            if interrupts.count and not asked:
                asked = True
                _cancel(client, job, bar)
            time.sleep(next(pace))


class _Interrupts:
    """Counts Ctrl-C instead of raising at the first; the second raises as usual."""

    def __init__(self) -> None:
        self.count = 0
        self._previous: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
        if self.count > 1:
            raise KeyboardInterrupt


def _cancel(client: "Client", job: "Job", bar: Bar) -> None:
    from gaiad.base.errors import Conflict

    bar.clear()
    print(f"cancelling {job.job_id}; Ctrl-C again leaves it to the daemon", file=sys.stderr)
    try:
        client.cancel_job(job.job_id, job.tenant)
    except Conflict:
        return  # it ended in the meantime
