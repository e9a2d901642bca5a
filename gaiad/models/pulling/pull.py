"""`gaiad models pull`: brings a GGUF from a path, an address or the hub into the models folder of the user.

A file takes its name only when it is complete, its SHA-256 is the promised one and its head is that of a model. A
stored file is never lost; an unfinished download waits for the next try; a wrong one is deleted.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote, urlsplit

import msgspec

from gaiad.base.errors import BadInput, Conflict, GaiadError
from gaiad.models.gguf.gguf_header import (
    DamagedGguf,
    HashStamp,
    file_sha256,
    read_counts,
    read_metadata,
    stamp_path,
    write_stamp,
)
from gaiad.models.gguf.gguf_info import read_info
from gaiad.models.provision import models_folder
from gaiad.models.pulling.download import (
    Listener,
    Part,
    PullFailed,
    Remote,
    Tries,
    check_space,
    download,
    writing,
)
from gaiad.models.pulling.hub import find_on_hub
from gaiad.models.pulling.source import (
    FileSource,
    HubSource,
    WebSource,
    identity,
    model_name,
    name_in_address,
    parse_sha256,
    parse_source,
    part_names,
    shard_of,
    shown,
    target_names,
)

_PATIENT = Tries()


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What a person asks for. `name` is the model's name here, `file` and `revision` choose on the hub.

    `force` lets a new file take the name of an old one, which stays under another name.
    """

    source: str
    name: str = ""
    sha256: str = ""
    file: str = ""
    revision: str = ""
    force: bool = False


class Local(msgspec.Struct, frozen=True, kw_only=True):
    """A file of this machine to bring in as `target`."""

    target: str
    path: Path
    sha256: str = ""


class PulledFile(msgspec.Struct, frozen=True, kw_only=True):
    """`how`: downloaded, resumed, copied, linked, or present when it was here already."""

    path: str
    sha256: str
    bytes: int
    how: str


class Pulled(msgspec.Struct, frozen=True, kw_only=True):
    """A model that is here now. `path` and `sha256` are of its file, or of the first of its parts."""

    name: str
    path: str
    sha256: str
    bytes: int
    source: str
    files: list[PulledFile]


class _Origin(msgspec.Struct, frozen=True, kw_only=True):
    """The note on a stored file: where it came from."""

    address: str
    sha256: str


def pull(wish: Wish, environment: Mapping[str, str], listener: Listener, tries: Tries = _PATIENT) -> Pulled:
    """Bring the model in, or find it already here. Raises GaiadErrors with a remedy; KeyboardInterrupt passes.

    A model in parts is opened by its first one, which comes last: when it is there, all are.
    """
    folder = models_folder(environment)
    pieces = find_pieces(wish, environment, listener, tries)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    check_space(folder, _missing_bytes(pieces, folder))
    later = [_bring(piece, folder, wish.force, tries, listener) for piece in pieces[1:]]
    files = [_bring(pieces[0], folder, wish.force, tries, listener), *later]
    return Pulled(
        name=model_name(pieces[0].target),
        path=files[0].path,
        sha256=files[0].sha256,
        bytes=sum(file.bytes for file in files),
        source=shown(wish.source) if "://" in wish.source else wish.source,
        files=files,
    )


def find_pieces(
    wish: Wish, environment: Mapping[str, str], listener: Listener, tries: Tries = _PATIENT
) -> list[Local | Remote]:
    """All files of the model, in order, with the names they get here. Raises as `pull`; only a hub is asked."""
    sha256, source = parse_sha256(wish.sha256), parse_source(wish.source)
    if not isinstance(source, HubSource) and (wish.file or wish.revision):
        raise BadInput(f"{wish.source}: --file and --revision are for hub names (owner/repo)")
    pieces: Sequence[Local | Remote]
    match source:
        case FileSource():
            pieces = _local_pieces(source.path)
        case WebSource():
            pieces = _web_pieces(source.url, wish.name)
        case HubSource():
            if wish.file and source.wanted:
                raise BadInput(f"{wish.source} and --file {wish.file}: name the file in one of the two ways")
            choice = HubSource(repo=source.repo, wanted=source.wanted or wish.file)
            pieces = find_on_hub(choice, wish.revision, environment, tries, listener)
    names = target_names([piece.target for piece in pieces], wish.name)
    if sha256 and len(pieces) > 1:
        raise BadInput(f"--sha256 is for one file, and {names[0]} comes in {len(pieces)} parts; leave it out")
    for piece in pieces:
        if sha256 and piece.sha256 not in ("", sha256):
            raise PullFailed(
                f"{piece.target}: the hub names SHA-256 {piece.sha256}, wanted is {sha256}; nothing was fetched"
            )
    return [_named(pieces[index], name, sha256) for index, name in enumerate(names)]


