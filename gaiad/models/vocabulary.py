"""A generating model's vocabulary: prompt segments to tokens, tokens to bytes (decision 8: retrieved text is data).

Segments are tokenised apart. Only a trusted one may hold control tokens; in an untrusted one every literal of a control
or user-defined token is cut after its first character, so that it is read as plain text. Child processes only.
"""

import ctypes
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from gaiad.generation import Segment
from gaiad.models.bindings import library

_PIECE_BYTES = 256


class Vocabulary:
    """`size` tokens; `handle` is llama.cpp's own."""

    def __init__(self, model: Any) -> None:
        self.handle = library.llama_model_get_vocab(model)
        self.size = int(library.llama_vocab_n_tokens(self.handle))
        self._begin = int(library.llama_vocab_bos(self.handle))
        self._adds_begin = bool(library.llama_vocab_get_add_bos(self.handle)) and 0 <= self._begin < self.size
        self._buffer = ctypes.create_string_buffer(_PIECE_BYTES)
        self._pieces: dict[int, bytes] = {}
        self._literal = self._literals()

    @property
    def probe(self) -> int:
        """A token that every model can read: the beginning of a text, or 0."""
        return self._begin if 0 <= self._begin < self.size else 0

    def encode(self, segments: Sequence[Segment]) -> list[int]:
        """The prompt's tokens, the model's own beginning included; at least one."""
        tokens: list[int] = []
        for segment in segments:
            for part, special in [(segment.text, True)] if segment.trusted else self._harmless(segment.text):
                tokens.extend(self._tokenize(part, special))
        if self._adds_begin and tokens[:1] != [self._begin]:
            tokens.insert(0, self._begin)
        return tokens or [self.probe]

    def piece(self, token: int) -> bytes:
        """The token's bytes as shown: control tokens show nothing."""
        known = self._pieces.get(token)
        if known is None:
            known = self._pieces[token] = self._read_piece(token)
        return known

    def ends(self, token: int) -> bool:
        """Whether the model ends its turn with this token."""
        return bool(library.llama_vocab_is_eog(self.handle, token))

    def _harmless(self, text: str) -> list[tuple[str, bool]]:
        if self._literal is None:
            return [(text, False)]
        cuts = [0, *(match.start() + 1 for match in self._literal.finditer(text)), len(text)]
        return [(text[start:end], False) for start, end in pairwise(cuts) if start < end]

    def _literals(self) -> re.Pattern[str] | None:
        """Finds the start of every literal of two characters or more that is not white space alone."""
        marked = library.LLAMA_TOKEN_ATTR_CONTROL | library.LLAMA_TOKEN_ATTR_USER_DEFINED
        texts = {
            library.llama_vocab_get_text(self.handle, token).decode("utf-8", "replace")
            for token in range(self.size)
            if library.llama_vocab_get_attr(self.handle, token) & marked
        }
        found = sorted((text for text in texts if len(text) > 1 and text.strip(" \t\r\n\u2581")), key=len, reverse=True)
        return re.compile("(?=" + "|".join(map(re.escape, found)) + ")") if found else None

    def _tokenize(self, text: str, special: bool) -> list[int]:
        data = text.encode("utf-8", "replace")
        room = len(data) + 16
        for _ in range(2):
            tokens = (ctypes.c_int32 * room)()
            count = library.llama_tokenize(self.handle, data, len(data), tokens, room, False, special)
            if count >= 0:
                return list(tokens[:count])
            room = -count
        raise ValueError(f"llama.cpp cannot tokenise a text of {len(data)} bytes")

    def _read_piece(self, token: int) -> bytes:
        length = library.llama_token_to_piece(self.handle, token, self._buffer, len(self._buffer), 0, False)
        if length < 0:
            self._buffer = ctypes.create_string_buffer(-length)
            length = library.llama_token_to_piece(self.handle, token, self._buffer, len(self._buffer), 0, False)
        return self._buffer.raw[: max(0, length)]
