"""What the daemon tells of itself, on the wire: jobs, models, its whole state, what a check or a reload found."""

from typing import Any, Literal

from msgspec import field

from gaiad.schemas import Output, Tenant

JobState = Literal["queued", "running", "done", "failed", "cancelled"]


class Job(Output, frozen=True):
    """Something long: `done` of `total` steps; `result` once it ended."""

    job_id: str
    kind: str
    tenant: Tenant
    state: JobState
    done: int
    total: int
    note: str
    created_at: str
    updated_at: str
    result: dict[str, Any] = field(default_factory=dict)


class ModelStatus(Output, frozen=True):
    """One model as one role has it; `role` is "" for one that no role names. `slots` is how many requests at once.

    `state` is ready, starting, sleeping (unloaded to save memory), inactive or failed; `running` are requests it is
    answering, `waiting` those in line before it.
    """

    role: str
    kind: str
    path_or_url: str
    state: str
    pid: int
    reason: str
    fingerprint: str = ""
    memory_bytes: int = 0
    restarts: int = 0
    name: str = ""
    slots: int = 0
    running: int = 0
    waiting: int = 0
    pinned: bool = False


class Status(Output, frozen=True):
    """What `gaiad status` shows. `queue` is pages waiting for a vector, `research` the ids of the runs under way."""

    pid: int
    version: str
    uptime_s: float
    home: str
    socket: str
    url: str
    packets: int
    pages: int
    vectors: int
    queue: int
    quarantined: int
    models: list[ModelStatus]
    degraded: list[str]
    tenants: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    jobs: dict[str, int] = field(default_factory=dict)
    research: list[str] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    latencies: dict[str, Any] = field(default_factory=dict)
    memory_bytes: int = 0


class Check(Output, frozen=True):
    """One thing `gaiad doctor` looked at; `remedy` says what to do when it is not ok."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""


class ReloadReport(Output, frozen=True):
    """Settings that changed (section.key), and those of them that take effect at the next start only."""

    changed: list[str]
    restart_needed: list[str]
