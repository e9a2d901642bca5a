"""The first words with a worker: it loads its model, says who it is, and answers a canary that is checked."""

from collections.abc import Callable

import msgspec

from gaiad.models.supervision.process import WorkerProcess
from gaiad.models.supervision.protocol import PROTOCOL_VERSION, Delta, Load, LoadFailed, Ready, Reply, Work

Check = Callable[[Ready, Reply], str]
"""A problem in words, from what the worker said of its model and the canary's reply; "" when the model works."""


class BadModel(Exception):
    """The model cannot be served, whatever the number of tries."""


async def say_hello(process: WorkerProcess, load: Load, canary: Work, check: Check) -> Load | None:
    """What a later life is sent when this one is fit: `load` with what was measured. None when it died meanwhile.

    Raises BadModel, ProtocolError.
    """
    process.send(load)
    ready = await process.receive()
    if isinstance(ready, LoadFailed):
        raise BadModel(ready.reason)
    if not isinstance(ready, Ready):
        return None
    if ready.version != PROTOCOL_VERSION:
        raise BadModel(f"the worker speaks protocol {ready.version}, not {PROTOCOL_VERSION}; reinstall gaiad")
    process.send(canary)
    answer = await process.receive()
    while isinstance(answer, Delta):
        answer = await process.receive()
    if answer is None:
        return None
    if problem := check(ready, answer):
        raise BadModel(f"{load.path}: {problem}")
    return msgspec.structs.replace(load, flash="on" if ready.flash else "off") if load.flash == "auto" else load
