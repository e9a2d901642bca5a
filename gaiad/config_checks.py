"""What is wrong with settings whose types fit: limits, and settings that hang together. Pure; gaiad.config raises."""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from gaiad.settings import ArchiveConfig, Config, DiscordConfig

_ABOVE_ZERO = {
    "cognition": ("mtu", "reserve_tokens"),
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
    yield from _discord_problems(config.discord)
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


def _discord_problems(discord: DiscordConfig) -> Iterator[str]:
    """A bot without an allow-list would speak to anybody."""
    if not discord.enabled:
        return
    for key in ("servers", "users", "channels"):
        for name in getattr(discord, key):
            if not _DISCORD_ID.fullmatch(name):
                yield f'discord.{key} = {name!r}: write Discord\'s id, 15 to 20 digits, ["123456789012345678"]'
    for key in ("servers", "users", "channels"):
        if not getattr(discord, key):
            yield (
                f"discord.{key} is empty: the bot does not start without an allow-list of servers, users and "
                "channels; add ids, or set discord.enabled = false"
            )
    if bool(discord.token_env) == bool(discord.token_file):
        yield "discord.enabled needs discord.token_env or discord.token_file, one of them"


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
