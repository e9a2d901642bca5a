"""llama.cpp behind a few typed calls: load, tokenise, encode, abort. The one place that touches its C API for engines.

Imported in child processes only: a bad file can abort the process, and the library costs tens of megabytes. Only the C
functions are imported, for the llama_cpp package's high-level half (chat formats, templates, a disk cache) is two
thirds of a worker's start and 20 MB that no worker uses. Every call keeps the limits whose violation would abort (batch
above n_batch, position above the window).
"""

import ctypes
import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any


def _import_bindings() -> Any:
    spec = importlib.util.find_spec("llama_cpp")
    if spec is None or spec.submodule_search_locations is None:
        raise ImportError("llama_cpp is not installed; run `make`")
    if "llama_cpp" not in sys.modules:
        package = ModuleType("llama_cpp")
        package.__path__ = list(spec.submodule_search_locations)
        package.__spec__ = spec
        sys.modules["llama_cpp"] = package
    return importlib.import_module("llama_cpp.llama_cpp")


library = _import_bindings()


_WARNING = 3
_CONTINUED = 5
ABORTED = 2
_EXPECTED = (  # an abort is our own doing, and a context may be larger than trained when several requests share it
    f"ret = {ABORTED}",
    "ggml_backend_sched_graph_compute_async failed with error 1",
    "failed to compute graph, compute status: 1",
    "removing memory module entries for seq_id",
    "possible training context overflow",
)


class ModelFileError(Exception):
    """The file cannot be used as a model; the message names it and what is wrong."""


class Log:
    """llama.cpp's warnings and errors to standard error; `recent` keeps the last lines for error messages."""

    _installed: "Log | None" = None  # the library calls it for as long as the process lives

    def __init__(self) -> None:
        self.recent: list[str] = []
        self._level = 0
        self._callback = library.llama_log_callback(self._write)

    def install(self) -> None:
        Log._installed = self
        library.llama_log_set(self._callback, ctypes.c_void_p(0))

    def _write(self, level: int, text: bytes, _user_data: object) -> None:
        self._level = self._level if level == _CONTINUED else level
        line = text.decode("utf-8", "replace").rstrip()
        if self._level < _WARNING or self._level == _CONTINUED or not line or any(part in line for part in _EXPECTED):
            return  # everything below a warning is load-time chatter
        self.recent = [*self.recent[-19:], line]
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


class AbortFlag:
    """Stops a running encode or decode within one graph node (about 3 ms); safe from any thread.

    The callback is libc's `strlen` on a two-byte buffer: non-zero as soon as the first byte is set. It needs no
    interpreter lock, so a busy reader thread cannot slow the computation down.
    """

    def __init__(self) -> None:
        self._buffer = ctypes.create_string_buffer(2)
        self.callback = ctypes.cast(ctypes.CDLL(None).strlen, library.ggml_abort_callback)
        self.data = ctypes.cast(self._buffer, ctypes.c_void_p)

    def set(self) -> None:
        self._buffer[0] = b"\x01"

    def clear(self) -> None:
        self._buffer[0] = b"\x00"


def load_model(path: Path, log: Log) -> Any:
    """A llama_model pointer. Raises ModelFileError naming the file and llama.cpp's own reason."""
    log.install()
    library.llama_backend_init()
    parameters = library.llama_model_default_params()
    parameters.n_gpu_layers = 0
    model = library.llama_model_load_from_file(str(path).encode(), parameters)
    if not model:
        reasons = [line for line in log.recent if "error" in line.lower()] or log.recent or ["no reason given"]
        reason = reasons[0].rpartition("error loading model: ")[2]
        raise ModelFileError(f"{path}: llama.cpp cannot load it ({reason}); replace the file with a complete GGUF")
    return model


def open_embedding_context(
    model: Any, *, tokens: int, sequences: int, threads: int, pooling: int, abort: AbortFlag
) -> Any:
    """A llama_context that embeds up to `tokens` tokens of `sequences` texts at once, flash attention on.

    Raises ModelFileError when llama.cpp refuses (say, too little memory).
    """
    parameters = library.llama_context_default_params()
    parameters.n_ctx = parameters.n_batch = parameters.n_ubatch = tokens
    parameters.n_seq_max = sequences
    parameters.n_threads = parameters.n_threads_batch = threads
    parameters.embeddings = True
    parameters.kv_unified = True
    parameters.no_perf = True
    parameters.pooling_type = pooling
    parameters.flash_attn_type = library.LLAMA_FLASH_ATTN_TYPE_ENABLED
    parameters.abort_callback = abort.callback
    parameters.abort_callback_data = abort.data
    context = library.llama_init_from_model(model, parameters)
    if not context:
        raise ModelFileError(f"llama.cpp cannot make a context of {tokens} tokens for this model; free some memory")
    return context


