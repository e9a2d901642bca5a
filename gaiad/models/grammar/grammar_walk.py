"""Walks a grammar to its end under a vocabulary, to find out before a reply is begun that it cannot be finished.

A literal that no token can write kills llama.cpp while it samples. Parser and walk may crash, recurse or hang: this
runs in a throw-away process only, which somebody else forks and limits (decision 3).
"""

import os
import tempfile
import time

from gaiad.models.child.alphabet import Alphabet, alphabet_of
from gaiad.models.child.bindings import library
from gaiad.models.child.masking import Gate, GrammarFault
from gaiad.models.child.vocabulary import Vocabulary
from gaiad.models.grammar.gbnf_check import check_gbnf
from gaiad.models.grammar.gbnf_sentences import Sentences
from gaiad.models.grammar.gbnf_writer import BadGrammar

MOST_WALKS = 200
LONGEST_S = 2.0  # of processor time
_STANDARD_ERROR = 2
_SHOWN = 60
_LONGEST_PIECE = 64


def prepare(vocabulary: Vocabulary) -> None:
    """Read the vocabulary's tokens now: before the fork, so that no throw-away process has to."""
    alphabet_of(vocabulary).read()


def problem(vocabulary: Vocabulary, gbnf: str) -> str:
    """Why no reply can be held to this grammar, in words; "" when walks through all of it came to their end."""
    try:
        grammar = check_gbnf(gbnf)
    except BadGrammar as error:
        return error.reason
    alphabet = alphabet_of(vocabulary)
    if not len(alphabet.ends):
        return "the model's vocabulary has no token that ends a reply; choose another model"
    walk = _Walk(alphabet, gbnf)
    reason = walk.refusal()
    sentences = Sentences(grammar, walk.spellable)
    end = time.process_time() + LONGEST_S
    for number in range(MOST_WALKS):
        if reason or (number > 4 and not sentences.new) or (number and time.process_time() > end):
            break
        reason = walk.through(sentences.draw())
    return reason


class _Walk:
    def __init__(self, alphabet: Alphabet, gbnf: str) -> None:
        self._alphabet = alphabet
        self._gbnf = gbnf
        self._tokens = alphabet.read()

    def spellable(self, character: str) -> bool:
        data = character.encode("utf-8", "replace")
        return data in self._tokens or all(bytes([byte]) in self._tokens for byte in data)

    def refusal(self) -> str:
        """Why llama.cpp does not parse it, in its own words; "" when it does."""
        with tempfile.TemporaryFile() as said:
            before = os.dup(_STANDARD_ERROR)
            os.dup2(said.fileno(), _STANDARD_ERROR)  # its parser writes there and nowhere else
            try:
                grammar = library.llama_sampler_init_grammar(
                    self._alphabet.vocabulary.handle, self._gbnf.encode(), b"root"
                )
            finally:
                os.dup2(before, _STANDARD_ERROR)
                os.close(before)
            if grammar:
                library.llama_sampler_free(grammar)
                return ""
            said.seek(0)
            words = said.read(4096).decode("utf-8", "replace").strip().partition("\n")[0]
        reason = words.rpartition("error parsing grammar: ")[2][:200]
        return f"llama.cpp does not parse the grammar: {reason or 'it gives no reason'}"

    def through(self, text: str) -> str:
        """Write `text` token by token; why nothing could follow at some place, or ""."""
        try:
            gate = Gate(self._alphabet, self._gbnf)
        except GrammarFault as fault:
            return str(fault)
        try:
            return self._write(gate, text.encode("utf-8", "replace"))
        except GrammarFault as fault:
            return str(fault)
        finally:
            gate.close()

    def _write(self, gate: Gate, data: bytes) -> str:
        at = 0
        for token in self._spelling(data):
            if not gate.allows(token):
                break
            gate.accept(token)
            at += len(self._alphabet.vocabulary.piece(token))
        if at == len(data) and gate.may_end:
            return ""
        if gate.stuck or (not len(gate.allowed(gate.possible())) and not gate.may_end):
            written = data[:at].decode("utf-8", "replace")[-_SHOWN:]
            missing = data[at:].decode("utf-8", "replace")[:1]
            wanted = f"the {missing!r} that must follow" if missing else "what must follow"
            return f"the model's vocabulary cannot write {wanted} {written!r}; use other words there"
        return ""  # this way is closed, another one is open at the same place

    def _spelling(self, data: bytes) -> list[int]:
        """Tokens that make `data`, or the longest beginning of it that tokens can make; long tokens first."""
        whole = bytearray(len(data) + 1)  # from where the end can be reached
        whole[-1] = 1
        for at in range(len(data) - 1, -1, -1):
            whole[at] = any(whole[end] for end, _ in self._steps(data, at))
        if whole[0]:
            return self._path(data, whole)
        came: dict[int, tuple[int, int]] = {0: (0, -1)}
        for at in range(len(data)):
            if at in came:
                for end, token in self._steps(data, at):
                    came.setdefault(end, (at, token))
        tokens, at = [], max(came)
        while at:
            at, token = came[at]
            tokens.append(token)
        return tokens[::-1]

    def _path(self, data: bytes, whole: bytearray) -> list[int]:
        tokens, at = [], 0
        while at < len(data):
            at, token = next((end, token) for end, token in self._steps(data, at) if whole[end])
            tokens.append(token)
        return tokens

    def _steps(self, data: bytes, at: int) -> list[tuple[int, int]]:
        ends = range(min(len(data), at + _LONGEST_PIECE), at, -1)
        return [(end, self._tokens[data[at:end]]) for end in ends if data[at:end] in self._tokens]
