"""The settings as types: one struct a section of config.toml, a field a key. Values are there, not here.

Reading and merging the files is left to config, the limits of a value that a type cannot say to config_checks.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec

from gaiad.base.channels import chats


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class UserConfig(_Section, frozen=True):
    timezone: str


class DaemonConfig(_Section, frozen=True):
    stop_grace_s: float
    log_level: Literal["debug", "info", "warning", "error"]
    log_format: Literal["text", "json"]


class HttpConfig(_Section, frozen=True):
    enabled: bool
    host: Literal["127.0.0.1", "::1", "localhost"]
    port: int
    allowed_origins: list[str]
    max_body_bytes: int
    request_timeout_s: float


class AccessConfig(_Section, frozen=True):
    uids: dict[str, list[str]]


class FolderConfig(_Section, frozen=True):
    path: str
    tenant: str = "local"


class IntakeConfig(_Section, frozen=True):
    folders: list[FolderConfig]
    settle_ms: int
    rescan_s: float
    batch_files: int


class PacketLimits(_Section, frozen=True):
    """Limits on one packet: bytes on disk, nesting, nodes, characters of decoded text, pages."""

    max_bytes: int
    max_depth: int
    max_nodes: int
    max_text_chars: int
    max_pages: int


class ArchiveConfig(_Section, frozen=True):
    page_max_chars: int
    page_overlap_chars: int
    exact_scan_max: int
    commit_max_packets: int
    readers: int


class EmbedderConfig(_Section, frozen=True):
    kind: Literal["minilm", "gguf", "none"]
    path: str
    threads: int
    batch_tokens: int
    max_backlog_pages: int
    start_timeout_s: float


class ModelConfig(_Section, frozen=True):
    """A model of the user's by name. What a kind has no use for is an error to set; 0 and "" mean the default."""

    kind: Literal["gguf", "openai", "extractive", "scripted"]
    path: str = ""
    template: str = ""
    context: int = 0
    cells: int = 0
    parallel: int = 0
    base_url: str = ""
    model: str = ""
    key_env: str = ""
    key_file: str = ""
    tokenizer: str = ""
    pinned: bool = False


class ModelsConfig(_Section, frozen=True):
    """How models run; `known` are the user's own by name."""

    memory_mib: int
    threads: int
    context: int
    cells: int
    parallel: int
    batch_tokens: int
    queue: int
    flash_attention: Literal["auto", "on", "off"]
    start_timeout_s: float
    remote_timeout_s: float
    sleep_after_s: float
    heartbeat_s: float
    probe: bool
    known: dict[str, ModelConfig]


class RolesConfig(_Section, frozen=True):
    """Role -> the name of a model, `extractive`, or the path of a GGUF."""

    prime: str
    lite: str
    codemind: str


class CognitionConfig(_Section, frozen=True):
    mtu: int
    reserve_tokens: int
    history_turns: int
    context_pages: int
    proactive_context: bool


class CouncilConfig(_Section, frozen=True):
    """`stages` and `sampling` are by role; what they may hold is checked by council and models."""

    depth: Literal["auto", "fast", "full"]
    deadline_s: float
    full_deadline_s: float
    vote_s: float
    observer_windows: bool
    stages: dict[str, list[str]]
    sampling: dict[str, dict[str, float]]
    keep_heartbeats_days: int


class InitiativeConfig(_Section, frozen=True):
    enabled: bool
    every_s: float
    daily_tokens: int


class ShellConfig(_Section, frozen=True):
    """Commands that the council agreed to and a person approved, in their sandbox (decision 13)."""

    enabled: bool
    approval_s: float
    timeout_s: float
    memory_mib: int
    output_bytes: int
    work_mib: int
    desktop_notice: bool


class RouterConfig(_Section, frozen=True):
    """Channel -> marker -> "show", "log" or "off"; what it may hold is checked by the router."""

    overrides: dict[str, dict[str, str]]


class RedactionConfig(_Section, frozen=True):
    """What is scrubbed on the way to a channel, and what the user lists; checked by the router."""

    channels: dict[str, bool | list[str]]
    names: list[str]
    phrases: list[str]
    phone_regions: list[str]
    allowed_words: list[str]


class SearchConfig(_Section, frozen=True):
    candidates: int
    postings_budget: int
    weight_bm25: float
    weight_words: float
    weight_window: float
    weight_before: float
    weight_dense: float
    weight_near: float
    weight_session: float
    weight_session_dense: float
    weight_name: float
    weight_own: float
    weight_when: float
    weight_number: float
    weight_names: float
    weight_substance: float
    weight_spread: float
    weight_time: float
    weight_match: float
    weight_feedback: float
    neighbour_1: float
    neighbour_2: float


class ResearchConfig(_Section, frozen=True):
    max_iterations: int
    max_pages: int
    max_sources: int
    expand_days: int
    citation_threshold: float
    model: Literal["", "prime", "lite", "codemind"]
    model_calls: int
    model_tokens: int
    model_s: float
    keep_runs_days: int
    keep_runs_max: int


