"""Requests on their way to a worker, each with the place its answer will lie."""

import asyncio

from gaiad.errors import BadInput, Cancelled, GaiadError, Unavailable, WorkerDied
from gaiad.models.protocol import Failed, Pong, Reply, Vectors


class Pending:
    """A request on its way. Await `Supervisor.result`."""

    __slots__ = ("answer", "id")

    def __init__(self, request_id: int) -> None:
        self.id = request_id
        self.answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()


class InFlight:
    """All requests that one worker owes an answer; ids are never used twice, not by a later worker either."""

    def __init__(self) -> None:
        self._pending: dict[int, Pending] = {}
        self._last_id = 0

    def __len__(self) -> int:
        return len(self._pending)

    def register(self) -> Pending:
        """A new request, with the id it is to be sent under."""
        self._last_id += 1
        pending = self._pending[self._last_id] = Pending(self._last_id)
        return pending

    def withdraw(self, pending: Pending) -> None:
        """It was never sent."""
        self._pending.pop(pending.id, None)

    def settle(self, reply: Vectors | Failed | Pong) -> None:
        """Hand the reply to its request; one to a request that is gone is dropped."""
        pending = self._pending.pop(reply.id, None)
        if pending is not None and not pending.answer.done():
            pending.answer.set_result(reply)

    def fail(self, role: str, reason: str) -> None:
        """The worker is gone: WorkerDied for all it owed."""
        failed, self._pending = list(self._pending.values()), {}
        for waiting in failed:
            if not waiting.answer.done():
                waiting.answer.set_exception(WorkerDied(f"{role}: {reason}"))
                waiting.answer.exception()  # a request nobody awaits any more must not warn


def error_of(role: str, failed: Failed) -> GaiadError:
    """A refusal as the error its caller raises."""
    match failed.code:
        case "cancelled":
            return Cancelled(f"{role}: {failed.reason}")
        case "bad_input":
            return BadInput(f"{role}: {failed.reason}")
        case "engine":
            return Unavailable(f"{role}: {failed.reason}")
