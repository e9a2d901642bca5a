"""The vocabularies of the GGUF files asked for last, without their weights, and the chat templates in use, compiled.

A file or a template may kill whoever reads it first (decision 1), so its first contact is in a disposable process. What
came of a file is remembered under path, size and modification time. A template is a program of strangers: after its
first contact it runs here under a time limit and with little memory to gain, and the supervisor's kill is the last
resort.
"""

import asyncio
import hashlib
import os
import resource
import signal
import sys
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from gaiad.base.metrics import resident_bytes
from gaiad.base.tasks import TaskGroup
from gaiad.models.child.llama import Log, ModelFileError, library
from gaiad.models.child.vocabulary import Untokenizable, Vocabulary
from gaiad.models.tokens.chat_template import CHATML, PLAIN, ChatTemplate, TemplateProblem, TookTooLong, try_out
from gaiad.models.tokens.disposable_process import Died, ProcessLimits, Sandbox, lower_address_space
from gaiad.wire.generation import ChatMessage, Segment

CACHED_FILES = 8
CACHED_BYTES = 1 << 30
_REMEMBERED = 256
_FILE_PROOF = ProcessLimits(cpu_s=30, wall_s=60.0)
_WORDS = (
    "The quick brown fox jumps over the lazy dog; 0123456789 <|im_start|> <s> \t\r\n  \\ {}[]()=+-*/%&|!?@#$^~`'\"_:,. "
    "Größe, été, Ελληνικά, русский, עברית, العربية, हिन्दी, ไทย, 日本語, 中文, 한국어, 👩‍👩‍👧‍👦 🇪🇺 𝄞"
)


class RequestRefused(Exception):
    """The request cannot be served; the message names the value and the remedy."""


class FileKey(NamedTuple):
    """What a file is known by: another size or time is another file."""

    path: str
    size: int
    modified_ns: int


class CachedVocabulary:
    """A vocabulary with what else of its file is wanted here. llama.cpp's model is freed with the last reference."""

    def __init__(self, model: Any) -> None:
        self.vocabulary = Vocabulary(model)
        template = library.llama_model_chat_template(model, None)
        self.template = template.decode("utf-8", "replace") if template else ""
        self.bytes = 0
        weakref.finalize(self, library.llama_model_free, model).atexit = False


class VocabularyCache:
    """At most CACHED_FILES of them and CACHED_BYTES; the least recently used goes first."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._log = Log()
        self._log.install()
        library.llama_backend_init()
        self._cached: OrderedDict[FileKey, CachedVocabulary] = OrderedDict()
        self._problems: OrderedDict[FileKey, str] = OrderedDict()  # "" for a file that can be loaded
        self._tasks = TaskGroup("vocabularies")
        self._running: dict[tuple[str, FileKey], asyncio.Task[str]] = {}

    async def open(self, path: str) -> CachedVocabulary:
        """The file's vocabulary. Raises Refused naming the file and what is wrong with it."""
        key = _key(path)
        problem = self._problems[key] if key in self._problems else await self._shared("prove", key, self._prove)
        while not problem and key not in self._cached:
            problem = await self._shared("load", key, self._load)
        if problem:
            raise RequestRefused(problem)
        cached = self._cached[key]
        self._cached.move_to_end(key)
        self._make_room()
        return cached

    async def _shared(self, what: str, key: FileKey, work: Callable[[FileKey], Coroutine[Any, Any, str]]) -> str:
        """Several who wait for the same file share one try; one who leaves does not end it."""
        task = self._running.get((what, key))
        if task is None:
            task = self._running[(what, key)] = self._tasks.start(f"{what}/{key.path}", work(key))
            task.add_done_callback(lambda _: self._running.pop((what, key)))
        return await asyncio.shield(task)

    async def _prove(self, key: FileKey) -> str:
        """Load and use it where it can do no harm; what is wrong with it, "" when it can be loaded."""
        try:
            problem = (await self._sandbox.in_process(lambda: _try_out(key.path, self._log), _FILE_PROOF)).decode()
        except Died as death:
            problem = f"{key.path}: its vocabulary {death}; replace the file with a complete GGUF"
        self._problems[key] = problem
        while len(self._problems) > _REMEMBERED:
            self._problems.popitem(last=False)
        return problem

    async def _load(self, key: FileKey) -> str:
        try:
            self._cached[key] = await self._sandbox.in_thread(lambda: _measured(key.path, self._log))
        except ModelFileError as error:
            return str(error)
        return ""

    def _make_room(self) -> None:
        while len(self._cached) > 1 and (
            len(self._cached) > CACHED_FILES or sum(one.bytes for one in self._cached.values()) > CACHED_BYTES
        ):
            self._cached.popitem(last=False)


