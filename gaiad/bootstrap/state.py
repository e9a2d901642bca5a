"""Where the set-up finds and puts things, what earlier runs finished, and how far this one is.

.setup/state.json holds a hash for every step, of all that the step depends on; .setup/progress.json what is being done:
a daemon that serves meanwhile shows it in its status.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
UV = VENV / "bin" / "uv"
WORK = ROOT / ".setup"
DEFAULTS = WORK / "config.toml"  # settings of a daemon that `make run` starts, weaker than the user's own
STATE = WORK / "state.json"
LOCK_FILE = ROOT / "requirements.lock"


def digest(*parts: object) -> str:
    """A short stable hash of all parts."""
    return hashlib.sha256(json.dumps([str(part) for part in parts]).encode()).hexdigest()[:16]


def read_state() -> dict[str, Any]:
    """What earlier runs finished; nothing when the file is absent or was cut short."""
    try:
        state = json.loads(STATE.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def remember(state: dict[str, Any], **values: object) -> None:
    """Add to the state and replace the file in one move, so that a kill leaves the old or the new one."""
    state.update(values)
    WORK.mkdir(exist_ok=True)
    fresh = STATE.with_suffix(".new")
    fresh.write_text(json.dumps(state, indent=1), encoding="utf-8")
    fresh.replace(STATE)


PROGRESS = WORK / "progress.json"
_shown: dict[str, Any] = {}


def show_progress(doing: str, percent: int | None = None) -> None:
    """What is being done, and how much of it is done when that is known."""
    _write({**_shown, "doing": doing, "percent": percent, "finished": False})


def begin_progress(*, built: bool) -> None:
    """A set-up begins; `built` says whether llama.cpp is there already."""
    _write({"doing": "starting", "percent": None, "trouble": "", "built": built, "finished": False})


def note_trouble(trouble: str) -> None:
    """What failed and the remedy, in one line; it stays until a later set-up."""
    _write({**_shown, "trouble": "; ".join(part for part in (_shown.get("trouble"), trouble) if part)})


def finish_progress() -> None:
    """Nothing is left to do. Without this call a set-up that ended counts as failed."""
    _write({**_shown, "doing": "", "percent": None, "finished": True})


def _write(values: dict[str, Any]) -> None:
    if values == _shown:
        return
    _shown.clear()
    _shown.update(values)
    WORK.mkdir(exist_ok=True)
    fresh = PROGRESS.with_suffix(".new")
    fresh.write_text(json.dumps({**values, "pid": os.getpid()}), encoding="utf-8")
    fresh.replace(PROGRESS)
