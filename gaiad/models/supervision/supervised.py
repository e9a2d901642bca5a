"""What every model in a worker shares on the daemon's side: start, readiness, stop, status, last words."""

import msgspec

from gaiad.models.supervision.supervisor import Supervisor
from gaiad.status_schemas import ModelStatus


class SupervisedModel:
    """One supervised worker under a fingerprint; what is asked of it is the subclass's business."""

    def __init__(self, supervisor: Supervisor, fingerprint: str) -> None:
        self._supervisor = supervisor
        self._fingerprint = fingerprint

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the model's file; an embedder adds what else names its vector space."""
        return self._fingerprint

    async def start(self) -> None:
        """Spawn the worker in the background."""
        await self._supervisor.start()

    async def wait_ready(self, timeout_s: float) -> None:
        """Raises Unavailable with the reason when the worker is not ready by then."""
        await self._supervisor.wait_ready(timeout_s)

    async def close(self) -> None:
        """Stop the worker; calls in flight get WorkerDied."""
        await self._supervisor.close()

    def status(self) -> ModelStatus:
        return msgspec.structs.replace(self._supervisor.status(), fingerprint=self._fingerprint)

    def stderr_lines(self) -> list[str]:
        """The worker's last lines on standard error, for `gaiad doctor`."""
        return self._supervisor.stderr_lines()
