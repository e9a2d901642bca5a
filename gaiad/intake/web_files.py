"""The page's files as they lie in the package: found by a name that cannot lead elsewhere, kept by their ETag.

They hold nothing of anybody's, so they are served to whoever asks; what they show comes over the API.
"""

import re
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from aiohttp import web

from gaiad.errors import NotFound

_NAME = re.compile(r"(?:[a-z0-9][a-z0-9_-]*/)*[a-z0-9][a-z0-9_-]*\.([a-z0-9]+)")
_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "ico": "image/x-icon",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "png": "image/png",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
    "webmanifest": "application/manifest+json",
    "woff2": "font/woff2",
}
PAGE = "index.html"


class _File(NamedTuple):
    changed_ns: int
    content: bytes
    tag: str


class PageFiles:
    """The files below `folder`; each is read once, and again when it changes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, _File] = {}

    @property
    def complete(self) -> bool:
        """Whether there is a page to serve at all."""
        return (self._folder / PAGE).is_file()

    def answer(self, name: str, request: web.Request) -> web.Response:
        """The file, or 304 when the browser has it as it is. Raises NotFound for any name that is not one of them."""
        matched = _NAME.fullmatch(name)
        media_type = _TYPES.get(matched[1]) if matched else None
        if media_type is None:
            raise NotFound(f"{request.path}: the page has no such file")
        file = self._file(name)
        headers = {"ETag": f'"{file.tag}"', "Cache-Control": "no-cache"}
        known = request.if_none_match or ()
        if any(tag.value in (file.tag, "*") for tag in known):
            return web.Response(status=304, headers=headers)
        return web.Response(body=file.content, headers={**headers, "Content-Type": media_type})

    def _file(self, name: str) -> _File:
        path = self._folder / name
        try:
            changed_ns = path.stat().st_mtime_ns
            found = self._read.get(name)
            if found is None or found.changed_ns != changed_ns:
                content = path.read_bytes()
                found = self._read[name] = _File(changed_ns, content, sha256(content).hexdigest()[:32])
        except OSError as error:
            raise NotFound(f"{name}: the page has no such file ({error.strerror})") from error
        return found
