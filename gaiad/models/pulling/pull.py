"""`gaiad models pull`: brings a GGUF from a path, an address or the hub into the user's models folder.

Here stands what is wanted and which files that means; bring.py brings each of them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote, urlsplit

import msgspec

from gaiad.errors import BadInput
from gaiad.models.provision import models_folder
from gaiad.models.pulling.answer import shown
from gaiad.models.pulling.bring import Local, PulledFile, bring
from gaiad.models.pulling.file import check_space
from gaiad.models.pulling.hub import find_on_hub
from gaiad.models.pulling.part import part_path, unwritable
from gaiad.models.pulling.source import (
    FileSource,
    HubSource,
    WebSource,
    model_name,
    name_in_address,
    parse_sha256,
    parse_source,
    part_names,
    target_names,
)
from gaiad.models.pulling.tries import Listener, PullFailed, Tries
from gaiad.models.pulling.url import Remote

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
