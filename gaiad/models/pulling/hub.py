"""Finds a model on the hub: which files a name means, where they are, how large, and with which SHA-256.

huggingface_hub lives here: its names, its listing, the user's own login, HF_ENDPOINT. The bytes come through
`download`, because the library throws an interrupted download away. No telemetry is sent.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from gaiad.base.errors import BadInput, Forbidden, NotFound, Unavailable
from gaiad.models.pulling.download import (
    Listener,
    PullFailed,
    Remote,
    Transient,
    Tries,
    persist,
    proxy_from_environment,
    status_error,
    translated,
)
from gaiad.models.pulling.source import HubSource, part_names

_LISTED = 16
_NO_MODEL = re.compile(r"(^|[-._/])(mmproj|imatrix)([-._/]|$)", re.IGNORECASE)
_LOGIN = "if it is private or gated, get access on its page and log in with `hf auth login` (or set HF_TOKEN)"


class HubFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a repository: path in it, bytes (-1: unknown), SHA-256 in hex ("" when it is not a large file)."""

    path: str
    size: int
    sha256: str


def find_on_hub(
    source: HubSource, revision: str, environment: Mapping[str, str], tries: Tries, listener: Listener
) -> list[Remote]:
    """The files of the one model that `source` means, in order, pinned to the commit the revision is now.

    Raises NotFound, Forbidden, Unavailable, DeadlineExceeded, BadInput (several models: it lists them), PullFailed.
    """
    endpoint = environment.get("HF_ENDPOINT", "")
    return persist(lambda: _find(source, revision, endpoint, tries), tries, listener)


def choose(files: Sequence[HubFile], source: HubSource) -> list[HubFile]:
    """The parts of the one model that is meant. Raises NotFound and BadInput with what there is to choose from."""
    models = {part_names(file.path)[0]: file for file in files if file.path.lower().endswith(".gguf")}
    if not models:
        raise NotFound(f"{source.repo}: contains no GGUF; look for one of the same model whose name ends with -GGUF")
    if source.wanted:
        fitting = [path for path in models if _fits(path, source.wanted)]
    else:
        fitting = [path for path in models if not _NO_MODEL.search(path)]
    if len(fitting) != 1:
        found = f"{len(fitting)} models fit" if fitting else "no model fits"
        raise BadInput(
            f"{source.repo}{':' if source.wanted else ''}{source.wanted}: {found}; choose one with"
            f" {source.repo}:FILE or a part of its name such as Q4_K_M: {_listing(fitting or list(models), files)}"
        )
    by_path = {file.path: file for file in files}
    parts = part_names(fitting[0])
    if missing := [part for part in parts if part not in by_path]:
        raise NotFound(
            f"{source.repo}: {fitting[0]} has {len(parts)} parts, but {missing[0]} is missing; ask the"
            " repository's owner"
        )
    return [by_path[part] for part in parts]


def _fits(path: str, wanted: str) -> bool:
    """Whether a file is meant: by its path or name, by a pattern with * or ?, or by words of its name (Q4_K_M)."""
    low, word = path.lower(), wanted.lower()
    name = low.rpartition("/")[2]
    if word in (low, name) or word in (part.lower() for part in part_names(path)):
        return True
    if any(sign in word for sign in "*?["):
        return fnmatchcase(low, word) or fnmatchcase(name, word)
    return bool(re.search(rf"(^|[-._/]){re.escape(word.removesuffix('.gguf'))}([-./]|$)", low))


def _listing(paths: Sequence[str], files: Sequence[HubFile]) -> str:
    sizes = {file.path: file.size for file in files}
    lines = [f"{path} ({_size(sum(sizes.get(part, 0) for part in part_names(path)))})" for path in sorted(paths)]
    more = f" and {len(lines) - _LISTED} more" if len(lines) > _LISTED else ""
    return ", ".join(lines[:_LISTED]) + more


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"


def _find(source: HubSource, revision: str, endpoint: str, tries: Tries) -> list[Remote]:
    with _library(source, revision) as library:
        api = library.HfApi(endpoint=endpoint or None, library_name="gaiad")
        found = api.model_info(source.repo, revision=revision or None, files_metadata=True, timeout=tries.silence_s)
        files = [
            HubFile(
                path=file.rfilename,
                size=file.size if file.size is not None else -1,
                sha256=file.lfs.sha256.lower() if file.lfs else "",
            )
            for file in found.siblings or []
        ]
        headers = library.utils.build_hf_headers(library_name="gaiad")
        return [
            Remote(
                target=file.path.rpartition("/")[2],
                url=library.hf_hub_url(source.repo, file.path, revision=found.sha, endpoint=api.endpoint),
                headers=headers,
                sha256=file.sha256,
                size=file.size,
                hint=_LOGIN,
            )
            for file in choose(files, source)
        ]


@contextmanager
def _library(source: HubSource, revision: str) -> Iterator[Any]:
    """huggingface_hub for one request: without telemetry, its errors translated, its connections closed."""
    import huggingface_hub  # half a second, needed for hub names only
    from huggingface_hub import constants, errors

    constants.HF_HUB_DISABLE_TELEMETRY = True
    with proxy_from_environment():
        huggingface_hub.get_session()
    try:
        with translated(f"{source.repo} on the hub"):
            yield huggingface_hub
    except errors.GatedRepoError as error:
        raise Forbidden(f"{source.repo}: is gated; accept its terms on its page, then `hf auth login`") from error
    except errors.RevisionNotFoundError as error:
        raise NotFound(f"{source.repo}: has no revision {revision!r}; write a branch, a tag or a commit") from error
    except errors.RepositoryNotFoundError as error:
        raise NotFound(f"{source.repo}: the hub has no such model; check the name; {_LOGIN}") from error
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        refusal = status_error(status, f"{source.repo} on the hub", _LOGIN)
        raise (Transient(refusal) if status >= 429 else refusal) from error
    except errors.OfflineModeIsEnabled as error:
        raise Unavailable(f"{source.repo}: HF_HUB_OFFLINE is set; unset it to pull from the hub") from error
    except errors.HFValidationError as error:
        raise BadInput(f"{source.repo}: is not a hub name ({error}); write owner/repo") from error
    except (ValueError, TypeError, KeyError) as error:
        raise PullFailed(f"{source.repo}: the server there is not a hub ({error}); check HF_ENDPOINT") from error
    finally:
        huggingface_hub.close_session()
