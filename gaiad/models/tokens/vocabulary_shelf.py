"""The vocabularies of the GGUF files asked for last, loaded without their weights.

A file's first contact is in a throw-away process, for a damaged one may kill whoever reads it (decision 1). What came
of it is remembered under path, size and modification time.
"""

import os
import weakref
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

from gaiad.generation import Segment
from gaiad.metrics import resident_bytes
from gaiad.models.child.bindings import library
from gaiad.models.child.llama import Log, ModelFileError
from gaiad.models.child.vocabulary import Untokenizable, Vocabulary
from gaiad.models.tokens.aside import Aside
from gaiad.models.tokens.throw_away import Died, Limits, ThrowAway
from gaiad.models.tokens.turns import Refused, Steps

SHELVED_FILES = 8
SHELVED_BYTES = 1 << 30
_REMEMBERED = 256
_PROOF = Limits(cpu_s=30, wall_s=60.0)
_WORDS = (
    "The quick brown fox jumps over the lazy dog; 0123456789 <|im_start|> <s> \t\r\n  \\ {}[]()=+-*/%&|!?@#$^~`'\"_:,. "
    "Größe, été, Ελληνικά, русский, עברית, العربية, हिन्दी, ไทย, 日本語, 中文, 한국어, 👩‍👩‍👧‍👦 🇪🇺 𝄞"
)


class FileKey(NamedTuple):
    """What a file is known by: another size or time is another file."""

    path: str
    size: int
    modified_ns: int


class Shelved:
    """A vocabulary with what else of its file is wanted here. llama.cpp's model is freed with the last reference."""

    def __init__(self, model: Any) -> None:
        self.vocabulary = Vocabulary(model)
        template = library.llama_model_chat_template(model, None)
        self.template = template.decode("utf-8", "replace") if template else ""
        self.bytes = 0
        self.prepared: Aside[None] | None = None  # for grammars, see TokenEngine
        weakref.finalize(self, library.llama_model_free, model).atexit = False


class VocabularyShelf:
    """At most SHELVED_FILES of them and SHELVED_BYTES; the least recently used goes first."""

    def __init__(self) -> None:
        self._log = Log()
        self._log.install()
        library.llama_backend_init()
        self._shelved: OrderedDict[FileKey, Shelved] = OrderedDict()
        self._proofs: dict[FileKey, ThrowAway] = {}
        self._loading: dict[FileKey, Aside[Shelved]] = {}
        self._problems: OrderedDict[FileKey, str] = OrderedDict()  # "" for a file that can be loaded

    def open(self, path: str) -> Steps[Shelved]:
        """The file's vocabulary. Raises Refused naming the file and what is wrong with it."""
        key = _key(path)
        if key not in self._problems:
            yield from self._prove(key)
        if problem := self._problems[key]:
            raise Refused(problem)
        if key not in self._shelved:
            yield from self._load(key)
        shelved = self._shelved[key]
        self._shelved.move_to_end(key)
        self._make_room()
        return shelved

    def _prove(self, key: FileKey) -> Steps[None]:
        """Load and use it where it can do no harm; several who wait for the same file share one try."""
        trial = self._proofs.get(key)
        if trial is None:
            trial = self._proofs[key] = ThrowAway(lambda: _try_out(key.path, self._log), _PROOF)
        yield trial
        self._proofs.pop(key, None)
        try:
            problem = trial.outcome().decode()
        except Died as death:
            problem = f"{key.path}: its vocabulary {death}; replace the file with a complete GGUF"
        self._problems[key] = problem
        while len(self._problems) > _REMEMBERED:
            self._problems.popitem(last=False)

    def _load(self, key: FileKey) -> Steps[None]:
        """Put it on the shelf; several who wait for the same file share one load."""
        loading = self._loading.get(key)
        if loading is None:
            loading = self._loading[key] = Aside(lambda: _measured(key.path, self._log))
        yield loading
        self._loading.pop(key, None)
        try:
            self._shelved[key] = loading.outcome()
        except ModelFileError as error:
            raise Refused(str(error)) from error

    def _make_room(self) -> None:
        while len(self._shelved) > 1 and (
            len(self._shelved) > SHELVED_FILES or sum(one.bytes for one in self._shelved.values()) > SHELVED_BYTES
        ):
            self._shelved.popitem(last=False)


def _measured(path: str, log: Log) -> Shelved:
    """Loaded, with the memory that this took."""
    before = resident_bytes(os.getpid())
    shelved = Shelved(_load_vocabulary(path, log))
    shelved.bytes = max(0, resident_bytes(os.getpid()) - before)
    return shelved


def _key(path: str) -> FileKey:
    try:
        about = Path(path).stat()
    except OSError as error:
        raise Refused(f"{path}: cannot be read ({error.strerror}); check the path and its permissions") from error
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
        shelved = Shelved(_load_vocabulary(path, log))
    except ModelFileError as error:
        return str(error).encode()
    vocabulary = shelved.vocabulary
    every_byte = "".join(map(chr, [*range(1, 0x800), *range(0x800, 0xD800, 0x400), *range(0x10000, 0x110000, 0x8000)]))
    try:
        for text in (_WORDS, every_byte, ""):
            vocabulary.encode([Segment(text, trusted=True), Segment(text), Segment(text, trusted=True)])
    except Untokenizable as error:
        return f"{path}: {error}".encode()
    if not vocabulary.size:
        return f"{path}: has no vocabulary; choose a GGUF of a language model".encode()
    return b""
