"""What a command may use: the shipped numbers of the sandbox with the user's own (decision 13)."""

from typing import Annotated

import msgspec

from constants.load import load
from gaiad.base.config import ShellConfig

MIB = 1 << 20
Positive = Annotated[int, msgspec.Meta(ge=1)]


class SandboxNumbers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many sandboxes there are at once, and what is inside: processes, open files, MiB of temporary folders,
    niceness, PATH, read-only system files.

    `root_becomes` is the uid and gid of commands where the daemon is root's.
    """

    at_once: Positive
    processes: Positive
    root_becomes: Positive
    open_files: Positive
    temporary_mib: Positive
    niceness: Annotated[int, msgspec.Meta(ge=0, le=19)]
    path: str
    system: tuple[str, ...]


class WatchNumbers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often a running command is looked at."""

    every_ms: Positive


class WorkNumbers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How large a work directory may be, besides its bytes."""

    most_entries: Positive
    most_depth: Positive


class CommandNumbers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bytes of all arguments, and characters of output that are shown."""

    most_bytes: Positive
    shown_characters: Positive


class ShellNumbers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """constants/shell.toml."""

    sandbox: SandboxNumbers
    watch: WatchNumbers
    work: WorkNumbers
    command: CommandNumbers


class ShellLimits(msgspec.Struct, frozen=True, kw_only=True):
    """One command's: seconds of wall time, bytes of memory of all its processes, of output, of the work directory."""

    timeout_s: float
    memory_bytes: int
    output_bytes: int
    work_bytes: int
    numbers: ShellNumbers


def shell_numbers() -> ShellNumbers:
    """The shipped numbers."""
    return load("shell.toml", ShellNumbers)


def shell_limits(config: ShellConfig) -> ShellLimits:
    """The user's limits with the shipped numbers."""
    return ShellLimits(
        timeout_s=config.timeout_s,
        memory_bytes=config.memory_mib * MIB,
        output_bytes=config.output_bytes,
        work_bytes=config.work_mib * MIB,
        numbers=shell_numbers(),
    )