def _measured(path: str, log: Log) -> CachedVocabulary:
    """Loaded, with the memory that this took."""
    before = resident_bytes(os.getpid())
    cached = CachedVocabulary(_load_vocabulary(path, log))
    cached.bytes = max(0, resident_bytes(os.getpid()) - before)
    return cached


def _key(path: str) -> FileKey:
    try:
        about = Path(path).stat()
    except OSError as error:
        raise RequestRefused(
            f"{path}: cannot be read ({error.strerror}); check the path and its permissions"
        ) from error
    return FileKey(path, about.st_size, about.st_mtime_ns)


def _load_vocabulary(path: str, log: Log) -> Any:
    """A llama_model pointer without weights. Raises ModelFileError."""
    log.recent = []
    parameters = library.llama_model_default_params()
    parameters.vocab_only = True
    parameters.n_gpu_layers = 0
    model = library.llama_model_load_from_file(path.encode(), parameters)
    if not model:
        reasons = [line for line in log.recent if "error" in line.lower()] or log.recent or ["no reason given"]
        reason = reasons[0].rpartition("error loading model: ")[2]
        raise ModelFileError(
            f"{path}: llama.cpp cannot load its vocabulary ({reason}); replace it with a complete GGUF"
        )
    return model


def _try_out(path: str, log: Log) -> bytes:
    """What is wrong with the file in words, nothing when it can be used. Runs in a throw-away process."""
    try:
        cached = CachedVocabulary(_load_vocabulary(path, log))
    except ModelFileError as error:
        return str(error).encode()
    vocabulary = cached.vocabulary
    every_byte = "".join(map(chr, [*range(1, 0x800), *range(0x800, 0xD800, 0x400), *range(0x10000, 0x110000, 0x8000)]))
    try:
        for text in (_WORDS, every_byte, ""):
            vocabulary.encode([Segment(text, trusted=True), Segment(text), Segment(text, trusted=True)])
    except Untokenizable as error:
        return f"{path}: {error}".encode()
    if not vocabulary.size:
        return f"{path}: has no vocabulary; choose a GGUF of a language model".encode()
    return b""


RENDER_S = 1.0
KEPT_TEMPLATES = 32
_MEMORY_BYTES = 256 << 20
_TEMPLATE_PROOF = ProcessLimits(cpu_s=3, wall_s=15.0, memory_bytes=_MEMORY_BYTES)


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
            raise RequestRefused(
                f"{self._name} cannot write this conversation: {problem}; correct the template"
            ) from problem
        if change and change not in self._mentioned and len(self._mentioned) < KEPT_TEMPLATES:
            self._mentioned.add(change)
            sys.stderr.write(f"{self._name}: {change}\n")
            sys.stderr.flush()
        return segments


class TemplateCache:
    """At most KEPT_TEMPLATES; the least recently used goes first. A bad one is remembered as well."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._known: OrderedDict[bytes, KnownTemplate | str] = OrderedDict()

    async def open(self, path: str, given: str, cached: CachedVocabulary) -> KnownTemplate:
        """The template to use for the file at `path`: `given`, the file's own, or a plain one.

        Raises Refused naming the template and what is wrong with it.
        """
        vocabulary = cached.vocabulary
        source = given or cached.template or (CHATML if _speaks_chatml(cached) else PLAIN)
        parts = (path, source, vocabulary.begin_text, vocabulary.end_text)
        key = hashlib.blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=16).digest()
        if key not in self._known:
            name = f"{path}: {'the chat template given for it' if given else 'its chat template'}"
            self._known[key] = await self._first_contact(name, *parts[1:])
        self._known.move_to_end(key)
        while len(self._known) > KEPT_TEMPLATES:
            self._known.popitem(last=False)
        known = self._known[key]
        if isinstance(known, str):
            raise RequestRefused(known)
        return known

    async def _first_contact(self, name: str, source: str, begin: str, end: str) -> KnownTemplate | str:
        """The template ready for use, or what is wrong with it in words."""
        try:
            proof = self._sandbox.in_process(lambda: try_out(source, begin, end, time.strftime), _TEMPLATE_PROOF)
            problem = (await proof).decode()
            with _bounded():
                return (
                    f"{name}: {problem}; correct it" if problem else KnownTemplate(name, _compile(source, begin, end))
                )
        except TemplateProblem as refusal:
            return f"{name}: {refusal}; correct it"
        except Died as death:
            return f"{name} {death}; correct it"


def _speaks_chatml(cached: CachedVocabulary) -> bool:
    return all(cached.vocabulary.has_special(literal) for literal in ("<|im_start|>", "<|im_end|>"))


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
