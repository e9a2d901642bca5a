"""Settings: one file holds every key with its default and unit; user file, environment and command line override it.

An unknown key or a wrong type is an error that names the source, the key and the remedy. Nothing is read at import.
"""

import difflib
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from gaiad.errors import ConfigError

ENVIRONMENT_PREFIX = "GAIAD_"
_NOT_SETTINGS = {"GAIAD_HOME", "GAIAD_SOCKET", "GAIAD_TOKEN"}
_ABOVE_ZERO = {
    "embedder": ("batch_tokens", "max_backlog_pages", "start_timeout_s"),
    "models": ("parallel", "batch_tokens", "start_timeout_s", "remote_timeout_s", "heartbeat_s"),
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


class SearchConfig(_Section, frozen=True):
    candidates: int
    postings_budget: int
    weight_bm25: float
    weight_dense: float
    weight_session: float
    weight_name: float
    weight_time: float
    weight_match: float
    neighbour_1: float
    neighbour_2: float


class ResearchConfig(_Section, frozen=True):
    max_iterations: int
    max_pages: int
    max_sources: int
    expand_days: int


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
    search: SearchConfig
    research: ResearchConfig
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

    Raises ConfigError naming the source, the key and the remedy.
    """
    merged = _read_toml(default_file())
    for path in files:
        _overlay(merged, _read_toml(path), str(path))
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
        'embedder.kind = "gguf" needs embedder.path'
        if config.embedder.kind == "gguf" and not config.embedder.path
        else "",
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


def _nearest(name: str, known: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
