"""How the trail of a run comes to be kept: at its answer, or where it broke off. Without a recorder nothing is."""

import asyncio
from typing import Protocol

import msgspec

from gaiad.errors import Cancelled, GaiadError
from gaiad.ports import Call
from gaiad.research.trail import Trail
from gaiad.schemas import ResearchResult


class Recorder(Protocol):
    """Who keeps trails of runs."""

    def new_id(self) -> str:
        """The id of a run that begins."""
        ...

    async def keep(self, trail: Trail, call: Call) -> str:
        """Keep the run, durable when this returns; why it could not be kept, "" when it was."""
        ...


async def kept(recorder: Recorder | None, trail: Trail, result: ResearchResult, call: Call) -> ResearchResult:
    """The result with the id of the kept run, or with the reason why it is not kept."""
    if recorder is None:
        return result
    result = msgspec.structs.replace(result, research_id=trail.research_id)
    trail.answered(result)
    trouble = await recorder.keep(trail, call)
    if not trouble:
        return result
    return msgspec.structs.replace(
        result, research_id="", degraded=[*result.degraded, f"the run was not kept: {trouble}"]
    )


async def keep_broken_off(
    recorder: Recorder | None, trail: Trail, error: BaseException, call: Call, *, goes_on: bool = False
) -> None:
    """A run that came to no answer is kept too, from where the question was understood.

    One that `goes_on` after a stop of the daemon has come to no end by it: nothing is kept.
    """
    if recorder is None or trail.parameters is None or (goes_on and isinstance(error, asyncio.CancelledError)):
        return
    cancelled = isinstance(error, asyncio.CancelledError | Cancelled)
    trail.broke_off("cancelled" if cancelled else "failed", _why(error))
    await recorder.keep(trail, call)


def _why(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError):
        return "the caller went away"
    return error.message if isinstance(error, GaiadError) else f"unexpected {type(error).__name__}"
