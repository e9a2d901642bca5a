"""llama-cpp-python's own OpenAI-compatible server, a real process on loopback: to talk to, to kill, to start again."""

import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path


class LlamaServer:
    """One server process for a GGUF under the name `tiny`, always on the same port. Its output goes to `log`."""

    def __init__(self, model: Path, log: Path) -> None:
        self._model = model
        self._log = log
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server was not started"
        return self._process.pid

    def start(self, timeout_s: float = 40.0) -> None:
        """Start it and wait until it answers."""
        options = {
            "model": self._model,
            "model_alias": "tiny",
            "host": "127.0.0.1",
            "port": self._port,
            "n_ctx": 4096,
            "n_threads": 1,
            "interrupt_requests": False,
        }
        words = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "llama_cpp.server", *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        end = time.monotonic() + timeout_s
        while not self._answers():
            assert self._process.poll() is None, self._log.read_text()[-2000:]
            assert time.monotonic() < end, "the server does not answer"
            time.sleep(0.05)

    def kill(self) -> None:
        """SIGKILL, as a crash would be."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.base_url}/models", timeout=60) as response:
                return bool(response.status == 200)
        except (urllib.error.URLError, OSError):
            return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
