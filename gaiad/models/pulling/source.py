"""What `gaiad models pull` was asked for: a path, an address or a hub name, and the names of its files."""

import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from gaiad.base.errors import BadInput

_SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)
_HUB = re.compile(r"[\w.-]+/[\w.-]+(?::.+)?", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}", re.ASCII)
_SHA256 = re.compile(r"(?:sha256:)?(?P<digits>[0-9a-fA-F]{64})")
_MAX_PARTS = 999
_FORMS = "write a path, an http(s) address, or a hub name as owner/repo or owner/repo:Q4_K_M"


class FileSource(msgspec.Struct, frozen=True, kw_only=True):
    """A GGUF on this machine."""

    path: Path


class WebSource(msgspec.Struct, frozen=True, kw_only=True):
    """A GGUF at an http(s) address."""

    url: str


class HubSource(msgspec.Struct, frozen=True, kw_only=True):
    """A repository on the hub; `wanted` is a file's name, a pattern or a quantisation, "" for its only model."""

    repo: str
    wanted: str


class Shard(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a model: `number` of `count`, from 1."""

    stem: str
    number: int
    count: int


def parse_source(text: str, is_file: Callable[[Path], bool] = Path.is_file) -> FileSource | WebSource | HubSource:
    """What the text means; an existing file is always that file. Raises BadInput with the forms to choose from."""
    path = Path(text).expanduser() if text.startswith("~") else Path(text)
    scheme, separator, _ = text.partition("://")
    if separator:
        if scheme.lower() not in ("http", "https"):
            raise BadInput(f"{text}: {scheme}:// cannot be pulled; {_FORMS}")
        _check_address(text)
        return WebSource(url=text)
    if text and is_file(path):
        return FileSource(path=path)
    if not is_hub_name(text):
        raise BadInput(f"{text}: no such file, and not an address or a hub name; {_FORMS}")
    repo, _, wanted = text.partition(":")
    return HubSource(repo=repo, wanted=wanted)


def is_hub_name(text: str) -> bool:
    """Whether it has the form owner/repo or owner/repo:WANTED and is not written as a path."""
    named_as_path = text.startswith((".", "/", "~")) or (text.lower().endswith(".gguf") and ":" not in text)
    return _HUB.fullmatch(text) is not None and not named_as_path


def _check_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise BadInput(f"{url}: is not a valid address ({error}); {_FORMS}") from error
    if not host:
        raise BadInput(f"{url}: the host is missing; {_FORMS}")


def parse_sha256(text: str) -> str:
    """64 hexadecimal digits in lower case, "" for none. Raises BadInput naming the text."""
    found = _SHA256.fullmatch(text.strip())
    if text and found is None:
        raise BadInput(f"--sha256 {text}: is not a SHA-256; write its 64 hexadecimal digits")
    return found["digits"].lower() if found else ""


def shown(url: str) -> str:
    """An address for people: without login, query and fragment, which may hold secrets."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}{parts.path}"


def identity(url: str) -> str:
    """An address for notes: as shown, and a hash of its query in place of the query."""
    query = urlsplit(url).query
    return shown(url) + (f"?{sha256(query.encode()).hexdigest()[:16]}" if query else "")


def shard_of(name: str) -> Shard | None:
    """Which part of a model a file is; None when it is a whole one."""
    found = _SHARD.fullmatch(name)
    if found is None:
        return None
    shard = Shard(stem=found["stem"], number=int(found["number"]), count=int(found["count"]))
    return shard if shard.count > 1 and 1 <= shard.number <= shard.count else None


def part_names(name: str) -> list[str]:
    """The names of all parts of the model that `name` belongs to; `name` alone when it is whole. Raises BadInput."""
    shard = shard_of(name)
    if shard is None:
        return [name]
    if shard.count > _MAX_PARTS:
        raise BadInput(f"{name}: is one of {shard.count} parts, at most {_MAX_PARTS} are pulled")
    return [f"{shard.stem}-{number:05d}-of-{shard.count:05d}{name[-5:]}" for number in range(1, shard.count + 1)]


def name_in_address(url: str) -> str:
    """The file name that an address ends with, "" when it has none."""
    return unquote(urlsplit(url).path).rpartition("/")[2]


def target_names(names: list[str], chosen: str) -> list[str]:
    """What the files are called in the models folder: `chosen` with the parts' numbers, else their own names.

    Raises BadInput for a name that cannot be a file's.
    """
    stem = chosen[: -len(".gguf")] if chosen.lower().endswith(".gguf") else chosen
    if chosen and not _NAME.fullmatch(stem):
        raise BadInput(f"--as {chosen}: write a name of letters, digits, dots, dashes and underscores")
    return [_target_name(name, stem) for name in names]


def _target_name(name: str, stem: str) -> str:
    shard = shard_of(name)
    own = shard.stem if shard else re.sub(r"\.gguf$", "", name, flags=re.IGNORECASE)
    own = stem or re.sub(r"[^A-Za-z0-9._-]+", "-", own).strip("-._")[:120]
    if not own:
        raise BadInput(f"{name!r}: cannot derive a model name from this; give --as NAME")
    return f"{own}-{shard.number:05d}-of-{shard.count:05d}.gguf" if shard else f"{own}.gguf"


def model_name(target: str) -> str:
    """The model's name for the settings, from the name of its (first) file."""
    shard = shard_of(target)
    return shard.stem if shard else target[: -len(".gguf")]
