"""Steps of a run that may be cut off: each is noted before and after, and its result is used when the run goes on.

A run that is taken up again asks the same things in the same order, so a step is known by what it asks. What was in
flight is asked again: every step here may be repeated. A command may not, and is no step: its approval has states.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Protocol, TypeVar

import msgspec

from gaiad.wire.generation import Generated, GenerateRequest, TextDelta

T = TypeVar("T")
JournalOf = Callable[[str, str], "StepJournal"]
"""The journal of a tenant's run, by its id."""
Reply = AsyncGenerator[TextDelta | Generated, None]


class StepJournal(Protocol):
    """The steps of one run."""

    async def begin(self, name: str, asked: bytes) -> tuple[str, bytes | None]:
        """Note that a step begins; its idempotency key, and its result when it came to its end before."""
        ...

    async def end(self, key: str, result: bytes) -> None:
        """Note what a step came to."""
        ...


async def journalled(
    journal: StepJournal | None, name: str, asked: msgspec.Struct, kind: type[T], work: Callable[[], Awaitable[T]]
) -> T:
    """What `work` gives, or gave in an earlier life of the run; `asked` tells steps of one name apart."""
    if journal is None:
        return await work()
    key, known = await journal.begin(name, msgspec.json.encode(asked))
    if known is not None:
        return msgspec.json.decode(known, type=kind)
    result = await work()
    await journal.end(key, msgspec.json.encode(result))
    return result


async def journalled_reply(
    journal: StepJournal, name: str, request: GenerateRequest, generate: Callable[[], Reply]
) -> Reply:
    """As Model.generate; a reply of an earlier life of the run comes in one piece."""
    key, known = await journal.begin(f"model {name}", msgspec.json.encode(request))
    if known is not None:
        reply = msgspec.json.decode(known, type=Generated)
        yield TextDelta(text=reply.text, tokens=reply.tokens)
        yield reply
        return
    async with aclosing(generate()) as pieces:
        async for piece in pieces:
            if isinstance(piece, Generated):
                await journal.end(key, msgspec.json.encode(piece))
            yield piece