def _named(piece: Local | Remote, name: str, sha256: str) -> Local | Remote:
    if isinstance(piece, Local):
        return msgspec.structs.replace(piece, target=name, sha256=sha256)
    return msgspec.structs.replace(piece, target=name, sha256=sha256 or piece.sha256)


def _local_pieces(path: Path) -> list[Local]:
    pieces = [Local(target=name, path=path.with_name(name)) for name in part_names(path.name)]
    for piece in pieces:
        if not piece.path.is_file():
            raise BadInput(f"{piece.path}: not found, and {path.name} is one of its parts; bring all parts together")
    return pieces


def _web_pieces(url: str, name: str) -> list[Remote]:
    own = name_in_address(url)
    if not own.lower().endswith(".gguf") and not name:
        raise BadInput(f"{shown(url)}: does not end with the name of a GGUF; give --as NAME")
    parts = part_names(own)
    if len(parts) == 1:
        return [Remote(target=own, url=url)]
    address = urlsplit(url)
    folder = address.path.rpartition("/")[0]
    return [Remote(target=part, url=address._replace(path=f"{folder}/{quote(part)}").geturl()) for part in parts]


def _missing_bytes(pieces: Sequence[Local | Remote], folder: Path) -> int:
    """What is still to come of all parts whose size is promised."""
    missing = 0
    for piece in pieces:
        if isinstance(piece, Remote) and piece.size > 0 and not (folder / piece.target).exists():
            part = folder / f"{piece.target}.part"
            missing += max(0, piece.size - (part.stat().st_size if part.exists() else 0))
    return missing


def _bring(piece: Local | Remote, folder: Path, force: bool, tries: Tries, listener: Listener) -> PulledFile:
    target = folder / piece.target
    old = file_sha256(target) if target.exists() else ""
    if isinstance(piece, Local):
        return _bring_local(piece, target, old, force, listener)
    return _bring_remote(piece, target, old, force, tries, listener)


def _bring_local(local: Local, target: Path, old: str, force: bool, listener: Listener) -> PulledFile:
    if old and target.samefile(local.path) and local.sha256 in ("", old):
        return _file(target, old, "present")
    passing = target.with_name(target.name + ".copy")
    passing.unlink(missing_ok=True)
    try:
        how = _link_or_copy(local.path, passing)
        listener.show(target.name, 0, passing.stat().st_size)
        digest = file_sha256(passing, fresh=True)
        if local.sha256 not in ("", digest):
            raise PullFailed(f"{local.path}: has SHA-256 {digest}, wanted is {local.sha256}; check which is right")
        if digest != old:
            _refuse_unless(force, target, old, f"{local.path} is another file")
            check_model(passing, target.name)
            _take_name(passing, target, old, digest, listener)
    except DamagedGguf as damage:
        raise PullFailed(f"{local.path}: {damage}; replace it with a complete GGUF") from damage
    finally:
        passing.unlink(missing_ok=True)
        stamp_path(passing).unlink(missing_ok=True)
    _note(target, str(local.path.resolve()), digest)
    return _file(target, digest, "present" if digest == old else how)


def _link_or_copy(source: Path, passing: Path) -> str:
    """The file under a passing name in the models folder: "linked" or "copied". The source stays as it is."""
    try:
        source.open("rb").close()
    except OSError as error:
        raise BadInput(f"{source}: cannot be read ({error.strerror}); check that it is a file you may read") from error
    with contextlib.suppress(OSError):
        os.link(source.resolve(), passing)
        return "linked"
    check_space(passing.parent, source.stat().st_size)
    with writing(passing):
        shutil.copyfile(source, passing)
    return "copied"


