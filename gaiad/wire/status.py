"""What the daemon tells of itself, on the wire: jobs, models, its whole state, what a check or a reload found."""

from typing import Any, Literal

from msgspec import field

from gaiad.wire.schemas import Output, Tenant

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


class ProbeScore(Output, frozen=True):
    """Right answers of all tasks of a skill, and how many are needed to be better than chance."""

    right: int
    of: int
    needed: int


class ProbeReport(Output, frozen=True):
    """What a model can do: its score by skill, the duties that follow, and in words what it lacks for the others."""

    model: str
    measured_at: str
    seconds: float
    scores: dict[str, ProbeScore]
    duties: list[str]
    lacks: list[str]


class CatalogueModel(Output, frozen=True):
    """A well-known model; `hub` is what `gaiad models pull` takes, `fits` whether this machine has the memory."""

    name: str
    hub: str
    megabytes: int
    memory_mb: int
    licence: str
    fits: bool


class LocalServer(Output, frozen=True):
    """A model server that answers on this machine, and its models."""

    kind: str
    base_url: str
    models: list[str]


class ModelChoices(Output, frozen=True):
    """What `gaiad models use` can be given."""

    models: list[CatalogueModel]
    servers: list[LocalServer]


class ModelUsed(Output, frozen=True):
    """A model that roles use from now on; `answer` is what it said to one question, in `seconds`."""

    name: str
    kind: str
    roles: list[str]
    answer: str
    seconds: float
    settings: str


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
