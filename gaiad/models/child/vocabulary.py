"""The vocabulary of a model: prompt segments to tokens, tokens to bytes (decision 8: retrieved text is data).

Segments are tokenised apart. Only a trusted one may hold control tokens; in an untrusted one every literal of a control
or user-defined token is cut after its first character, so that it is read as plain text. The generating worker and the
tokenizer child both count with this class, so that their counts cannot differ. Child processes only.
"""

import ctypes
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from gaiad.models.child.llama import library
from gaiad.wire.generation import Segment

_PIECE_BYTES = 256
_ANCHOR = "\n"


class Untokenizable(ValueError):
    """llama.cpp cannot turn the text into tokens, or not without control tokens."""


class Vocabulary:
    """`size` tokens, of which `control` never show; `handle` is llama.cpp's own."""

    def __init__(self, model: Any) -> None:
        self.handle = library.llama_model_get_vocab(model)
        self.size = int(library.llama_vocab_n_tokens(self.handle))
        self._begin = int(library.llama_vocab_bos(self.handle))
        self._adds_begin = bool(library.llama_vocab_get_add_bos(self.handle)) and 0 <= self._begin < self.size
        self._buffer = ctypes.create_string_buffer(_PIECE_BYTES)
        self._pieces: dict[int, bytes] = {}
        self._marked, self.control = self._special_tokens()
        self._literals = Literals(self.text(token) for token in self._marked)
        self._anchor = self._anchored_beginning()

    @property
    def probe(self) -> int:
        """A token that every model can read: the beginning of a text, or 0."""
        return self._begin if 0 <= self._begin < self.size else 0

    @property
    def begin_text(self) -> str:
        """How the vocabulary writes the beginning of a text, "" when it has no such control token."""
        return self._literal(self._begin)

    @property
    def end_text(self) -> str:
        """As `begin_text`, for the end of a turn."""
        return self._literal(int(library.llama_vocab_eos(self.handle)))

    def encode(self, segments: Sequence[Segment]) -> list[int]:
        """The prompt's tokens, the model's own beginning included; at least one. Raises Untokenizable."""
        tokens = self.tokens(segments)
        if self._adds_begin and tokens[:1] != [self._begin]:
            tokens.insert(0, self._begin)
        return tokens or [self.probe]

    def tokens(self, segments: Sequence[Segment]) -> list[int]:
        """The text's tokens alone, perhaps none. Raises Untokenizable."""
        tokens: list[int] = []
        for segment in segments:
            for part in [segment.text] if segment.trusted else self._literals.cut(segment.text):
                continues = bool(tokens) and tokens[-1] not in self._marked
                found = self._continue(part, segment.trusted) if continues else self._tokenize(part, segment.trusted)
                if not segment.trusted and not self.control.isdisjoint(found):
                    raise Untokenizable(
                        "this vocabulary writes ordinary text with control tokens; choose another model"
                    )
                tokens.extend(found)
        return tokens

    def has_special(self, literal: str) -> bool:
        """Whether the literal is one control or user-defined token."""
        tokens = self._tokenize(literal, True)
        return len(tokens) == 1 and tokens[0] in self._marked

    def piece(self, token: int) -> bytes:
        """The token's bytes as shown: control tokens show nothing."""
        known = self._pieces.get(token)
        if known is None:
            known = self._pieces[token] = self._read_piece(token)
        return known

    def text(self, token: int) -> str:
        """The token as the vocabulary spells it, control tokens too."""
        return str(library.llama_vocab_get_text(self.handle, token).decode("utf-8", "replace"))

    def ends(self, token: int) -> bool:
        """Whether the model ends its turn with this token."""
        return bool(library.llama_vocab_is_eog(self.handle, token))

    def _special_tokens(self) -> tuple[frozenset[int], frozenset[int]]:
        """The control and user-defined tokens, and of these the control tokens alone."""
        control, marked = library.LLAMA_TOKEN_ATTR_CONTROL, library.LLAMA_TOKEN_ATTR_USER_DEFINED
        attribute, handle = library.llama_vocab_get_attr, self.handle
        found = {token: value for token in range(self.size) if (value := attribute(handle, token)) & (control | marked)}
        return frozenset(found), frozenset(token for token, value in found.items() if value & control)

    def _literal(self, token: int) -> str:
        return self.text(token) if token in self.control else ""

    def _anchored_beginning(self) -> list[int] | None:
        """The tokens of the anchor where this vocabulary writes a space before every text, None where it does not."""
        if not self.control.isdisjoint(plain := self._tokenize("x", False)) or not plain:
            return None
        return self._tokenize(_ANCHOR, False) if self._read_piece(plain[0]).startswith(b" ") else None

    def _continue(self, text: str, special: bool) -> list[int]:
        """Tokens of a text that goes on after another one, without the space some vocabularies write before a text."""
        if self._anchor is None or not text:
            return self._tokenize(text, special)
        tokens = self._tokenize(_ANCHOR + text, special)
        length = len(self._anchor)
        return tokens[length:] if tokens[:length] == self._anchor else self._tokenize(text, special)

    def _tokenize(self, text: str, special: bool) -> list[int]:
        data = text.encode("utf-8", "replace")
        room = len(data) + 16
        for _ in range(2):
            tokens = (ctypes.c_int32 * room)()
            count = library.llama_tokenize(self.handle, data, len(data), tokens, room, False, special)
            if count >= 0:
                return tokens[:count]
            room = -count
        raise Untokenizable(f"llama.cpp cannot tokenise a text of {len(data)} bytes")

    def _read_piece(self, token: int) -> bytes:
        length = library.llama_token_to_piece(self.handle, token, self._buffer, len(self._buffer), 0, False)
        if length < 0:
            self._buffer = ctypes.create_string_buffer(-length)
            length = library.llama_token_to_piece(self.handle, token, self._buffer, len(self._buffer), 0, False)
        return self._buffer.raw[: max(0, length)]


_SPACE = "\u2581"  # how many vocabularies write a space; either may stand for the other
_WHITE = " \t\r\n" + _SPACE


class Literals:
    """Literals of two characters or more that are not white space alone; the others cannot be cut and do no harm."""

    def __init__(self, texts: Iterable[str]) -> None:
        found = {text.replace(" ", _SPACE) for text in texts if len(text) > 1 and text.strip(_WHITE)}
        seconds: defaultdict[str, set[str]] = defaultdict(set)
        lengths: defaultdict[str, defaultdict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        for text in found:
            seconds[text[0]].add(text[1])
            lengths[text[:2]][len(text)].add(text)
        self._by_start = {start: sorted(sets.items()) for start, sets in lengths.items()}
        places = [
            f"{re.escape(first)}(?=[{''.join(map(re.escape, sorted(second)))}])" for first, second in seconds.items()
        ]
        self._place = re.compile("|".join(sorted(places))) if places else None

    def starts(self, text: str) -> Iterator[int]:
        """Where a literal begins, in order."""
        if self._place is None:
            return
        spaced = text.replace(" ", _SPACE)
        for match in self._place.finditer(spaced):
            start = match.start()
            if any(
                spaced[start : start + length] in texts for length, texts in self._by_start[spaced[start : start + 2]]
            ):
                yield start

    def cut(self, text: str) -> list[str]:
        """The text in parts, none of which holds a literal: each is cut after its first character."""
        cuts = [0, *(start + 1 for start in self.starts(text)), len(text)]
        return [text[start:end] for start, end in pairwise(cuts) if start < end]