def _bring_remote(remote: Remote, target: Path, old: str, force: bool, tries: Tries, listener: Listener) -> PulledFile:
    origin = _origin(target)
    if old and (remote.sha256 == old or (not force and not remote.sha256 and origin == (identity(remote.url), old))):
        return _file(target, old, "present")
    promised = f"SHA-256 {remote.sha256}" if remote.sha256 else "may be another file"
    _refuse_unless(force, target, old, f"{shown(remote.url)}: {promised}")
    with contextlib.closing(Part(target, remote)) as part, _keeping(part, listener):
        digest = download(remote, part, tries, listener)
        how = "resumed" if part.kept else "downloaded"
        if digest != old:
            with _deleting_wrong(part, remote, target):
                if remote.sha256 not in ("", digest):
                    raise DamagedGguf(f"arrived with SHA-256 {digest}, promised is {remote.sha256}")
                check_model(part.path, target.name)
            _take_name(part.path, target, old, digest, listener)
    _note(target, identity(remote.url), digest)
    return _file(target, digest, "present" if digest == old else how)


@contextlib.contextmanager
def _keeping(part: Part, listener: Listener) -> Iterator[None]:
    """Tell what is kept of a download that was interrupted."""
    try:
        yield
    except (KeyboardInterrupt, GaiadError):
        if part.path.exists() and part.size:
            listener.say(f"{part.size:,} bytes are kept in {part.path}; the same command continues from there")
        raise


@contextlib.contextmanager
def _deleting_wrong(part: Part, remote: Remote, target: Path) -> Iterator[None]:
    try:
        yield
    except DamagedGguf as damage:
        part.path.unlink()
        kept = f"{target.name} is unchanged" if target.exists() else "the download was deleted"
        raise PullFailed(f"{shown(remote.url)}: {damage}; {kept}; try again, or check the source") from damage


def check_model(path: Path, name: str) -> None:
    """Raises DamagedGguf unless the file is a complete GGUF; `name` tells which part of a model it is."""
    shard = shard_of(name)
    if shard is not None and _check_shard(path, shard.number, shard.count):
        return
    try:
        read_info(path)
    except BadInput as error:
        raise DamagedGguf(
            error.message.removeprefix(f"{path}: ").removesuffix("; replace it with a complete GGUF")
        ) from error
    finally:
        stamp_path(path).unlink(missing_ok=True)


def _check_shard(path: Path, number: int, count: int) -> bool:
    """Whether the header says only which part the file is. Raises DamagedGguf when it is another part."""
    size = path.stat().st_size
    with path.open("rb") as file:
        tensors, keys = read_counts(file, size)
        found = read_metadata(file, keys, size, before_vocabulary=False)
    if found.get("split.no") != number - 1 or found.get("split.count") != count:
        raise DamagedGguf(f"its header says part {found.get('split.no')} (from 0) of {found.get('split.count')}")
    return number > 1 or tensors == 0


def _refuse_unless(force: bool, target: Path, old: str, why: str) -> None:
    if old and not force:
        raise Conflict(
            f"{target}: exists already with SHA-256 {old}; {why}; choose --as NAME, or --force to let the new file"
            " have the name (the old one stays under another)"
        )


def _take_name(path: Path, target: Path, old: str, digest: str, listener: Listener) -> None:
    """The checked file gets its name, at once and with its hash noted; an old one keeps its bytes under another."""
    if old:
        aside = target.with_name(f"{target.stem}.{old[:12]}.gguf")
        if aside.exists() and file_sha256(aside) != old:
            raise Conflict(f"{aside}: exists, so the old file cannot be kept as {target.name}; move it away")
        with writing(aside):
            target.replace(aside)
        listener.say(f"the old {target.name} is now {aside}")
    with writing(target):
        path.replace(target)
    about = target.stat()
    write_stamp(target, HashStamp(size=about.st_size, modified_ns=about.st_mtime_ns, sha256=digest))


def _origin_path(target: Path) -> Path:
    return target.with_name(target.name + ".source.json")


def _origin(target: Path) -> tuple[str, str]:
    """Address and hash of the stored file; empty without a readable note."""
    try:
        note = msgspec.json.decode(_origin_path(target).read_bytes(), type=_Origin)
    except (OSError, msgspec.DecodeError):
        return "", ""
    return note.address, note.sha256


def _note(target: Path, address: str, sha256: str) -> None:
    with writing(_origin_path(target)):
        _origin_path(target).write_bytes(msgspec.json.encode(_Origin(address=address, sha256=sha256)))


def _file(target: Path, digest: str, how: str) -> PulledFile:
    return PulledFile(path=str(target), sha256=digest, bytes=target.stat().st_size, how=how)
