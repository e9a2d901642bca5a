"""The building of an hnswlib base as the daemon sees it: a child process that answers with a manifest, or a reason."""

import subprocess
import sys
import threading
from pathlib import Path

import msgspec

from gaiad.archive.dense import vector_file
from gaiad.archive.dense.hnsw_build import EXIT_LOW_RECALL, RECALL_FLOOR

_TIMEOUT_S = 6 * 3600.0


class NotBuilt(Exception):
    """There is no new base; the message says why, as the end of a sentence about it."""


class LowRecall(NotBuilt):
    """Another build of the same vectors would find as little."""


class BaseBuild:
    """One build at a time. `run` blocks for minutes; `stop` may come from another thread, and holds for good."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._starting = threading.Lock()
        self._stopped = False

    def run(self, database: Path, space: int, fingerprint: str, folder: Path) -> vector_file.Manifest:
        """The manifest of the base that the child wrote into `folder`. Raises NotBuilt."""
        arguments = [str(database), str(space), fingerprint, str(folder)]
        try:
            child = self._start([sys.executable, "-m", "gaiad.archive.dense.hnsw_build", *arguments])
            output, errors = child.communicate(timeout=_TIMEOUT_S)
            status = child.returncode
        except (OSError, subprocess.TimeoutExpired) as error:
            self._end()
            raise NotBuilt(f"could not be built ({error})") from error
        finally:
            self._child = None
        if status == EXIT_LOW_RECALL:
            raise LowRecall(f"an hnswlib index would find less than {RECALL_FLOOR:.0%} of what a scan finds")
        if status:
            last = errors.decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
            raise NotBuilt(f"building ended with status {status} ({last[0]})")
        return msgspec.json.decode(output, type=vector_file.Manifest)

    def stop(self) -> None:
        """End a running build, or one about to run; what it wrote is removed with the next index."""
        with self._starting:
            self._stopped = True
        self._end()

    def _start(self, command: list[str]) -> subprocess.Popen[bytes]:
        """The child, which `stop` finds from now on. Raises NotBuilt after it."""
        with self._starting:
            if self._stopped:
                raise NotBuilt("was not built, for the archive closes")
            self._child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            return self._child

    def _end(self) -> None:
        child = self._child
        if child is not None:
            child.kill()
            child.wait()
