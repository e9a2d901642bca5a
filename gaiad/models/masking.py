"""Which tokens a grammar allows next, without asking llama.cpp about a whole vocabulary of 150,000 (decision 3).

First the single bytes are asked about; then only tokens that begin with an allowed one come into question. Where those
are still many (half of a vocabulary begins with a space), a copy of the grammar takes that byte and says what may be
next. Tokens that would make invalid UTF-8, and control tokens, which show nothing, are never allowed.
Child processes only.
"""

import ctypes
import time
from collections import OrderedDict
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from gaiad.models.bindings import library
from gaiad.models.vocabulary import Vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ids = NDArray[np.int32]
    Flags = NDArray[np.bool_]

_NONE = np.empty(0, dtype=np.int32)
CANDIDATE = np.dtype([("id", "<i4"), ("logit", "<f4"), ("p", "<f4")])  # llama_token_data
MANY = 4096
_FIRST_LOOK = 512
_ENOUGH = 4  # allowed tokens among the likeliest
_FEW_BYTES = 4
_FAR = 12  # how many bytes of a token are asked about one by one
_KEPT_LISTS = 16
_NOTHING = -1
_LONGEST_S = 0.1  # of processor time for one token
_END = 256  # stands for the byte after a token's last


class GrammarFault(Exception):
    """The grammar cannot be gone on with; the message says why."""


class Alphabet:
    """The tokens of a vocabulary by their first bytes. Reads every token once: 0.4 s for 150,000.

    `first` is each token's first byte, -1 where it shows nothing; `ends` are the tokens that end a reply.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        is_end, handle = library.llama_vocab_is_eog, vocabulary.handle
        ends = [token for token in range(vocabulary.size) if is_end(handle, token)]
        self.ends = np.array(ends, dtype=np.int32)
        pieces = _pieces(vocabulary, frozenset(ends))
        lengths = np.array([len(piece) for piece in pieces])
        texts = np.array(pieces, dtype=f"S{_FAR}").view(np.uint8).reshape(len(pieces), _FAR)
        self._bytes = np.where(np.arange(_FAR) < lengths[:, None], texts.astype(np.int16), np.int16(_END))
        self.first = np.where(lengths > 0, self._bytes[:, 0], np.int16(_NOTHING))
        self._branches: dict[bytes, dict[int, Ids]] = {b"": self._split(np.flatnonzero(lengths).astype(np.int32), 0)}
        self.single = {byte: token for byte in self._branches[b""] if (token := self._alone(byte)) is not None}
        others = [ids for byte, ids in self._branches[b""].items() if byte not in self.single]
        self.probe: Ids = np.concatenate([np.array(list(self.single.values()), dtype=np.int32), *others])
        self._tokens: dict[bytes, int] = {}
        self._lists: OrderedDict[bytes, Ids] = OrderedDict()

    def read(self) -> dict[bytes, int]:
        """A token for each text that one token shows; walks need it, masks do not. Kept."""
        if not self._tokens:
            shown = np.flatnonzero(self.first != _NOTHING).tolist()
            self._tokens = {self.vocabulary.piece(token): token for token in shown}
        return self._tokens

    def beginning_with(self, allowed: "Flags") -> "Ids":
        """Tokens whose first byte is allowed; the last few answers are kept."""
        key = allowed.tobytes()
        found = self._lists.pop(key, None)
        if found is None:
            found = np.concatenate([_NONE, *(ids for byte, ids in self.branch(b"").items() if allowed[byte])])
        self._lists[key] = found
        if len(self._lists) > _KEPT_LISTS:
            self._lists.popitem(last=False)
        return found

    def branch(self, prefix: bytes) -> "dict[int, Ids]":
        """Tokens that begin with `prefix`, by the byte that follows; 256 is the end. Kept: they are few."""
        found = self._branches.get(prefix)
        if found is None:
            found = self._branches[prefix] = self._split(self.branch(prefix[:-1])[prefix[-1]], len(prefix))
        return found

    def _split(self, ids: "Ids", depth: int) -> "dict[int, Ids]":
        here = self._bytes[ids, depth]
        order = np.argsort(here, kind="stable")
        values, starts = np.unique(here[order], return_index=True)
        return {int(value): part for value, part in zip(values, np.split(ids[order], starts[1:]), strict=True)}

    def _alone(self, byte: int) -> int | None:
        """The token that is this byte and nothing else."""
        short = self.branch(bytes([byte])).get(_END)
        return None if short is None else int(short[0])


@lru_cache(maxsize=4)
def alphabet_of(vocabulary: Vocabulary) -> Alphabet:
    """The alphabet of a vocabulary, read once."""
    return Alphabet(vocabulary)


class Gate:
    """A grammar in the middle of a text. Call `close` at the end. Raises GrammarFault when it cannot be parsed."""

    def __init__(self, alphabet: Alphabet, gbnf: str) -> None:
        self._alphabet = alphabet
        source = gbnf.encode("utf-8", "replace")
        self._grammar = library.llama_sampler_init_grammar(alphabet.vocabulary.handle, source, b"root")
        if not self._grammar or not source:  # with an empty one everything would be allowed
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
        self._pending = _unfinished(self._pending + self._alphabet.vocabulary.piece(token))
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
        if first == _NOTHING:
            return self.may_end and token in self._alphabet.ends
        return bool(self.bytes[first]) and len(self.allowed(np.array([token], dtype=np.int32))) == 1

    def possible(self) -> "Ids":
        """Tokens that come into question, more than the grammar allows; ends are not among them."""
        if not self.many:
            return self._alphabet.beginning_with(self.bytes)
        return np.concatenate([_NONE, *self._narrowed(self._grammar, self._pending, b"", self.bytes)])

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
        allowed = _NONE if exact else self._first_allowed(logits, tired)
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
            return _NONE
        wide = int(self.bytes.sum()) > _FEW_BYTES
        for some, ids in ((_FIRST_LOOK, self._alphabet.beginning_with(self.bytes) if wide else _NONE), (MANY, None)):
            ids = self.possible() if ids is None else ids
            if len(ids) > some:
                likeliest = ids[np.argpartition(logits[ids], len(ids) - some)[len(ids) - some :]]
                allowed = self.allowed(likeliest)
                if len(allowed) - int(np.isin(allowed, tired).sum()) >= _ENOUGH:
                    return allowed
        return _NONE

    def _narrowed(self, grammar: Any, pending: bytes, prefix: bytes, allowed: "Flags") -> "Iterator[Ids]":
        """Tokens that go on after `prefix` with an allowed byte. Where they are many, a copy of the grammar takes that
        byte and tells which may be next.
        """
        for byte, ids in self._alphabet.branch(prefix).items():
            if byte == _END:
                yield ids
            elif allowed[byte]:
                single = self._alphabet.single.get(byte)
                if len(ids) <= MANY or single is None or len(prefix) + 2 > _FAR:
                    yield ids
                else:
                    copy, after = library.llama_sampler_clone(grammar), _unfinished(pending + bytes([byte]))
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


def _pieces(vocabulary: Vocabulary, ends: frozenset[int]) -> list[bytes]:
    """What each token shows; nothing for ends, for control tokens and for what is no part of UTF-8."""
    read, handle, room = library.llama_token_to_piece, vocabulary.handle, 512
    buffer = ctypes.create_string_buffer(room)
    pieces = []
    for token in range(vocabulary.size):
        length = read(handle, token, buffer, room, 0, False)
        piece = vocabulary.piece(token) if length < 0 else ctypes.string_at(buffer, length)
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
