"""Which tokens a grammar allows next, without asking llama.cpp about a whole vocabulary of 150,000 (decision 3).

First the single bytes are asked about; then only tokens that begin with an allowed one come into question. Where those
are still many (half of a vocabulary begins with a space), a copy of the grammar takes that byte and says what may be
second. Tokens that would make invalid UTF-8, and control tokens, which show nothing, are never allowed.
Child processes only.
"""

import ctypes
from collections import OrderedDict
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from gaiad.models.bindings import library
from gaiad.models.vocabulary import Vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ids = NDArray[np.int32]
    Flags = NDArray[np.bool_]

CANDIDATE = np.dtype([("id", "<i4"), ("logit", "<f4"), ("p", "<f4")])  # llama_token_data
MANY = 4096
_FIRST_LOOK = 512
_KEPT_LISTS = 16
_NOTHING = -1


class GrammarFault(Exception):
    """The grammar cannot be gone on with; the message says why and what was written so far."""


class Alphabet:
    """The tokens of a vocabulary by their first two bytes. Reads every token once: about 0.2 s for 150,000."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.ends = np.array([token for token in range(vocabulary.size) if vocabulary.ends(token)], dtype=np.int32)
        self.pieces = _pieces(vocabulary, frozenset(self.ends.tolist()))
        self.first = np.array([piece[0] if piece else _NOTHING for piece in self.pieces], dtype=np.int16)
        self._second = np.array([piece[1] if len(piece) > 1 else 256 for piece in self.pieces], dtype=np.int16)
        self.groups: list[Ids] = [np.flatnonzero(self.first == byte).astype(np.int32) for byte in range(256)]
        self.counts = np.array([len(group) for group in self.groups])
        self.single = [next(iter(group[self._second[group] == 256].tolist()), _NOTHING) for group in self.groups]
        probes = [
            [one] if one != _NOTHING else group.tolist() for one, group in zip(self.single, self.groups, strict=True)
        ]
        self.probe: Ids = np.array([token for tokens in probes for token in tokens], dtype=np.int32)
        self._lists: OrderedDict[bytes, Ids] = OrderedDict()

    def beginning_with(self, allowed: "Flags") -> "Ids":
        """Tokens whose first byte is allowed."""
        return self._kept(b"first" + allowed.tobytes(), lambda: self._joined(allowed))

    def going_on(self, byte: int, allowed: "Flags") -> "Ids":
        """Tokens that begin with `byte` and have an allowed second one, or none."""

        def chosen() -> "Ids":
            group = self.groups[byte]
            found: Ids = group[np.append(allowed, True)[self._second[group]]]
            return found

        return self._kept(bytes([byte]) + allowed.tobytes(), chosen)

    def _joined(self, allowed: "Flags") -> "Ids":
        groups = [self.groups[byte] for byte in np.flatnonzero(allowed)]
        return np.concatenate(groups) if groups else np.empty(0, dtype=np.int32)

    def _kept(self, key: bytes, make: Any) -> "Ids":
        found: Ids | None = self._lists.pop(key, None)
        self._lists[key] = made = make() if found is None else found
        if len(self._lists) > _KEPT_LISTS:
            self._lists.popitem(last=False)
        return made


@lru_cache(maxsize=4)
def alphabet_of(vocabulary: Vocabulary) -> Alphabet:
    """Read once: a generating worker has one vocabulary, the tokenizer child a few."""
    return Alphabet(vocabulary)


class Gate:
    """A grammar in the middle of a text. Call `close` at the end. Raises GrammarFault when it cannot be parsed."""

    def __init__(self, alphabet: Alphabet, gbnf: str) -> None:
        self._alphabet = alphabet
        self._grammar = library.llama_sampler_init_grammar(alphabet.vocabulary.handle, gbnf.encode(), b"root")
        if not self._grammar:
            raise GrammarFault("llama.cpp cannot parse the grammar")
        self._asked = candidates(np.concatenate([alphabet.probe, alphabet.ends]))
        self._pending = b""
        self._look()

    def accept(self, token: int) -> None:
        """Go on with an allowed token that is no end."""
        library.llama_sampler_accept(self._grammar, token)
        self._pending = _unfinished(self._pending + self._alphabet.pieces[token])
        self._look()

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
        return int(self._alphabet.counts[self.bytes].sum()) > MANY

    def allows(self, token: int) -> bool:
        first = int(self._alphabet.first[token])
        if first == _NOTHING:
            return self.may_end and token in self._alphabet.ends
        return bool(self.bytes[first]) and len(self.allowed(np.array([token], dtype=np.int32))) == 1

    def possible(self) -> "Ids":
        """Tokens that come into question, more than the grammar allows; ends are not among them."""
        ids = self._alphabet.beginning_with(self.bytes)
        if len(ids) <= MANY:
            return ids
        bytes_now = np.flatnonzero(self.bytes)
        big = [int(byte) for byte in bytes_now if len(self._alphabet.groups[byte]) > MANY // 4]
        some = self.bytes.copy()
        some[big] = False
        return np.concatenate([self._alphabet.beginning_with(some), *(self._after(byte) for byte in big)])

    def allowed(self, ids: "Ids") -> "Ids":
        """Those of `ids`, which are possible ones, that the grammar allows."""
        asked = candidates(ids)
        apply(self._grammar, asked)
        allowed: Ids = ids[asked["logit"] == 0.0]
        return allowed

    def shortlist(self, logits: "NDArray[np.float32]", enough: int) -> "NDArray[Any]":
        """Token data of the allowed tokens with their logits: all, or the likeliest when `enough` of them pass."""
        ids = self.possible()
        some = max(_FIRST_LOOK, 4 * enough) if enough else len(ids)
        allowed = ids[:0]
        while some < len(ids) and len(allowed) < enough:
            values = logits[ids]
            allowed = self.allowed(ids[np.argpartition(values, len(ids) - some)[len(ids) - some :]])
            some *= 8
        if len(allowed) < max(enough, 1):
            allowed = self.allowed(ids)
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

    def _after(self, byte: int) -> "Ids":
        """Tokens that begin with `byte` and whose second byte a copy of the grammar allows after it."""
        single = self._alphabet.single[byte]
        if single == _NOTHING:
            return self._alphabet.groups[byte]
        copy = library.llama_sampler_clone(self._grammar)
        try:
            library.llama_sampler_accept(copy, single)
            allowed, _ = self._bytes_of(copy, _unfinished(self._pending + bytes([byte])))
        finally:
            library.llama_sampler_free(copy)
        return self._alphabet.going_on(byte, allowed)

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


def _pieces(vocabulary: Vocabulary, ends: frozenset[int]) -> list[bytes]:
    """What each token shows; nothing for ends, for control tokens and for what is no part of UTF-8."""
    buffer, room = ctypes.create_string_buffer(512), 512
    pieces = []
    for token in range(vocabulary.size):
        length = library.llama_token_to_piece(vocabulary.handle, token, buffer, room, 0, False)
        if length < 0:
            buffer, room = ctypes.create_string_buffer(-length), -length
            length = library.llama_token_to_piece(vocabulary.handle, token, buffer, room, 0, False)
        piece = ctypes.string_at(buffer, max(0, length))
        pieces.append(piece if token not in ends and piece[:1] != b"\0" and _is_utf8_part(piece) else b"")
    return pieces


def _is_utf8_part(piece: bytes) -> bool:
    """Whether it may stand somewhere in UTF-8: it may begin and end within a character."""
    if piece.isascii():
        return True
    inside = next((at for at, byte in enumerate(piece) if byte & 0xC0 != 0x80), len(piece))
    tail = _unfinished(piece[inside:])
    try:
        piece[inside : len(piece) - len(tail)].decode()
    except UnicodeDecodeError:
        return False
    return inside < 4


def _unfinished(data: bytes) -> bytes:
    """The beginning of a character that `data` ends with, or nothing."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[-back:] if needed > back else b""
        if byte < 0x80:
            break
    return b""


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
