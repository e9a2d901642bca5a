"""What the daemon looks at when somebody asks the doctor: each finding with a remedy."""

import shutil
import stat
from pathlib import Path

from gaiad.schemas import Check, Status

_LOW_DISK_BYTES = 512 * 1024 * 1024


def run_checks(home: Path, socket: Path, status: Status) -> list[Check]:
    """All checks, the most basic first."""
    return [_home(home), _disk(home), _socket(socket), *_models(status), _queue(status), *_degraded(status)]


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


def _models(status: Status) -> list[Check]:
    return [
        Check(
            name=f"model {model.role}",
            ok=model.state in ("ready", "sleeping"),
            detail=f"{model.state}: {model.path_or_url}" + (f" ({model.reason})" if model.reason else ""),
            remedy=""
            if model.state in ("ready", "sleeping")
            else "see the reason; `make` provisions the default model",
        )
        for model in status.models
    ]


def _queue(status: Status) -> Check:
    return Check(name="index", ok=True, detail=f"{status.vectors} of {status.pages} pages have vectors")


def _degraded(status: Status) -> list[Check]:
    return [Check(name="degraded", ok=False, detail=reason, remedy="see the reason") for reason in status.degraded]