class MemoryConfig(_Section, frozen=True):
    """JIT's memory API, and the labels of packets that a channel does not see (JIT, policy tags).

    `ttl_days` is by tenant; 0 or none keeps for good. `exclude` is by chat channel: cli_chat is the socket and any
    token, memory_api a briefing.
    """

    gam_enabled: bool
    model: Literal["", "prime", "lite", "codemind"]
    keep_runs: bool
    ttl_days: dict[str, Annotated[int, msgspec.Meta(ge=0, le=36_500)]]
    exclude: dict[str, list[str]]

    def hidden_from(self, reader: str) -> tuple[Collection[str], Collection[str]]:
        """What RequestContext.without takes for this reader: the labels that it does not see, and `guarded`."""
        return self.exclude.get(reader, ()), self.guarded

    @property
    def guarded(self) -> frozenset[str]:
        """The labels that any channel does not see."""
        return frozenset(label for labels in self.exclude.values() for label in labels)


class ContextConfig(_Section, frozen=True):
    checkpoint_s: float
    active_days: int
    quota_mib: int
    secondary: str


class ScheduleConfig(_Section, frozen=True):
    sweep_at: str


class Config(_Section, frozen=True):
    """All settings; every value came from config.toml or an override, none from code."""

    user: UserConfig
    daemon: DaemonConfig
    http: HttpConfig
    access: AccessConfig
    intake: IntakeConfig
    packets: PacketLimits
    archive: ArchiveConfig
    embedder: EmbedderConfig
    models: ModelsConfig
    roles: RolesConfig
    cognition: CognitionConfig
    council: CouncilConfig
    initiative: InitiativeConfig
    shell: ShellConfig
    router: RouterConfig
    redaction: RedactionConfig
    channels: dict[str, dict[str, Any]]
    """The sections of channels that have one; each channel's module in router/channels checks its own."""
    search: SearchConfig
    research: ResearchConfig
    memory: MemoryConfig
    context: ContextConfig
    schedule: ScheduleConfig


_ABOVE_ZERO = {
    "cognition": ("mtu", "reserve_tokens"),
    "embedder": ("batch_tokens", "max_backlog_pages", "start_timeout_s"),
    "models": ("parallel", "batch_tokens", "start_timeout_s", "remote_timeout_s", "heartbeat_s"),
}
_DAY_S = 86_400.0
_MEMORY_API = "memory_api"
_WITHIN = {
    "context": {"checkpoint_s": (0.0, _DAY_S), "active_days": (1, 36_500), "quota_mib": (0, 16_777_216)},
    "council": {
        "deadline_s": (1.0, _DAY_S),
        "full_deadline_s": (1.0, _DAY_S),
        "vote_s": (1.0, _DAY_S),
        "keep_heartbeats_days": (1, 36_500),
    },
    "initiative": {"every_s": (0.1, 7 * _DAY_S)},
    "research": {
        "max_iterations": (1, 5),
        "max_pages": (1, 32),
        "max_sources": (1, 32),
        "citation_threshold": (0.0, 1.0),
        "expand_days": (0, 3650),
        "keep_runs_days": (0, 36_500),
        "model_calls": (1, 100),
        "model_tokens": (1000, 10_000_000),
        "model_s": (0.1, 3600.0),
    },
    "search": {"weight_feedback": (0.0, 0.5)},
    "shell": {
        "approval_s": (1.0, 30 * _DAY_S),
        "timeout_s": (0.1, _DAY_S),
        "memory_mib": (16, 1_048_576),
        "output_bytes": (256, 16_777_216),
        "work_mib": (1, 65_536),
    },
}


def problems(config: Config, merged: Mapping[str, Any]) -> Iterator[str]:
    """A line a problem, with key, value and remedy; `merged` (section -> key -> value) is what `config` was made of."""
    if not 0 <= config.http.port <= 65535:
        yield f"http.port = {config.http.port}: a port is 0 to 65535"
    yield from _page_problems(config.archive)
    yield from _out_of_range(merged)
    yield from _memory_problems(config.memory)
    if config.embedder.kind == "gguf" and not config.embedder.path:
        yield 'embedder.kind = "gguf" needs embedder.path'
    yield from _not_numbers(merged)


def _page_problems(archive: ArchiveConfig) -> Iterator[str]:
    if archive.page_overlap_chars * 2 >= archive.page_max_chars:
        yield "archive.page_overlap_chars must be below half of archive.page_max_chars"
    if archive.page_max_chars < 200:
        yield "archive.page_max_chars must be 200 or more"


def _out_of_range(merged: Mapping[str, Any]) -> Iterator[str]:
    for section, keys in _ABOVE_ZERO.items():
        for key in keys:
            if not (value := merged[section][key]) > 0:
                yield f"{section}.{key} = {value!r}: must be above 0; see the default in config.toml"
    for section, ranges in _WITHIN.items():
        for key, (low, high) in ranges.items():
            if not low <= (value := merged[section][key]) <= high:
                yield f"{section}.{key} = {value:.10g}: give a number from {low:.10g} to {high:.10g}"


def _memory_problems(memory: MemoryConfig) -> Iterator[str]:
    known = [*chats(), _MEMORY_API]
    for reader in memory.exclude:
        if reader not in known:
            yield f"memory.exclude.{reader}: {reader} is not a reader; use one of {', '.join(known)}"


def _not_numbers(merged: Mapping[str, Any]) -> Iterator[str]:
    """NaN and the infinities; then what is below 0."""
    numbers = [
        (f"{section}.{key}", value)
        for section, values in merged.items()
        for key, value in values.items()
        if isinstance(value, int | float)
    ]
    for name, value in numbers:
        if not math.isfinite(value):
            yield f"{name} = {value!r}: must be a finite number; see the default in config.toml"
    for name, value in numbers:
        if value < 0:
            yield f"{name} = {value!r}: must not be negative"
