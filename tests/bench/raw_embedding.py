"""The bare llama.cpp loop for embedding: `python -m tests.bench.raw_embedding MODEL THREADS BATCH`

Texts come as a JSON array on standard input, are tokenised and packed into batches as the engine does it, and computed
without a socket, a queue, an abort callback or Python between the batches' parts. Prints {"tokens", "seconds"}.
"""

import json
import sys
import time
from pathlib import Path

from gaiad.models.child.llama import AbortFlag, Batch, LlamaTokenizer, Log, library, load_model, open_embedding_context

_SEQUENCES = 64


def measure(model_path: Path, threads: int, batch_tokens: int, texts: list[str]) -> dict[str, float]:
    """Seconds for tokenising and embedding `texts` once, after one warm-up batch."""
    model = load_model(model_path, Log())
    tokenizer = LlamaTokenizer(model)
    window = int(library.llama_model_n_ctx_train(model))
    capacity = max(window, batch_tokens)
    pooling = int(library.LLAMA_POOLING_TYPE_MEAN)
    context = open_embedding_context(
        model, tokens=capacity, sequences=_SEQUENCES, threads=threads, pooling=pooling, abort=AbortFlag()
    )
    library.llama_set_abort_callback(context, library.ggml_abort_callback(0), None)
    batch = Batch(capacity)
    _embed(context, batch, tokenizer, texts[:4], batch_tokens, window)
    started = time.perf_counter()
    tokens = _embed(context, batch, tokenizer, texts, batch_tokens, window)
    return {"tokens": tokens, "seconds": time.perf_counter() - started}


def _embed(
    context: object, batch: Batch, tokenizer: LlamaTokenizer, texts: list[str], batch_tokens: int, window: int
) -> int:
    room = window - len(tokenizer.prefix) - len(tokenizer.suffix)
    rows = [[*tokenizer.prefix, *tokenizer.encode(text)[:room], *tokenizer.suffix] for text in texts]
    rows.sort(key=len)
    batch.clear()
    for row in rows:
        full = batch.handle.n_tokens + len(row) > batch_tokens or batch.sequences == _SEQUENCES
        if batch.sequences and full:
            _run(context, batch)
        batch.add(row)
    _run(context, batch)
    return sum(len(row) for row in rows)


def _run(context: object, batch: Batch) -> None:
    status = int(library.llama_encode(context, batch.handle))
    if status != 0:
        raise RuntimeError(f"llama_encode answered {status}")
    for sequence in range(batch.sequences):
        library.llama_get_embeddings_seq(context, sequence)
    batch.clear()


def main(arguments: list[str]) -> int:
    model, threads, batch_tokens = Path(arguments[0]), int(arguments[1]), int(arguments[2])
    result = measure(model, threads, batch_tokens, json.load(sys.stdin))
    sys.stdout.write(json.dumps(result) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
