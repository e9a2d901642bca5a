"""Settings: one file holds every key with its default and unit; user file, environment and command line override it.

An unknown key or a wrong type is an error that names the source, the key and the remedy. Nothing is read at import.
The types are those of gaiad.base.settings; import them from here.
"""

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from gaiad.base.channels import channel_sections
from gaiad.base.errors import ConfigError
from gaiad.base.settings import (
    AccessConfig,
    ArchiveConfig,
    CognitionConfig,
    Config,
    ContextConfig,
    CouncilConfig,
    DaemonConfig,
    EmbedderConfig,
    FolderConfig,
    HttpConfig,
    InitiativeConfig,
    IntakeConfig,
    MemoryConfig,
    ModelConfig,
    ModelsConfig,
    PacketLimits,
    RedactionConfig,
    ResearchConfig,
    RolesConfig,
    RouterConfig,
    ScheduleConfig,
    SearchConfig,
    ShellConfig,
    UserConfig,
    problems,
)
from gaiad.wire.status import ReloadReport

__all__ = [
    "ENVIRONMENT_PREFIX",
    "SEED_VARIABLES",
    "AccessConfig",
    "ArchiveConfig",
    "CognitionConfig",
    "Config",
    "ContextConfig",
    "CouncilConfig",
    "DaemonConfig",
    "EmbedderConfig",
    "FolderConfig",
    "HttpConfig",
    "InitiativeConfig",
    "IntakeConfig",
    "MemoryConfig",
    "ModelConfig",
    "ModelsConfig",
    "PacketLimits",
    "RedactionConfig",
    "ResearchConfig",
    "RolesConfig",
    "RouterConfig",
    "ScheduleConfig",
    "SearchConfig",
    "ShellConfig",
    "UserConfig",
    "changes",
    "config_sections",
    "default_file",
    "is_model_file",
    "load_config",
    "model_label",
    "user_files",
]
ENVIRONMENT_PREFIX = "GAIAD_"
_NOT_SETTINGS = {"GAIAD_HOME", "GAIAD_SOCKET", "GAIAD_TOKEN"}
SEED_VARIABLES = {"MEMORY_GAM_ENABLED": ("memory", "gam_enabled")}  # a name that JIT gives
_PATHS = {"embedder": ("path",), "context": ("secondary",)}
_PATH_OF_CHANNEL = "token_file"
_MODEL_PATHS = ("path", "template", "key_file", "tokenizer")
_SWITCHES = {"1": "true", "on": "true", "yes": "true", "0": "false", "off": "false", "no": "false"}
_LIVE = (
    "search.",
    "research.",
    "memory.",
    "context.active_days",
    "context.quota_mib",
    "daemon.log_level",
    "daemon.log_format",
    "intake.folders",
    "access.uids",
    *("models.memory_mib", "models.known", "roles.", "cognition."),
    *("council.", "initiative.enabled", "initiative.daily_tokens", "shell.", "router.", "redaction."),
)


def default_file() -> Path:
    """The shipped config.toml: inside the package when installed, at the root of a checkout when editable."""
    packaged = Path(__file__).parents[1] / "config.toml"
    return packaged if packaged.is_file() else Path(__file__).parents[2] / "config.toml"


def is_model_file(role: str) -> bool:
    """Whether what a role is set to is the path of a GGUF, not a name."""
    return "/" in role or role.endswith(".gguf")


def model_label(name: str) -> str:
    """A model's name as people read it; of one that is set by its path, the name of the file."""
    return Path(name).name if is_model_file(name) else name


def user_files(home: Path, environment: Mapping[str, str]) -> list[Path]:
    """Override files that exist, weakest first: what started the daemon may name one, then the user's own."""
    base = environment.get("XDG_CONFIG_HOME") or str(Path(environment.get("HOME", "~")).expanduser() / ".config")
    candidates = [Path(base) / "gaiad" / "config.toml", home / "config.toml"]
    if environment.get("GAIAD_DEFAULTS"):
        candidates.insert(0, Path(environment["GAIAD_DEFAULTS"]))
    return [path for path in candidates if path.is_file()]


def load_config(
    files: Sequence[Path] = (), environment: Mapping[str, str] = os.environ, assignments: Sequence[str] = ()
) -> Config:
    """Defaults, then `files`, then GAIAD_SECTION__KEY variables, then `section.key=value` assignments.

    MEMORY_GAM_ENABLED, as JIT calls it, counts before the other variables. A relative path in a file is beside it.
    Raises ConfigError naming the source, the key and the remedy.
    """
    merged = _read_toml(default_file())
    for path in files:
        _overlay(merged, _beside(path.absolute().parent, _read_toml(path)), str(path))
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
        raise ConfigError(f"{path}: cannot be read as TOML ({error}); fix or remove the file") from error


