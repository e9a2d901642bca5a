"""Settings: one file holds every key with its default and unit; user file, environment and command line override it.

An unknown key or a wrong type is an error that names the source, the key and the remedy. Nothing is read at import.
"""

import difflib
import math
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from gaiad.errors import ConfigError

ENVIRONMENT_PREFIX = "GAIAD_"
_NOT_SETTINGS = {"GAIAD_HOME", "GAIAD_SOCKET", "GAIAD_TOKEN"}
SEED_VARIABLES = {"MEMORY_GAM_ENABLED": ("memory", "gam_enabled")}  # a name that JIT gives
_SWITCHES = {"1": "true", "on": "true", "yes": "true", "0": "false", "off": "false", "no": "false"}
_ABOVE_ZERO = {
    "embedder": ("batch_tokens", "max_backlog_pages", "start_timeout_s"),
    "models": ("parallel", "batch_tokens", "start_timeout_s", "remote_timeout_s", "heartbeat_s"),
}
_DISCORD_ID = re.compile(r"[1-9]\d{14,19}", re.ASCII)
_DAY_S = 86_400.0
_WITHIN = {
    "council": {
        "deadline_s": (1.0, _DAY_S),
        "full_deadline_s": (1.0, _DAY_S),
        "vote_s": (1.0, _DAY_S),
        "keep_heartbeats_days": (1, 36_500),
    },
    "discord": {"turns": (1, 64), "timeout_s": (1.0, 3600.0), "queue": (1, 100_000)},
    "initiative": {"every_s": (0.1, 7 * _DAY_S)},
    "shell": {
        "approval_s": (1.0, 30 * _DAY_S),
        "timeout_s": (0.1, _DAY_S),
        "memory_mib": (16, 1_048_576),
        "output_bytes": (256, 16_777_216),
        "work_mib": (1, 65_536),
    },
}


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
    """Limits on one packet: bytes on disk, nesting, nodes, characters of decoded text."""

    max_bytes: int
    max_depth: int
    max_nodes: int
    max_text_chars: int


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


class DiscordConfig(_Section, frozen=True):
    """The bot, and who may speak to it where; ids are Discord's, in digits."""

    enabled: bool
    token_env: str
    token_file: str
    servers: list[str]
    users: list[str]
    channels: list[str]
    tenant: str
    turns: int
    timeout_s: float
    queue: int


class SearchConfig(_Section, frozen=True):
    candidates: int
    postings_budget: int
    weight_bm25: float
    weight_window: float
    weight_before: float
    weight_dense: float
    weight_near: float
    weight_session: float
    weight_session_dense: float
    weight_name: float
    weight_substance: float
    weight_time: float
    weight_match: float
    neighbour_1: float
    neighbour_2: float


class ResearchConfig(_Section, frozen=True):
    max_iterations: int
    max_pages: int
    max_sources: int
    expand_days: int


class MemoryConfig(_Section, frozen=True):
    """JIT's memory API."""

    gam_enabled: bool


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
    discord: DiscordConfig
    search: SearchConfig
    research: ResearchConfig
    memory: MemoryConfig
    schedule: ScheduleConfig


def default_file() -> Path:
    """The shipped config.toml: inside the package when installed, at the root of a checkout when editable."""
    packaged = Path(__file__).parent / "config.toml"
    return packaged if packaged.is_file() else Path(__file__).parent.parent / "config.toml"


def user_files(home: Path, environment: Mapping[str, str]) -> list[Path]:
    """The user's override files that exist, weakest first."""
    base = environment.get("XDG_CONFIG_HOME") or str(Path(environment.get("HOME", "~")).expanduser() / ".config")
    candidates = [Path(base) / "gaiad" / "config.toml", home / "config.toml"]
    return [path for path in candidates if path.is_file()]


def load_config(
    files: Sequence[Path] = (), environment: Mapping[str, str] = os.environ, assignments: Sequence[str] = ()
) -> Config:
    """Defaults, then `files`, then GAIAD_SECTION__KEY variables, then `section.key=value` assignments.

    MEMORY_GAM_ENABLED, as JIT calls it, counts before the other variables.
    Raises ConfigError naming the source, the key and the remedy.
    """
    merged = _read_toml(default_file())
    for path in files:
        _overlay(merged, _read_toml(path), str(path))
    for name, (section, key) in SEED_VARIABLES.items():
        if value := environment.get(name, "").strip().lower():
            _assign(merged, section, key, _SWITCHES.get(value, value), f"environment variable {name}")
    for name, value in sorted(environment.items()):
        if name.startswith(ENVIRONMENT_PREFIX) and name not in _NOT_SETTINGS and "__" in name:
            section, _, key = name.removeprefix(ENVIRONMENT_PREFIX).lower().partition("__")
            _assign(merged, section, key, value, f"environment variable {name}")
    for assignment in assignments:
        target, equals, value = assignment.partition("=")
        section, dot, key = target.strip().partition(".")
        if not (equals and dot):
            raise ConfigError(f"--set {assignment}: write it as section.key=value, for example --set http.port=0")
        _assign(merged, section, key, value, f"--set {assignment}")
    return _check(merged)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read as TOML ({error}); mend or remove the file") from error


