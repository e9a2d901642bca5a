"""The signed identity as a home keeps it: `<home>/identity/identity.toml` and the signatures beside it.

What the text says is `prompts.identity`'s business; here it is bytes and who signed them. The signature before the
last is kept too, so that text and signatures fit each other at every moment of a change.
"""

import base64
import binascii
from pathlib import Path

import msgspec

from gaiad.base.errors import Conflict
from gaiad.base.home import replace_file
from gaiad.identity.keys import PrivateKey, PublicKey

FOLDER = "identity"
TEXT_NAME = "identity.toml"
SIGNATURES_NAME = "identity.sig"
_KEPT_SIGNATURES = 2
_MOST_FILE_BYTES = 65_536
_SIGNED_AS = b"gaiad identity 1\n"  # so that a signature made for something else never fits


class Signature(msgspec.Struct, frozen=True):
    """Ed25519 in base 64 over `gaiad identity 1`, a line break and the identity's canonical bytes."""

    key_id: str
    signature: str


def sign_identity(key: PrivateKey, content: bytes) -> Signature:
    """The key's signature for the canonical bytes of an identity."""
    signature = key.sign(_SIGNED_AS + content)
    return Signature(key.public().key_id, base64.b64encode(signature).decode("ascii"))


def is_signed(content: bytes, signatures: tuple[Signature, ...], key: PublicKey) -> Signature | None:
    """The signature among these that is the key's for the canonical bytes of an identity."""
    for each in signatures:
        try:
            raw = base64.b64decode(each.signature, validate=True)
        except (binascii.Error, ValueError):
            continue
        if key.verifies(raw, _SIGNED_AS + content):
            return each
    return None


class IdentityFiles:
    """The files of one home."""

    def __init__(self, home: Path) -> None:
        self.folder = home / FOLDER
        self.text = self.folder / TEXT_NAME
        self.signatures = self.folder / SIGNATURES_NAME

    def read_text(self) -> bytes | None:
        """The identity's file as it is; None without one. Raises Conflict."""
        return _read(self.text)

    def read_signatures(self) -> tuple[Signature, ...]:
        """The newest first; none where there is no such file or it cannot be understood. Raises Conflict."""
        content = _read(self.signatures)
        try:
            return msgspec.json.decode(content or b"[]", type=tuple[Signature, ...])
        except (msgspec.DecodeError, UnicodeDecodeError):
            return ()

    def put(self, content: bytes, signature: Signature) -> None:
        """Put a signed identity in place, its signature first. What stood there is kept as `identity.toml.replaced`.

        Raises Conflict when it cannot be written.
        """
        before = self.read_text()
        older = tuple(each for each in self.read_signatures() if each != signature)
        signatures = msgspec.json.format(msgspec.json.encode((signature, *older)[:_KEPT_SIGNATURES])) + b"\n"
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_file(self.signatures, signatures)
            if before is not None and before != content:
                replace_file(self.text.with_name(f"{TEXT_NAME}.replaced"), before)
            replace_file(self.text, content)
        except OSError as error:
            raise Conflict(f"{self.folder}: cannot be written ({error.strerror}); fix this, then try again") from error


def _read(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_FILE_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Conflict(f"{path}: cannot be read ({error.strerror}); fix this") from error
    if len(content) > _MOST_FILE_BYTES:
        raise Conflict(f"{path}: is larger than {_MOST_FILE_BYTES} bytes, so it cannot be an identity; move it away")
    return content
