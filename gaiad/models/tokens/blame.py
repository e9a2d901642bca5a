"""Remembers for a while which requests killed the tokenizer child twice, so that they cannot do it again and again.

One request is refused when it is made again; a file over which several died is refused with all its requests.
"""

import hashlib
from collections import Counter

import msgspec

from gaiad.clock import Clock
from gaiad.errors import BadInput
from gaiad.models.supervision.protocol import Words

BLAME_S = 300.0
REQUESTS_OF_A_FILE = 3
_REMEMBERED = 64
_encoder = msgspec.msgpack.Encoder()


class Blame:
    """What is remembered: the newest _REMEMBERED requests, each for BLAME_S seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._guilty: dict[bytes, tuple[float, str, str]] = {}

    def put_on(self, request: Words, reason: str) -> BadInput:
        """Remember the request; the error its caller gets."""
        while len(self._guilty) >= _REMEMBERED:
            del self._guilty[next(iter(self._guilty))]
        self._guilty[_key(request)] = (self._clock.monotonic() + BLAME_S, request.path, reason)
        return BadInput(f"{request.path}: the tokenizer died twice over this request ({reason}); change the request")

    def refuse(self, request: Words) -> None:
        """Raises BadInput when this request or others on its file are to blame. Costs nothing while nobody is."""
        if not self._guilty:
            return
        now = self._clock.monotonic()
        self._guilty = {key: found for key, found in self._guilty.items() if now < found[0]}
        if known := self._guilty.get(_key(request)):
            raise BadInput(
                f"{request.path}: the tokenizer died twice over this request ({known[2]}); change the request"
            )
        if Counter(path for _, path, _ in self._guilty.values())[request.path] >= REQUESTS_OF_A_FILE:
            raise BadInput(f"{request.path}: the tokenizer died over it again and again; replace the file or try later")


def _key(request: Words) -> bytes:
    """The request but for its number."""
    return hashlib.blake2b(_encoder.encode(msgspec.structs.replace(request, id=0)), digest_size=16).digest()
