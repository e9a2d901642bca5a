"""What earlier runs finished, in .setup/state.json: a hash for every step, of all that the step depends on."""

import hashlib
import json
from typing import Any

from gaiad.bootstrap.places import STATE, WORK


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
