"""The chat templates in use, compiled: a file's own, a user's, or a plain one where a file has none.

A template is a program of strangers. Its first contact is in a throw-away process; from then on it runs here under a
time limit and with little memory to gain, and the supervisor's kill is the last resort.
"""

import hashlib
import resource
import signal
import sys
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from gaiad.generation import ChatMessage, Segment
from gaiad.models.tokens.chat_template import CHATML, PLAIN, ChatTemplate, TemplateProblem, TookTooLong, try_out
from gaiad.models.tokens.throw_away import Died, Limits, ThrowAway, lower_address_space
from gaiad.models.tokens.turns import Refused, Steps
from gaiad.models.tokens.vocabulary_shelf import Shelved

RENDER_S = 1.0
KEPT_TEMPLATES = 32
_MEMORY_BYTES = 256 << 20
_PROOF = Limits(cpu_s=3, wall_s=15.0, memory_bytes=_MEMORY_BYTES)


class KnownTemplate:
    """One that has been tried out; `name` says whose it is."""

    def __init__(self, name: str, template: ChatTemplate) -> None:
        self._name = name
        self._template = template
        self._mentioned: set[str] = set()

    def write(self, messages: Sequence[ChatMessage]) -> list[Segment]:
        """Raises Refused when the template cannot write these messages."""
        try:
            with _bounded():
                segments, change = self._template.render(messages)
        except TemplateProblem as problem:
            raise Refused(f"{self._name} cannot write this conversation: {problem}; mend the template") from problem
        if change and change not in self._mentioned and len(self._mentioned) < KEPT_TEMPLATES:
            self._mentioned.add(change)
            sys.stderr.write(f"{self._name}: {change}\n")
            sys.stderr.flush()
        return segments


class TemplateShelf:
    """At most KEPT_TEMPLATES; the least recently used goes first. A bad one is remembered as well."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, KnownTemplate | str] = OrderedDict()

    def open(self, path: str, given: str, shelved: Shelved) -> Steps[KnownTemplate]:
        """The template to use for the file at `path`: `given`, the file's own, or a plain one.

        Raises Refused naming the template and what is wrong with it.
        """
        vocabulary = shelved.vocabulary
        source = given or shelved.template or (CHATML if _speaks_chatml(shelved) else PLAIN)
        parts = (path, source, vocabulary.begin_text, vocabulary.end_text)
        key = hashlib.blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=16).digest()
        if key not in self._known:
            name = f"{path}: {'the chat template given for it' if given else 'its chat template'}"
            self._known[key] = yield from _first_contact(name, *parts[1:])
        self._known.move_to_end(key)
        while len(self._known) > KEPT_TEMPLATES:
            self._known.popitem(last=False)
        known = self._known[key]
        if isinstance(known, str):
            raise Refused(known)
        return known


def _first_contact(name: str, source: str, begin: str, end: str) -> Steps[KnownTemplate | str]:
    """The template ready for use, or what is wrong with it in words."""
    trial = ThrowAway(lambda: try_out(source, begin, end, time.strftime), _PROOF)
    try:
        yield trial
        problem = trial.outcome().decode()
        with _bounded():
            return f"{name}: {problem}; mend it" if problem else KnownTemplate(name, _compile(source, begin, end))
    except TemplateProblem as refusal:
        return f"{name}: {refusal}; mend it"
    except Died as death:
        return f"{name} {death}; mend it"
    finally:
        trial.kill()


def _speaks_chatml(shelved: Shelved) -> bool:
    return all(shelved.vocabulary.has_special(literal) for literal in ("<|im_start|>", "<|im_end|>"))


def _compile(source: str, begin: str, end: str) -> ChatTemplate:
    return ChatTemplate(source, begin, end, time.strftime)


@contextmanager
def _bounded() -> Iterator[None]:
    """Main thread only. Inside, what takes RENDER_S seconds raises TookTooLong, and too much memory MemoryError."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TookTooLong(f"it takes more than {RENDER_S:g} s")

    previous = signal.signal(signal.SIGALRM, stop)
    before = lower_address_space(_MEMORY_BYTES)
    signal.setitimer(signal.ITIMER_REAL, RENDER_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, previous)
        resource.setrlimit(resource.RLIMIT_AS, before)
