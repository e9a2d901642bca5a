"""Proves that llama.cpp as built here runs here: `python -m gaiad.models.prove`.

A build for another processor passes every import and dies in the first quantised matrix product. So a child process
decodes a tiny Q8_0 model in a batch wide enough for the wide kernels, then token by token. Exit 0, or 1 with one line.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from gaiad.models.supervision.process import describe_exit, worker_environment

TIMEOUT_S = 60.0
_PROMPT_TOKENS = 64
_STEPS = 4


def prove(timeout_s: float = TIMEOUT_S) -> str:
    """ "" when a Q8_0 decode in a child gives finite numbers, else one line: what happened and the remedy."""
    from gaiad.models.gguf.tiny_gguf import write_llama_gguf

    with tempfile.TemporaryDirectory(prefix="gaiad-prove-") as folder:
        model = Path(folder) / "tiny-q8_0.gguf"
        write_llama_gguf(model)
        return _decode_in_child([sys.executable, "-P", "-m", "gaiad.models.prove", "--decode", str(model)], timeout_s)


def _decode_in_child(command: list[str], timeout_s: float) -> str:
    try:
        child = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
            env=worker_environment(os.environ),
        )
    except subprocess.TimeoutExpired:
        return f"llama.cpp: a decode of milliseconds took more than {timeout_s:g} s; rebuild it with `make`"
    if child.returncode == 0:
        return ""
    words = (child.stderr.strip().splitlines() or ["no message"])[-1]
    cause = describe_exit(child.returncode).replace("the worker", "the proving child")
    return f"llama.cpp: {cause} (its last words: {words[:300]})"


def decode(path: Path) -> None:
    """In the child: decode a prompt at once, then a few tokens one at a time. Raises RuntimeError on nonsense."""
    import numpy as np

    from gaiad.models.child.llama import Batch, Log, library, load_model

    model = load_model(path, Log())
    parameters = library.llama_context_default_params()
    parameters.n_ctx = parameters.n_batch = parameters.n_ubatch = 256
    context = library.llama_init_from_model(model, parameters)
    if not context:
        raise RuntimeError("llama.cpp made no context")
    words = int(library.llama_vocab_n_tokens(library.llama_model_get_vocab(model)))
    batch = Batch(_PROMPT_TOKENS)
    batch.add([1, *(3 + index * 7 % 256 for index in range(_PROMPT_TOKENS - 1))])
    for step in range(_STEPS):
        status = int(library.llama_decode(context, batch.handle))
        if status != 0:
            raise RuntimeError(f"llama_decode answered {status}")
        logits = np.ctypeslib.as_array(library.llama_get_logits_ith(context, -1), shape=(words,))
        if not np.isfinite(logits).all() or float(logits.std()) == 0.0:
            raise RuntimeError("the logits are not plausible")
        batch.clear()
        batch.add([int(logits.argmax())])
        batch.handle.pos[0] = _PROMPT_TOKENS + step


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--decode"]:
        decode(Path(arguments[1]))
        return 0
    problem = prove()
    if problem:
        sys.stderr.write(f"{problem}\n")
    return 1 if problem else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
