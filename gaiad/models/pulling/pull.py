"""`gaiad models pull`: brings a GGUF from a path, an address or the hub into the models folder of the user.

A file takes its name only when it is whole, its SHA-256 is the promised one and its head is that of a model. What is
stored is never lost; what is unfinished stays for the next try; what is wrong stays as .bad until the next wrong one.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote, urlsplit

import msgspec

from gaiad.base.errors import BadInput, Conflict, GaiadError
from gaiad.models.gguf.gguf_header import DamagedGguf, file_sha256
from gaiad.models.provision import models_folder
from gaiad.models.pulling.download import Remote, download, look
from gaiad.models.pulling.files import (
    Note,
    Part,
    alone,
    bring_in,
    check_model,
    check_space,
    hash_file,
    keep_aside,
    part_path,
    read_note,
    set_aside_bad,
    source_path,
    take_name,
    unwritable,
    write_note,
)
from gaiad.models.pulling.http import (
    FileSource,
    HubSource,
    Listener,
    PullFailed,
    Tries,
    WebSource,
    identity,
    model_name,
    name_in_address,
    parse_sha256,
    parse_source,
    part_names,
    shown,
    target_names,
)
from gaiad.models.pulling.hub import find_on_hub


class Local(msgspec.Struct, frozen=True, kw_only=True):
    """A file of this machine to bring in as `target`."""

    target: str
    path: Path
    sha256: str = ""


class PulledFile(msgspec.Struct, frozen=True, kw_only=True):
    """`how`: downloaded, continued, copied, linked, or present when it was here already."""

    path: str
    sha256: str
    bytes: int
    how: str


def bring(piece: Local | Remote, folder: Path, force: bool, tries: Tries, listener: Listener) -> PulledFile:
    """The file in its place. Raises GaiadErrors with a remedy; at a KeyboardInterrupt too, what is kept is said."""
    target = folder / piece.target
    with alone(target):
        if isinstance(piece, Local):
            return _bring_local(piece, target, force, listener)
        return _bring_remote(piece, target, force, tries, listener)


def _bring_local(local: Local, target: Path, force: bool, listener: Listener) -> PulledFile:
    old = _stored(target)
    if old:
        same = target.samefile(local.path) or hash_file(local.path, target.name, listener) == old
        if same and local.sha256 in ("", old):
            return _file(target, old, "present")
        _refuse_unless(force, target, old, f"{local.path} is another file")
    passing, digest, how = bring_in(local.path, target, listener)
    try:
        if local.sha256 and digest != local.sha256:
            raise PullFailed(f"{local.path}: has SHA-256 {digest}, wanted is {local.sha256}; check which is right")
        check_model(passing, target.name, digest)
        _take_over(passing, target, old, digest, listener)
    except DamagedGguf as damage:
        raise PullFailed(f"{local.path}: {damage}; replace it with a complete GGUF") from damage
    finally:
        passing.unlink(missing_ok=True)
    write_note(source_path(target), Note(address=str(local.path.resolve()), sha256=digest, size=target.stat().st_size))
    return _file(target, digest, how)


def _bring_remote(remote: Remote, target: Path, force: bool, tries: Tries, listener: Listener) -> PulledFile:
    old = _stored(target)
    if old and _is_it(remote, target, old, tries, listener):
        return _file(target, old, "present")
    if old:
        promised = f"SHA-256 {remote.sha256}" if remote.sha256 else "may be another file"
        _refuse_unless(force, target, old, f"{shown(remote.url)}: {promised}")
    part = Part(target)
    try:
        digest = _download(remote, part, tries, listener)
    except (KeyboardInterrupt, GaiadError):
        if kept := part.stored_bytes():
            listener.say(f"{kept:,} bytes are kept in {part.path}; the same command continues from there")
        raise
    finally:
        part.close()
    return _settle(remote, part, target, old, digest, listener)


def _download(remote: Remote, part: Part, tries: Tries, listener: Listener) -> str:
    """The whole file; when pieces of several tries make a wrong one, once more from the start."""
    label = f"{remote.target}, looking at what is here"
    if not part.go_on(identity(remote.url), remote.sha256, lambda done, total: listener.show(label, done, total)):
        listener.say(f"{part.path}: was unfinished and of something else; starting from the beginning")
    digest = download(remote, part, tries, listener)
    promised = _promised(remote, part)
    if promised and digest != promised and part.spliced:
        listener.say(f"{shown(remote.url)}: the pieces do not make the promised file; starting again")
        part.forget()
        digest = download(remote, part, tries, listener)
    return digest


def _settle(remote: Remote, part: Part, target: Path, old: str, digest: str, listener: Listener) -> PulledFile:
    """Check what came and let it take its name."""
    address, promised = shown(remote.url), _promised(remote, part)
    note, how = part.note or Note(address=identity(remote.url)), "continued" if part.kept else "downloaded"
    if digest == old:
        part.remove()
        how = "present"
    elif promised and digest != promised:
        bad = _set_aside(part, target)
        raise PullFailed(
            f"{address}: arrived with SHA-256 {digest}, promised is {promised}; {target.name} was not touched,"
            f" what came is {bad} (delete it); try again, or check the hash"
        )
    else:
        try:
            check_model(part.path, target.name, digest)
        except DamagedGguf as damage:
            bad = _set_aside(part, target)
            raise PullFailed(
                f"{address}: {damage}; {target.name} was not touched, the download is in {bad} (delete it)"
            ) from damage
        _take_over(part.path, target, old, digest, listener)
        part.remove()
    size = target.stat().st_size
    write_note(source_path(target), msgspec.structs.replace(note, sha256=digest, size=size))
    return _file(target, digest, how)


def _set_aside(part: Part, target: Path) -> Path:
    bad = set_aside_bad(part.path, target)
    part.remove()
    return bad


def _promised(remote: Remote, part: Part) -> str:
    return remote.sha256 or (part.note.sha256 if part.note is not None else "")


def _is_it(remote: Remote, target: Path, old: str, tries: Tries, listener: Listener) -> bool:
    """Whether the stored file is what the address has now: by hash, else by the version noted when it was pulled."""
    if remote.sha256:
        return remote.sha256 == old
    note = read_note(source_path(target))
    if note is not None and (note.address != identity(remote.url) or note.sha256 != old):
        note = None
    answer = look(remote, note, tries, listener)
    if answer.sha256:
        return answer.sha256 == old
    if note is None:
        return False
    return answer.status == 304 or (bool(note.validator) and answer.validator == note.validator)


def _stored(target: Path) -> str:
    """SHA-256 of the file that has the name already, "" when there is none."""
    return file_sha256(target) if target.exists() else ""


def _refuse_unless(force: bool, target: Path, old: str, why: str) -> None:
    if not force:
        raise Conflict(
            f"{target}: is there already with SHA-256 {old}; {why}; choose --as NAME, or --force to let the new file"
            " have the name (the old one stays under another)"
        )


def _take_over(path: Path, target: Path, old: str, digest: str, listener: Listener) -> None:
    if old:
        listener.say(f"the old {target.name} is now {keep_aside(target, old)}")
    take_name(path, target, digest)


def _file(target: Path, digest: str, how: str) -> PulledFile:
    return PulledFile(path=str(target), sha256=digest, bytes=target.stat().st_size, how=how)


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


class Pulled(msgspec.Struct, frozen=True, kw_only=True):
    """A model that is here now. `path` and `sha256` are of its file, or of the first of its parts."""

    name: str
    path: str
    sha256: str
    bytes: int
    source: str
    files: list[PulledFile]


def pull(wish: Wish, environment: Mapping[str, str], listener: Listener, tries: Tries = _PATIENT) -> Pulled:
    """Bring the model in, or find it already here. Raises GaiadErrors with a remedy; KeyboardInterrupt passes.

    A model in parts is opened by its first one, which comes last: when it is there, all are.
    """
    folder = models_folder(environment)
    pieces = find_pieces(wish, environment, listener, tries)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from error
    check_space(folder / pieces[0].target, _missing_bytes(pieces, folder))
    later = [bring(piece, folder, wish.force, tries, listener) for piece in pieces[1:]]
    files = [bring(pieces[0], folder, wish.force, tries, listener), *later]
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
    pieces: list[Local | Remote]
    match source:
        case FileSource():
            pieces = [*_local_pieces(source.path)]
        case WebSource():
            pieces = [*_web_pieces(source.url, wish.name)]
        case HubSource():
            choice = _one_choice(source, wish.file)
            pieces = [*find_on_hub(choice, wish.revision, environment, tries, listener)]
    names = target_names([piece.target for piece in pieces], wish.name)
    if sha256 and len(pieces) > 1:
        raise BadInput(f"--sha256 is for one file, and {names[0]} comes in {len(pieces)} parts; leave it out")
    return [_wanted(pieces[index], name, sha256) for index, name in enumerate(names)]


def _local_pieces(path: Path) -> list[Local]:
    pieces = [Local(target=name, path=path.with_name(name)) for name in part_names(path.name)]
    for piece in pieces:
        if not piece.path.is_file():
            what = "is no file" if piece.path == path else f"is not there, and {path.name} is one of its parts"
            raise BadInput(f"{piece.path}: {what}; name a GGUF that is complete")
    return pieces


def _web_pieces(url: str, name: str) -> list[Remote]:
    own = name_in_address(url)
    if not own.lower().endswith(".gguf") and not name:
        raise BadInput(f"{shown(url)}: does not end with the name of a GGUF; say --as NAME")
    parts = part_names(own)
    if len(parts) == 1:
        return [Remote(target=own, url=url)]
    address = urlsplit(url)
    folder = address.path.rpartition("/")[0]
    return [Remote(target=part, url=address._replace(path=f"{folder}/{quote(part)}").geturl()) for part in parts]


def _one_choice(source: HubSource, file: str) -> HubSource:
    if file and source.wanted:
        raise BadInput(f"{source.repo}:{source.wanted} and --file {file}: name the file in one of the two ways")
    return HubSource(repo=source.repo, wanted=source.wanted or file)


def _wanted(piece: Local | Remote, name: str, sha256: str) -> Local | Remote:
    if isinstance(piece, Local):
        return msgspec.structs.replace(piece, target=name, sha256=sha256)
    if sha256 and piece.sha256 not in ("", sha256):
        raise PullFailed(
            f"{piece.target}: the hub names SHA-256 {piece.sha256}, wanted is {sha256}; nothing was fetched"
        )
    return msgspec.structs.replace(piece, target=name, sha256=sha256 or piece.sha256)


def _missing_bytes(pieces: Sequence[Local | Remote], folder: Path) -> int:
    """What is still to come of all parts whose size is promised."""
    missing = 0
    for piece in pieces:
        if isinstance(piece, Remote) and piece.size > 0 and not (folder / piece.target).exists():
            part = part_path(folder / piece.target)
            missing += max(0, piece.size - (part.stat().st_size if part.exists() else 0))
    return missing
