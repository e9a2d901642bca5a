"""What the pool keeps: a model behind the port, with a life that can be begun, waited for and ended."""

from typing import Protocol

from gaiad.ports import Call, Model


class ServedModel(Model, Protocol):
    """Start, readiness, heartbeat, end; the same for a worker, a remote server and a model without weights."""

    async def start(self) -> None:
        """Begin in the background; again after `close` or a failure tries anew."""
        ...

    async def wait_ready(self, timeout_s: float) -> None:
        """Raises Unavailable with the reason when it is not ready by then."""
        ...

    async def beat(self, call: Call) -> float:
        """One real token (GCP 8.2); the milliseconds it took. Raises as `generate`."""
        ...

    async def close(self) -> None: ...

    def stderr_lines(self) -> list[str]:
        """A worker's last words on standard error, for `gaiad doctor`; none for what has no process."""
        ...
