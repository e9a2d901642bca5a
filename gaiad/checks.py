"""What the daemon looks at when somebody asks the doctor: each finding with a remedy."""

import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from gaiad.status_schemas import Check, ModelStatus, Status

_LOW_DISK_BYTES = 512 * 1024 * 1024


_LAST_LINES = 8


def run_checks(home: Path, socket: Path, status: Status, last_words: Mapping[str, Sequence[str]]) -> list[Check]:
    """All checks, the most basic first. `last_words` are the workers' lines on standard error, by model."""
    models = _models(status, last_words)
    return [_home(home), _disk(home), _socket(socket), *models, _queue(status), *_degraded(status)]


def _home(home: Path) -> Check:
    mode = stat.S_IMODE(home.stat().st_mode)
    return Check(
        name="home",
        ok=mode & 0o077 == 0,
        detail=f"{home} has mode {mode:04o}",
        remedy="" if mode & 0o077 == 0 else f"chmod 700 {home}",
    )


def _disk(home: Path) -> Check:
    free = shutil.disk_usage(home).free
    return Check(
        name="disk",
        ok=free >= _LOW_DISK_BYTES,
        detail=f"{free / 2**30:.1f} GiB free",
        remedy="" if free >= _LOW_DISK_BYTES else "free some space: ingest stops when the disk is full",
    )


def _socket(path: Path) -> Check:
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0
    return Check(
        name="socket",
        ok=mode == 0o600,
        detail=f"{path} has mode {mode:04o}" if mode else f"{path} is gone",
        remedy="" if mode == 0o600 else "restart the daemon: it makes the socket anew",
    )


def _models(status: Status, last_words: Mapping[str, Sequence[str]]) -> list[Check]:
    return [_model(model, last_words.get(model.name or model.role, ())) for model in status.models]


def _model(model: ModelStatus, last_words: Sequence[str]) -> Check:
    """One that is in trouble, or was and came back, says what its process wrote last."""
    well = model.state in ("ready", "starting", "sleeping")
    detail = f"{model.state}: {model.path_or_url or model.kind}" + (f" ({model.reason})" if model.reason else "")
    if model.restarts:
        detail += f"; restarted {model.restarts} times"
    if last_words and (model.restarts or not well):
        detail += "; its last words: " + " | ".join(last_words[-_LAST_LINES:])
    return Check(
        name=f"model {model.role or model.name}",
        ok=well,
        detail=detail,
        remedy="" if well else "mend what the reason says, then `gaiad models load NAME`; `make` restores the embedder",
    )


def _queue(status: Status) -> Check:
    return Check(name="index", ok=True, detail=f"{status.vectors} of {status.pages} pages have vectors")


def _degraded(status: Status) -> list[Check]:
    return [Check(name="degraded", ok=False, detail=reason, remedy="see the reason") for reason in status.degraded]
