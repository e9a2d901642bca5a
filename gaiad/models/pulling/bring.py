"""Brings one file into the models folder: wait for nobody, fetch or link, check, then let it take its name.

A file takes its name only when it is whole, its SHA-256 is the promised one and its head is a model's. What is stored
is never lost; what is unfinished stays for the next try; what is wrong stays as .bad until the next wrong one.
"""

from pathlib import Path

import msgspec

from gaiad.errors import Conflict, GaiadError
from gaiad.models.gguf.fingerprint import file_sha256
from gaiad.models.gguf.gguf_header import Damaged
from gaiad.models.pulling.answer import identity, shown
from gaiad.models.pulling.file import alone, bring_in, check_model, hash_file, keep_aside, set_aside_bad, take_name
from gaiad.models.pulling.part import Note, Part, read_note, source_path, write_note
from gaiad.models.pulling.tries import Listener, PullFailed, Tries
from gaiad.models.pulling.url import Remote, download, look


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
    except Damaged as damage:
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
        promised = f"SHA-256 {remote.sha256}" if remote.sha256 else "cannot be told to be the same"
        _refuse_unless(force, target, old, f"{shown(remote.url)}: {promised}")
    part = Part(target)
    try:
        digest = _download(remote, part, tries, listener)
    except (KeyboardInterrupt, GaiadError):
        if kept := part.stored_bytes():
            listener.say(f"{kept:,} bytes are kept in {part.path}; the same command goes on from there")
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
            f" what came is {bad} (delete it); try again, or ask for the right hash"
        )
    else:
        try:
            check_model(part.path, target.name, digest)
        except Damaged as damage:
            bad = _set_aside(part, target)
            raise PullFailed(
                f"{address}: {damage}; {target.name} was not touched, what came is {bad} (delete it)"
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