def _beside(folder: Path, layer: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a file with their relative paths made absolute from its folder; what does not fit stays."""

    def placed(value: Any) -> Any:
        return str(folder / value) if isinstance(value, str) and value and not value.startswith("~") else value

    def with_paths(table: Any, keys: Iterable[str]) -> Any:
        return (
            {**table, **{key: placed(table[key]) for key in keys if key in table}} if isinstance(table, dict) else table
        )

    own = dict.fromkeys(channel_sections(), (_PATH_OF_CHANNEL,))
    found = {section: with_paths(table, {**_PATHS, **own}.get(section, ())) for section, table in layer.items()}
    if isinstance(roles := found.get("roles"), dict):
        of_files = [role for role, value in roles.items() if isinstance(value, str) and is_model_file(value)]
        found["roles"] = with_paths(roles, of_files)
    if isinstance(models := found.get("models"), dict) and isinstance(known := models.get("known"), dict):
        known = {name: with_paths(model, _MODEL_PATHS) for name, model in known.items()}
        found["models"] = {**models, "known": known}
    return found


def _overlay(merged: dict[str, Any], layer: Mapping[str, Any], source: str) -> None:
    for section, values in layer.items():
        if section not in merged:
            raise ConfigError(f"{source}: unknown section [{section}]; {_nearest(section, merged)}")
        if not isinstance(values, dict):
            raise ConfigError(f"{source}: [{section}] must be a table of keys, got {values!r}")
        for key, value in values.items():
            if (section, key) == ("models", "known") and isinstance(value, dict):
                value = merged[section][key] | value  # a file adds models to those of a weaker one
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
    if isinstance(value, int) and isinstance(merged[section][key], float) and not isinstance(value, bool):
        value = float(value)
    trial = {**merged[section], key: value}
    try:
        if section in channel_sections():
            _convert_alike(value, merged[section][key])
        else:
            msgspec.convert(trial, Config.__annotations__[section])
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"{source}: {section}.{key} = {value!r} does not fit: {error}; see the default in config.toml"
        ) from error
    merged[section][key] = value


def _convert_alike(value: Any, default: Any) -> None:
    """Raises ValidationError unless the value has the default's type; a channel's lists are of text."""
    msgspec.convert(value, list[str] if isinstance(default, list) else type(default))


def config_sections(config: Config) -> dict[str, dict[str, Any]]:
    """Section -> key -> value, as config.toml has them."""
    sections: dict[str, dict[str, Any]] = msgspec.to_builtins(config)
    channels = sections.pop("channels")
    return {**sections, **channels}


def changes(old: Config, fresh: Config) -> ReloadReport:
    """The keys whose values differ."""
    before, after = config_sections(old), config_sections(fresh)
    changed = [f"{s}.{k}" for s in after for k in after[s] if after[s][k] != before[s][k]]
    return ReloadReport(changed=changed, restart_needed=[key for key in changed if not key.startswith(_LIVE)])


def _check(merged: Mapping[str, Any]) -> Config:
    own = channel_sections()
    sections = {section: values for section, values in merged.items() if section not in own}
    try:
        config = msgspec.convert(
            {**sections, "channels": {section: merged.get(section, {}) for section in own}}, Config
        )
    except msgspec.ValidationError as error:
        raise ConfigError(f"{default_file()}: {error}; reinstall gaiad or restore the shipped config.toml") from error
    for problem in problems(config, merged):
        raise ConfigError(problem)
    return config


def _nearest(name: str, known: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"


EXTRACTIVE = "extractive"
_TAKEN = {*RolesConfig.__struct_fields__, "tokenizer", "embedder", EXTRACTIVE}
_NEEDED = {"gguf": ("path",), "openai": ("base_url", "model"), "extractive": (), "scripted": ("path",)}
_ALLOWED = {
    "gguf": ("path", "template", "context", "cells", "parallel", "pinned"),
    "openai": ("base_url", "model", "key_env", "key_file", "tokenizer", "parallel", "context"),
    "extractive": (),
    "scripted": ("path",),
}


def assign(roles: RolesConfig, known: Mapping[str, ModelConfig]) -> tuple[dict[str, str], dict[str, ModelConfig]]:
    """Role -> name of a model, and name -> model: all that are known or named by a role. Raises ConfigError."""
    models = {EXTRACTIVE: ModelConfig(kind="extractive"), **known}
    for name, model in known.items():
        _check_model(name, model)
    named: dict[str, str] = {}
    for role in roles.__struct_fields__:
        value = getattr(roles, role)
        if value not in models:
            models[value] = _from_path(role, value, known)
        named[role] = value
    if EXTRACTIVE not in named.values():
        del models[EXTRACTIVE]
    return named, models


def _from_path(role: str, value: str, known: Mapping[str, ModelConfig]) -> ModelConfig:
    if is_model_file(value):
        return ModelConfig(kind="gguf", path=value)
    names = ", ".join(sorted(known)) or "none yet"
    raise ConfigError(
        f"roles.{role} = {value!r}: no such model; give the path of a GGUF, {EXTRACTIVE!r}, or a name from "
        f"models.known ({names})"
    )


def _check_model(name: str, model: ModelConfig) -> None:
    where = f"models.known.{name}"
    if not name or "/" in name or name.endswith(".gguf"):
        raise ConfigError(f"{where}: a model's name is a plain word, not a path; rename it")
    if name in _TAKEN:
        raise ConfigError(
            f"{where}: {name!r} means something else already (one of {', '.join(sorted(_TAKEN))}); rename it"
        )
    default = ModelConfig(kind=model.kind)
    for field in ModelConfig.__struct_fields__:
        value = getattr(model, field)
        if field in _NEEDED[model.kind] and not value:
            raise ConfigError(f'{where}: kind = "{model.kind}" needs {field}')
        if field != "kind" and field not in _ALLOWED[model.kind] and value != getattr(default, field):
            raise ConfigError(f'{where}: {field} does not apply to kind = "{model.kind}"; remove it')
        if isinstance(value, int) and value < 0:
            raise ConfigError(f"{where}: {field} = {value} must not be negative")
    if model.key_env and model.key_file:
        raise ConfigError(f"{where}: key_env and key_file are both set; keep one of them")


def file_of(model: ModelConfig) -> Path:
    """The model's file, `~` expanded."""
    return Path(model.path).expanduser()
