"""What a reload of the settings changed, and what of it takes effect at the next start only."""

import msgspec

from gaiad.config import Config
from gaiad.status_schemas import ReloadReport

_LIVE = (
    "search.",
    "research.",
    "memory.",
    "daemon.log_level",
    "daemon.log_format",
    "intake.folders",
    "access.uids",
    *("models.memory_mib", "cognition."),
    *("council.", "initiative.enabled", "initiative.daily_tokens", "shell.", "router.", "redaction."),
)


def changes(old: Config, fresh: Config) -> ReloadReport:
    """The keys whose values differ."""
    before, after = msgspec.to_builtins(old), msgspec.to_builtins(fresh)
    changed = [f"{s}.{k}" for s in after for k in after[s] if after[s][k] != before[s][k]]
    return ReloadReport(changed=changed, restart_needed=[key for key in changed if not key.startswith(_LIVE)])
