"""Waiting within a call, and what every model checks of a request before it is served."""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Callable, Iterator

from gaiad.base.clock import Clock
from gaiad.base.errors import BadInput
from gaiad.base.ports import RequestContext
from gaiad.wire.generation import GenerateRequest, Sampling, one_form

_LOOK_S = 0.02


@contextlib.asynccontextmanager
async def attentive(
    call: RequestContext, clock: Clock, patience_s: float, given_up: Callable[[], bool] = lambda: False
) -> AsyncIterator[None]:
    """What runs inside is given up when the call is.

    Raises Cancelled or DeadlineExceeded then, and TimeoutError after `patience_s` or as soon as `given_up` says so.
    """
    call.check(clock.monotonic())
    try:
        async with asyncio.timeout(patience_s) as limit:
            with _looking(limit, call, clock, given_up):
                yield
    except TimeoutError:
        call.check(clock.monotonic())
        raise


async def pause(seconds: float, call: RequestContext, clock: Clock) -> None:
    """Sleep. Raises Cancelled or DeadlineExceeded as soon as it is so."""
    with contextlib.suppress(TimeoutError):
        async with attentive(call, clock, seconds):
            await asyncio.Event().wait()


@contextlib.contextmanager
def _looking(
    limit: asyncio.Timeout, call: RequestContext, clock: Clock, given_up: Callable[[], bool]
) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle

    def look() -> None:
        nonlocal timer
        late = call.deadline is not None and clock.monotonic() > call.deadline
        if late or call.cancelled or given_up():
            limit.reschedule(loop.time())
        else:
            timer = loop.call_later(_LOOK_S, look)

    timer = loop.call_later(_LOOK_S, look)
    try:
        yield
    finally:
        timer.cancel()


_HIGHEST_SEED = 2**32 - 1
_NUMBERS = ("temperature", "top_p", "min_p", "repeat_penalty", "frequency_penalty", "presence_penalty")


def check_request(request: GenerateRequest) -> None:
    """Raises BadInput that names the value and the remedy."""
    problem = one_form(request) or _limits(request) or _numbers(request.sampling)
    if problem:
        raise BadInput(problem)


def _limits(request: GenerateRequest) -> str:
    if request.max_tokens < 1:
        return f"max_tokens is {request.max_tokens}; ask for 1 or more"
    if request.seed is not None and not 0 <= request.seed <= _HIGHEST_SEED:
        return f"seed is {request.seed}; give a number from 0 to {_HIGHEST_SEED}"
    return ""


def _numbers(sampling: Sampling) -> str:
    for name in _NUMBERS:
        value = getattr(sampling, name)
        if not math.isfinite(value):
            return f"{name} is {value:g}; give a finite number"
    for name in ("temperature", "top_k", "repeat_window"):
        if getattr(sampling, name) < 0:
            return f"{name} is {getattr(sampling, name):g}; give 0 or more"
    return ""
