"""Which tokens a grammar allows next, without asking llama.cpp about a whole vocabulary of 150,000 (decision 3).

First the single bytes are asked about; then only tokens that begin with an allowed one come into question. Where those
are still many (half of a vocabulary begins with a space), a copy of the grammar takes that byte and says what may be
next. Tokens that would make invalid UTF-8, and control tokens, which show nothing, are never allowed.
Child processes only.
"""

import ctypes
import time
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from gaiad.models.child.alphabet import END, FAR, NONE, NOTHING, Alphabet, unfinished
from gaiad.models.child.bindings import library

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gaiad.models.child.alphabet import Flags, Ids

CANDIDATE = np.dtype([("id", "<i4"), ("logit", "<f4"), ("p", "<f4")])  # llama_token_data
MANY = 4096
_FIRST_LOOK = 512
_ENOUGH = 4  # allowed tokens among the likeliest
_FEW_BYTES = 4
_LONGEST_S = 0.1  # of processor time for one token


class GrammarFault(Exception):
    """The grammar cannot be gone on with; the message says why."""


class Gate:
    """A grammar in the middle of a text. Call `close` at the end. Raises GrammarFault when it cannot be parsed."""

    def __init__(self, alphabet: Alphabet, gbnf: str) -> None:
        self._alphabet = alphabet
        source = gbnf.encode("utf-8", "replace") or b" "  # with an empty one everything would be allowed
        self._grammar = library.llama_sampler_init_grammar(alphabet.vocabulary.handle, source, b"root")
        if not self._grammar:
            raise GrammarFault("llama.cpp cannot parse the grammar")
        self._asked = candidates(np.concatenate([alphabet.probe, alphabet.ends]))
        self._pending = b""
        self._look()

    def accept(self, token: int) -> None:
        """Go on with an allowed token that is no end. Raises GrammarFault when llama.cpp follows too many ways at once.

        It takes microseconds as a rule, and ever longer where every character doubles the ways: better stop early.
        """
        begun = time.thread_time()
        library.llama_sampler_accept(self._grammar, token)
        self._pending = unfinished(self._pending + self._alphabet.vocabulary.piece(token))
        self._look()
        if time.thread_time() - begun > _LONGEST_S:
            raise GrammarFault("the grammar can be followed in too many ways at once; make it less ambiguous")

    @property
    def complete(self) -> bool:
        """Nothing can follow, and the grammar has come to an end."""
        return self.may_end and not self.bytes.any()

    @property
    def stuck(self) -> bool:
        """Nothing can follow, and it has not."""
        return not self.may_end and not self.bytes.any()

    @property
    def many(self) -> bool:
        """So many tokens begin with an allowed byte that trying one first is the cheaper way."""
        return len(self._alphabet.beginning_with(self.bytes)) > MANY

    def allows(self, token: int) -> bool:
        first = int(self._alphabet.first[token])
        if first == NOTHING:
            return self.may_end and token in self._alphabet.ends
        return bool(self.bytes[first]) and len(self.allowed(np.array([token], dtype=np.int32))) == 1

    def possible(self) -> "Ids":
        """Tokens that come into question, more than the grammar allows; ends are not among them."""
        if not self.many:
            return self._alphabet.beginning_with(self.bytes)
        return np.concatenate([NONE, *self._narrowed(self._grammar, self._pending, b"", self.bytes)])

    def allowed(self, ids: "Ids") -> "Ids":
        """Those of `ids`, which are possible ones, that the grammar allows."""
        asked = candidates(ids)
        apply(self._grammar, asked)
        allowed: Ids = ids[asked["logit"] == 0.0]
        return allowed

    def shortlist(self, logits: "NDArray[np.float32]", exact: bool, tired: "Ids") -> "NDArray[Any]":
        """Token data of the allowed tokens with their logits.

        All of them when it is to be `exact`. Otherwise the allowed ones among the likeliest, as soon as there are a few
        that are not `tired` (penalties make those less likely): no chain that keeps the likeliest looks further.
        """
        allowed = NONE if exact else self._first_allowed(logits, tired)
        if not len(allowed):
            allowed = self.allowed(self.possible())
        if self.may_end:
            allowed = np.concatenate([allowed, self._alphabet.ends])
        chosen = candidates(allowed)
        chosen["logit"] = logits[allowed]
        return chosen

    def close(self) -> None:
        """Free it; more than once does no harm."""
        if self._grammar:
            library.llama_sampler_free(self._grammar)
            self._grammar = None

    def _first_allowed(self, logits: "NDArray[np.float32]", tired: "Ids") -> "Ids":
        """The allowed ones among the likeliest, or none when they are too few to choose from."""
        if not self.many:
            return NONE
        wide = int(self.bytes.sum()) > _FEW_BYTES
        for some, ids in ((_FIRST_LOOK, self._alphabet.beginning_with(self.bytes) if wide else NONE), (MANY, None)):
            ids = self.possible() if ids is None else ids
            if len(ids) > some:
                likeliest = ids[np.argpartition(logits[ids], len(ids) - some)[len(ids) - some :]]
                allowed = self.allowed(likeliest)
                if len(allowed) - int(np.isin(allowed, tired).sum()) >= _ENOUGH:
                    return allowed
        return NONE

    def _narrowed(self, grammar: Any, pending: bytes, prefix: bytes, allowed: "Flags") -> "Iterator[Ids]":
        """Tokens that go on after `prefix` with an allowed byte. Where they are many, a copy of the grammar takes that
        byte and tells which may be next.
        """
        for byte, ids in self._alphabet.branch(prefix).items():
            if byte == END:
                yield ids
            elif allowed[byte]:
                single = self._alphabet.single.get(byte)
                if len(ids) <= MANY or single is None or len(prefix) + 2 > FAR:
                    yield ids
                else:
                    copy, after = library.llama_sampler_clone(grammar), unfinished(pending + bytes([byte]))
                    try:
                        library.llama_sampler_accept(copy, single)
                        following, _ = self._bytes_of(copy, after)
                        yield from self._narrowed(copy, after, prefix + bytes([byte]), following)
                    finally:
                        library.llama_sampler_free(copy)

    def _look(self) -> None:
        self.bytes, self.may_end = self._bytes_of(self._grammar, self._pending)

    def _bytes_of(self, grammar: Any, pending: bytes) -> "tuple[Flags, bool]":
        """Which bytes may be next, and whether the text may end here."""
        asked, probe = self._asked, self._alphabet.probe
        asked["logit"] = 0.0
        apply(grammar, asked)
        yes = asked["logit"] == 0.0
        allowed = np.zeros(256, dtype=np.bool_)
        allowed[self._alphabet.first[probe[yes[: len(probe)]]]] = True
        return allowed & _following(pending), bool(yes[len(probe) :].any())


def candidates(ids: "Ids") -> "NDArray[Any]":
    """llama.cpp's array of token data for these tokens, logits 0."""
    array = np.zeros(len(ids), dtype=CANDIDATE)
    array["id"] = ids
    return array


def apply(sampler: Any, array: "NDArray[Any]") -> Any:
    """Apply a sampler in place. The llama_token_data_array that it left; valid as long as `array` is."""
    data = ctypes.cast(array.ctypes.data, library.llama_token_data_p)
    holder = library.llama_token_data_array(data, len(array), -1, False)
    library.llama_sampler_apply(sampler, ctypes.byref(holder))
    return holder


@lru_cache(maxsize=256)
def _following(pending: bytes) -> "Flags":
    """Bytes that may follow the beginning of a character in UTF-8, or with none begin one."""
    flags = np.zeros(256, dtype=np.bool_)
    if not pending:
        flags[:0x80] = flags[0xC2:0xF5] = True
        return flags
    low, high = 0x80, 0xBF
    if len(pending) == 1:
        low = {0xE0: 0xA0, 0xF0: 0x90}.get(pending[0], low)
        high = {0xED: 0x9F, 0xF4: 0x8F}.get(pending[0], high)
    flags[low : high + 1] = True
    return flags
