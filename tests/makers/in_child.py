"""Runs a few lines against a GGUF's vocabulary in a child process: llama.cpp is never loaded into the tests' own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_BEFORE = """
import json, sys
from pathlib import Path
from gaiad.models.child.llama import library
from gaiad.models.child.llama import Log, load_model
from gaiad.models.child.vocabulary import Vocabulary

vocabulary = Vocabulary(load_model(Path(sys.argv[1]), Log()))
given = json.load(sys.stdin)
"""


def in_child(model: Path, script: str, given: Any, timeout_s: float = 60.0) -> Any:
    """What `script` leaves in `result`; it finds `vocabulary`, `library` and `given`. Both go through JSON."""
    command = [sys.executable, "-c", f"{_BEFORE}\n{script}\nprint(json.dumps(result))", str(model)]
    done = subprocess.run(
        command, input=json.dumps(given), capture_output=True, text=True, timeout=timeout_s, env=os.environ, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)
