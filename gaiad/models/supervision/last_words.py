"""Why a worker is gone or was never there, in words, with what to do about it. Pure."""

from collections.abc import Sequence

from gaiad.models.supervision.process import describe_exit
from gaiad.models.supervision.protocol import Load

_STARTED = "--- worker started, pid"
_LONGER = {
    "embed": "; when it only needs longer, raise embedder.start_timeout_s",
    "generate": "; when it only needs longer, raise models.start_timeout_s",
}


def first_line(pid: int) -> str:
    """What stands between the standard error of one life and the next."""
    return f"{_STARTED} {pid}"


def why_it_died(stderr: Sequence[str], load: Load, code: int) -> str:
    """From its exit status and the last it wrote."""
    words = next((line.strip() for line in reversed(stderr) if line.strip()), "")
    last = "" if words.startswith(_STARTED) else f" (its last words: {words[:300]})"
    where = f"{load.path}: " if load.path else ""
    return f"{where}{describe_exit(code)}{last}"


def not_ready(limit_s: float, load: Load) -> str:
    """It took longer to start than it may; names the setting."""
    return f"it was not ready after {limit_s:g} s{_LONGER.get(load.engine, '')}"


def once_mended(role: str, load: Load) -> str:
    """How one that was given up is tried anew."""
    remedy = "restart gaiad" if load.engine == "embed" else f"`gaiad models load {role}`"
    return f"{remedy} once it is mended"
