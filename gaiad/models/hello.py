"""The first words with a worker: it loads its model, says who it is, and answers a canary that is checked."""

from collections.abc import Callable

from gaiad.models.process import WorkerProcess
from gaiad.models.protocol import PROTOCOL_VERSION, Delta, Load, LoadFailed, Ready, Reply, Work

Check = Callable[[Ready, Reply], str]
"""A problem in words, from what the worker said of its model and the canary's reply; "" when the model works."""


class BadModel(Exception):
    """The model cannot be served, whatever the number of tries."""


async def say_hello(process: WorkerProcess, load: Load, canary: Work, check: Check) -> bool:
    """True when the worker is fit, False when it died meanwhile. Raises BadModel, ProtocolError."""
    process.send(load)
    ready = await process.receive()
    if isinstance(ready, LoadFailed):
        raise BadModel(ready.reason)
    if not isinstance(ready, Ready):
        return False
    if ready.version != PROTOCOL_VERSION:
        raise BadModel(f"the worker speaks protocol {ready.version}, not {PROTOCOL_VERSION}; reinstall gaiad")
    process.send(canary)
    answer = await process.receive()
    while isinstance(answer, Delta):
        answer = await process.receive()
    if answer is None:
        return False
    if problem := check(ready, answer):
        raise BadModel(f"{load.path}: {problem}")
    return True
