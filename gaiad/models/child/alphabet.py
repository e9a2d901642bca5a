"""The tokens of a vocabulary by how they begin: a grammar is asked about beginnings and not about every token.

Child processes only.
"""

import ctypes
from collections import OrderedDict
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from gaiad.models.child.bindings import library
from gaiad.models.child.vocabulary import Vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ids = NDArray[np.int32]
    Flags = NDArray[np.bool_]

FAR = 12  # how many bytes of a token are known here
NOTHING = -1  # stands for the first byte of a token that shows nothing
END = 256  # stands for the byte after a token's last
NONE = np.empty(0, dtype=np.int32)
_KEPT_LISTS = 16


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
        texts = np.array(pieces, dtype=f"S{FAR}").view(np.uint8).reshape(len(pieces), FAR)
        self._bytes = np.where(np.arange(FAR) < lengths[:, None], texts.astype(np.int16), np.int16(END))
        self.first = np.where(lengths > 0, self._bytes[:, 0], np.int16(NOTHING))
        self._branches: dict[bytes, dict[int, Ids]] = {b"": self._split(np.flatnonzero(lengths).astype(np.int32), 0)}
        self.single = {byte: token for byte in self._branches[b""] if (token := self._alone(byte)) is not None}
        others = [ids for byte, ids in self._branches[b""].items() if byte not in self.single]
        self.probe: Ids = np.concatenate([np.array(list(self.single.values()), dtype=np.int32), *others])
        self._tokens: dict[bytes, int] = {}
        self._lists: OrderedDict[bytes, Ids] = OrderedDict()

    def read(self) -> dict[bytes, int]:
        """A token for each text that one token shows; walks need it, masks do not. Kept."""
        if not self._tokens:
            shown = np.flatnonzero(self.first != NOTHING).tolist()
            self._tokens = {self.vocabulary.piece(token): token for token in shown}
        return self._tokens

    def beginning_with(self, allowed: "Flags") -> "Ids":
        """Tokens whose first byte is allowed; the last few answers are kept."""
        key = allowed.tobytes()
        found = self._lists.pop(key, None)
        if found is None:
            found = np.concatenate([NONE, *(ids for byte, ids in self.branch(b"").items() if allowed[byte])])
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
        short = self.branch(bytes([byte])).get(END)
        return None if short is None else int(short[0])


@lru_cache(maxsize=4)
def alphabet_of(vocabulary: Vocabulary) -> Alphabet:
    """The alphabet of a vocabulary, read once."""
    return Alphabet(vocabulary)


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
    tail = unfinished(piece[inside:])
    try:
        piece[inside : len(piece) - len(tail)].decode()
    except UnicodeDecodeError:
        return False
    return inside < 4


def unfinished(data: bytes) -> bytes:
    """The beginning of a character that `data` ends with, or nothing."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[-back:] if needed > back else b""
        if byte < 0x80:
            break
    return b""