def _overlay(merged: dict[str, Any], layer: Mapping[str, Any], source: str) -> None:
    for section, values in layer.items():
        if section not in merged:
            raise ConfigError(f"{source}: unknown section [{section}]; {_nearest(section, merged)}")
        if not isinstance(values, dict):
            raise ConfigError(f"{source}: [{section}] must be a table of keys, got {values!r}")
        for key, value in values.items():
            _set(merged, section, key, value, source)


def _assign(merged: dict[str, Any], section: str, key: str, text: str, source: str) -> None:
    if section not in merged:
        raise ConfigError(f"{source}: unknown section {section!r}; {_nearest(section, merged)}")
    if key not in merged[section]:
        raise ConfigError(f"{source}: unknown key {section}.{key}; {_nearest(key, merged[section])}")
    _set(merged, section, key, _parse_value(text, merged[section][key]), source)


def _parse_value(text: str, default: Any) -> Any:
    if isinstance(default, str):
        return text
    try:
        return tomllib.loads(f"value = {text.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _set(merged: dict[str, Any], section: str, key: str, value: Any, source: str) -> None:
    if key not in merged[section]:
        raise ConfigError(f"{source}: unknown key {section}.{key}; {_nearest(key, merged[section])}")
    kind = Config.__annotations__[section]
    if isinstance(value, int) and isinstance(merged[section][key], float) and not isinstance(value, bool):
        value = float(value)
    trial = {**merged[section], key: value}
    try:
        msgspec.convert(trial, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"{source}: {section}.{key} = {value!r} does not fit: {error}; see the default in config.toml"
        ) from error
    merged[section][key] = value


def _check(merged: Mapping[str, Any]) -> Config:
    try:
        config = msgspec.convert(merged, Config)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{default_file()}: {error}; reinstall gaiad or restore the shipped config.toml") from error
    problems = [
        f"http.port = {config.http.port}: a port is 0 to 65535" if not 0 <= config.http.port <= 65535 else "",
        "archive.page_overlap_chars must be below half of archive.page_max_chars"
        if config.archive.page_overlap_chars * 2 >= config.archive.page_max_chars
        else "",
        "archive.page_max_chars must be 200 or more" if config.archive.page_max_chars < 200 else "",
        *(
            f"cognition.{key} = 0: must be 1 or more; see the default in config.toml"
            for key in ("mtu", "reserve_tokens")
            if getattr(config.cognition, key) == 0
        ),
        *(
            f"{section}.{key} = {value!r}: must be above 0; see the default in config.toml"
            for section, keys in _ABOVE_ZERO.items()
            for key in keys
            if not (value := merged[section][key]) > 0
        ),
        *(
            f"{section}.{key} = {value:.10g}: give a number from {low:.10g} to {high:.10g}"
            for section, ranges in _WITHIN.items()
            for key, (low, high) in ranges.items()
            if not low <= (value := merged[section][key]) <= high
        ),
        *_discord_problems(config.discord),
        'embedder.kind = "gguf" needs embedder.path'
        if config.embedder.kind == "gguf" and not config.embedder.path
        else "",
        *(
            f"{section}.{key} = {value!r}: must be a finite number; see the default in config.toml"
            for section, values in merged.items()
            for key, value in values.items()
            if isinstance(value, float) and not math.isfinite(value)
        ),
        *(
            f"{section}.{key} = {value!r}: must not be negative"
            for section, values in merged.items()
            for key, value in values.items()
            if isinstance(value, int | float) and value < 0
        ),
    ]
    for problem in filter(None, problems):
        raise ConfigError(problem)
    return config


def _discord_problems(discord: DiscordConfig) -> list[str]:
    """A bot without an allow-list would speak to anybody."""
    if not discord.enabled:
        return []
    wrong = [
        f'discord.{key} = {name!r}: write Discord\'s id, 15 to 20 digits, ["123456789012345678"]'
        for key in ("servers", "users", "channels")
        for name in getattr(discord, key)
        if not _DISCORD_ID.fullmatch(name)
    ]
    empty = [
        f"discord.{key} is empty: the bot does not start without an allow-list of servers, users and channels; add "
        "ids, or set discord.enabled = false"
        for key in ("servers", "users", "channels")
        if not getattr(discord, key)
    ]
    token = "discord.enabled needs discord.token_env or discord.token_file, one of them"
    return [*wrong, *empty, token if bool(discord.token_env) == bool(discord.token_file) else ""]


def _nearest(name: str, known: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
