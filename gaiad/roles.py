"""Which model serves which role, read from the settings. Pure but for expanding `~`.

A role names a model of the user's, `extractive`, or the path of a GGUF; several may name the same one, which then runs
once. What a kind of model has no use for is an error, for a setting without effect is a misunderstanding.
"""

from collections.abc import Mapping
from pathlib import Path

from gaiad.config import ModelConfig, RolesConfig, is_model_file
from gaiad.errors import ConfigError

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
        _check(name, model)
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


def _check(name: str, model: ModelConfig) -> None:
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
            raise ConfigError(f'{where}: {field} means nothing for kind = "{model.kind}"; remove it')
        if isinstance(value, int) and value < 0:
            raise ConfigError(f"{where}: {field} = {value} must not be negative")
    if model.key_env and model.key_file:
        raise ConfigError(f"{where}: key_env and key_file are both set; keep one of them")


def file_of(model: ModelConfig) -> Path:
    """The model's file, `~` expanded."""
    return Path(model.path).expanduser()
