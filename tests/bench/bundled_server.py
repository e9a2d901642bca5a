"""llama-cpp-python's own server (`python -m llama_cpp.server`) as a child process, asked over HTTP as its users do.

With settings that favour it: no logits that nobody asked for, no stream broken off for another. It is a development
dependency.
"""

import http.client
import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import create_server
from typing import Any

import msgspec

from gaiad.base.errors import BadInput, Unavailable
from gaiad.models.supervision.process import worker_environment
from gaiad.wire.generation import GenerateRequest

_HOST = "127.0.0.1"
_READY_S = 120.0
_ANSWER_S = 300.0
_CONTEXT = 8192


class BundledServer:
    """Where it listens; `complete` may be called from several threads."""

    def __init__(self, port: int) -> None:
        self._port = port

    def complete(self, request: GenerateRequest) -> int:
        """Send the prompt, wait for the whole reply; how many tokens it has."""
        sampling = request.sampling
        answer = self._exchange(
            "/v1/completions",
            {
                "prompt": "".join(segment.text for segment in request.segments),
                "max_tokens": request.max_tokens,
                "seed": request.seed,
                "temperature": sampling.temperature,
                "top_k": sampling.top_k,
                "top_p": sampling.top_p,
                "min_p": sampling.min_p,
                "repeat_penalty": sampling.repeat_penalty,
            },
        )
        return int(answer["usage"]["completion_tokens"])

    def answers(self) -> bool:
        """Whether it is up."""
        try:
            self._exchange("/v1/models", None)
        except (OSError, http.client.HTTPException):
            return False
        return True

    def _exchange(self, path: str, body: object) -> Any:
        connection = http.client.HTTPConnection(_HOST, self._port, timeout=_ANSWER_S)
        try:
            content = None if body is None else msgspec.json.encode(body)
            connection.request(
                "GET" if content is None else "POST", path, content, {"Content-Type": "application/json"}
            )
            response = connection.getresponse()
            data = response.read()
        finally:
            connection.close()
        if response.status != 200:
            raise Unavailable(f"llama_cpp.server answered {response.status} to {path}: {data[:300]!r}")
        return msgspec.json.decode(data)


@contextmanager
def bundled_server(model: Path, *, threads: int, flash: bool) -> Iterator[BundledServer]:
    """Running on a free port with the model loaded, for the length of the block. Raises BadInput, Unavailable."""
    if importlib.util.find_spec("uvicorn") is None:
        raise BadInput("llama_cpp.server needs uvicorn and others of the development dependencies; run `make` for them")
    with create_server((_HOST, 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "llama_cpp.server", "--model", str(model), "--host", _HOST, "--port", str(port)]
    command += ["--n_ctx", str(_CONTEXT), "--n_threads", str(threads), "--n_threads_batch", str(threads)]
    command += ["--logits_all", "False", "--interrupt_requests", "False", "--flash_attn", str(flash)]
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=worker_environment(os.environ),
    )
    try:
        server = BundledServer(port)
        _await(server, child)
        yield server
    finally:
        child.kill()
        child.wait()


def _await(server: BundledServer, child: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + _READY_S
    while not server.answers():
        if child.poll() is not None or time.monotonic() > end:
            raise Unavailable(f"llama_cpp.server did not come up (status {child.poll()}); run `make` again")
        time.sleep(0.1)
