"""What one worker owes: which request an answer or a piece of text belongs to, and what a death of it means to all."""

from gaiad.errors import BadInput, Cancelled, GaiadError, Unavailable, WorkerDied
from gaiad.models.supervision.pending import Pending
from gaiad.models.supervision.protocol import Delta, Failed, Last


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
        """It was never sent, or nobody waits for its answer any more."""
        self._pending.pop(pending.id, None)

    def settle(self, reply: Last) -> None:
        """Hand the reply to its request; one to a request that is gone is dropped."""
        pending = self._pending.pop(reply.id, None)
        if pending is not None and not pending.answer.done():
            pending.answer.set_result(reply)

    def add(self, piece: Delta) -> None:
        """Hand a piece of text to its request; one to a request that is gone is dropped."""
        if piece.id in self._pending:
            self._pending[piece.id].add(piece)

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