def open_generation_context(
    model: Any, *, cells: int, batch: int, sequences: int, threads: int, flash: bool, abort: AbortFlag
) -> Any:
    """A llama_context whose `cells` all `sequences` share. Raises ModelFileError when llama.cpp refuses.

    Unified, because a partial copy between sequences aborts the process otherwise.
    """
    parameters = library.llama_context_default_params()
    parameters.n_ctx = cells
    parameters.n_batch = parameters.n_ubatch = batch
    parameters.n_seq_max = sequences
    parameters.n_threads = parameters.n_threads_batch = threads
    parameters.kv_unified = True
    parameters.swa_full = True  # a pruned window could not be shared
    parameters.no_perf = True
    flash_types = (library.LLAMA_FLASH_ATTN_TYPE_DISABLED, library.LLAMA_FLASH_ATTN_TYPE_ENABLED)
    parameters.flash_attn_type = flash_types[flash]
    parameters.abort_callback = abort.callback
    parameters.abort_callback_data = abort.data
    context = library.llama_init_from_model(model, parameters)
    if not context:
        raise ModelFileError(f"llama.cpp cannot make a context of {cells} tokens for this model; lower its context")
    return context


class ContextMemory:
    """The cells of a context, by sequence. `partial` is found out at load."""

    def __init__(self, context: Any) -> None:
        self._memory = library.llama_get_memory(context)
        self.partial = True

    def copy(self, source: int, target: int, length: int) -> None:
        """`target` shares the first `length` positions of `source`; all of them when the model knows no parts."""
        end = length if self.partial else -1
        library.llama_memory_seq_cp(self._memory, source, target, 0 if self.partial else -1, end)

    def truncate(self, sequence: int, length: int) -> bool:
        """Drop what stands from position `length` on; False when the model refuses."""
        return bool(library.llama_memory_seq_rm(self._memory, sequence, length or -1, -1))

    def length(self, sequence: int) -> int:
        """How many positions the sequence really has."""
        return int(library.llama_memory_seq_pos_max(self._memory, sequence)) + 1


class LlamaTokenizer:
    """The model's own vocabulary. Control tokens in text are never parsed as such."""

    def __init__(self, model: Any) -> None:
        self._vocabulary = library.llama_model_get_vocab(model)
        self.size = int(library.llama_vocab_n_tokens(self._vocabulary))
        self.prefix, self.suffix = self._edges()

    def encode(self, text: str) -> list[int]:
        """Token ids of the text alone, without the ids the model wants around it (`prefix`, `suffix`)."""
        data = text.encode("utf-8", "replace")
        room = len(data) + 16
        tokens = (ctypes.c_int32 * room)()
        count = library.llama_tokenize(self._vocabulary, data, len(data), tokens, room, False, False)
        if count < 0:
            tokens = (ctypes.c_int32 * -count)()
            count = library.llama_tokenize(self._vocabulary, data, len(data), tokens, -count, False, False)
        return list(tokens[:count])

    def _edges(self) -> tuple[list[int], list[int]]:
        vocabulary = self._vocabulary
        before, after = [], []
        if library.llama_vocab_get_add_bos(vocabulary):
            before.append(int(library.llama_vocab_bos(vocabulary)))
        if library.llama_vocab_get_add_eos(vocabulary):
            after.append(int(library.llama_vocab_eos(vocabulary)))
        if library.llama_vocab_get_add_sep(vocabulary):
            after.append(int(library.llama_vocab_sep(vocabulary)))
        for token in before + after:
            if not 0 <= token < self.size:
                raise ModelFileError(f"its vocabulary of {self.size} tokens wants token {token} around every text")
        return before, after


class Batch:
    """A llama_batch with room for `capacity` tokens, filled sequence by sequence or with pieces of running ones."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.handle = library.llama_batch_init(capacity, 0, 1)
        self.sequences = 0

    def clear(self) -> None:
        self.handle.n_tokens = 0
        self.sequences = 0

    def add(self, tokens: Sequence[int]) -> None:
        """Append one sequence, positions from 0. Raises ValueError above the capacity: llama.cpp would abort."""
        start, handle = self.handle.n_tokens, self.handle
        if start + len(tokens) > self.capacity:
            raise ValueError(f"a batch of {self.capacity} tokens cannot take {len(tokens)} more after {start}")
        for position, token in enumerate(tokens):
            index = start + position
            handle.token[index] = token
            handle.pos[index] = position
            handle.n_seq_id[index] = 1
            handle.seq_id[index][0] = self.sequences
            handle.logits[index] = 1
        handle.n_tokens = start + len(tokens)
        self.sequences += 1

    def append(self, tokens: Sequence[int], position: int, sequence: int, *, logits: bool) -> int:
        """Append the next tokens of a running sequence; `logits` asks for those of the last. Returns its index.

        Raises ValueError above the capacity.
        """
        start, handle = self.handle.n_tokens, self.handle
        if start + len(tokens) > self.capacity:
            raise ValueError(f"a batch of {self.capacity} tokens cannot take {len(tokens)} more after {start}")
        for offset, token in enumerate(tokens):
            index = start + offset
            handle.token[index] = token
            handle.pos[index] = position + offset
            handle.n_seq_id[index] = 1
            handle.seq_id[index][0] = sequence
            handle.logits[index] = 0
        handle.n_tokens = start + len(tokens)
        last = int(handle.n_tokens) - 1
        handle.logits[last] = logits
        return last
