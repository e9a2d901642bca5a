"""The owner's Ed25519 keys (decision 14): the trust root `identity.pub` and its private half.

Both lie in the user's config folder, in PEM as openssl writes it. The private half is needed to sign and for nothing
else; it may be moved offline. A public key that others could change would be no trust root, so wrong modes and owners
are refused. A home keeps the identity they signed as `<home>/identity/identity.toml` with the signatures beside it; the
signature before the last is kept too, so that text and signatures fit each other at every moment of a change.
"""

import base64
import binascii
import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from gaiad.base.errors import BadInput, Conflict, NotFound
from gaiad.base.home import replace_file

PUBLIC_NAME = "identity.pub"
PRIVATE_NAME = "identity.key"
KEY_BYTES = 32
_MOST_FILE_BYTES = 4_096
_PUBLIC_DER = bytes.fromhex("302a300506032b6570032100")  # RFC 8410: what is before the 32 bytes of a key
_PRIVATE_DER = bytes.fromhex("302e020100300506032b657004220420")


class PublicKey(msgspec.Struct, frozen=True):
    """32 bytes of an Ed25519 public key."""

    raw: bytes

    @property
    def key_id(self) -> str:
        """16 hexadecimal digits that name the key for people."""
        return hashlib.sha256(self.raw).hexdigest()[:16]

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Whether `signature` is this key's for `message`."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except InvalidSignature:
            return False
        return True


class PrivateKey(msgspec.Struct, frozen=True):
    """The 32 secret bytes of an Ed25519 key; never shown."""

    secret: bytes

    def __repr__(self) -> str:
        return f"PrivateKey({self.public().key_id})"

    def public(self) -> PublicKey:
        """Its public half."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return PublicKey(Ed25519PrivateKey.from_private_bytes(self.secret).public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        """64 bytes."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.from_private_bytes(self.secret).sign(message)


class KeyFolder(msgspec.Struct, frozen=True):
    """Where both halves lie."""

    path: Path

    @property
    def public(self) -> Path:
        return self.path / PUBLIC_NAME

    @property
    def private(self) -> Path:
        return self.path / PRIVATE_NAME


def owner_folder(environment: Mapping[str, str]) -> KeyFolder:
    """gaiad's folder among the user's settings: $XDG_CONFIG_HOME/gaiad, else ~/.config/gaiad."""
    base = environment.get("XDG_CONFIG_HOME") or str(Path(environment.get("HOME", "~")).expanduser() / ".config")
    return KeyFolder(Path(base) / "gaiad")


def read_public(path: Path) -> PublicKey | None:
    """The trust root; None when there is none. Raises Conflict when others could have changed it or it is not a key."""
    try:
        content, status = _read(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Conflict(f"{path}: cannot be read ({error.strerror}); fix this") from error
    if status.st_uid not in (os.getuid(), 0):
        raise Conflict(f"{path}: belongs to uid {status.st_uid}; it must belong to you or root: chown it")
    if status.st_mode & 0o022:
        raise Conflict(
            f"{path}: other users can write to it (mode {stat.S_IMODE(status.st_mode):04o}); chmod 644 {path}"
        )
    raw = _unwrapped(content, "PUBLIC KEY", _PUBLIC_DER)
    if raw is None:
        raise Conflict(f"{path}: is not an Ed25519 public key in PEM; restore it from a backup")
    return PublicKey(raw)


def read_private(path: Path) -> PrivateKey:
    """A private key. Raises NotFound without one, BadInput when others may read it or it is not a plain Ed25519 key."""
    try:
        content, status = _read(path)
    except FileNotFoundError as error:
        raise NotFound(f"{path}: no private key found; name its file with --key") from error
    except OSError as error:
        raise BadInput(
            f"{path}: cannot be read ({error.strerror}); fix this or give another file with --key"
        ) from error
    if status.st_mode & 0o077:
        raise BadInput(f"{path}: other users can read it (mode {stat.S_IMODE(status.st_mode):04o}); chmod 600 {path}")
    secret = _unwrapped(content, "PRIVATE KEY", _PRIVATE_DER)
    if secret is None:
        raise BadInput(
            f"{path}: is not an Ed25519 private key in PEM without a passphrase; `openssl pkey -in {path}` removes it"
        )
    return PrivateKey(secret)


def ensure_keys(folder: KeyFolder) -> tuple[PublicKey, bool]:
    """The trust root, and whether the pair was made just now. Many may ask at once; all get the same.

    A private half without its public one, as a kill leaves it, gets it again. Raises Conflict when nothing can be
    written there.
    """
    with _alone(folder.path):
        public = read_public(folder.public)
        if public is not None:
            return public, False
        made = not folder.private.exists()
        if made:
            replace_file(folder.private, _wrapped(_generate(), "PRIVATE KEY", _PRIVATE_DER), 0o600)
        public = read_private(folder.private).public()
        replace_file(folder.public, _wrapped(public.raw, "PUBLIC KEY", _PUBLIC_DER), 0o644)
        return public, made


def trust(folder: KeyFolder, public: PublicKey) -> None:
    """Make `public` the trust root where there is none. Raises Conflict when there is another."""
    with _alone(folder.path):
        found = read_public(folder.public)
        if found is None:
            replace_file(folder.public, _wrapped(public.raw, "PUBLIC KEY", _PUBLIC_DER), 0o644)
        elif found != public:
            raise Conflict(
                f"{folder.public} is the key {found.key_id}, and you gave {public.key_id}; move the file away to trust"
                " the other"
            )


def _generate() -> bytes:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.generate().private_bytes_raw()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Make the folder and hold it, so that two first starts do not make two keys."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise Conflict(
            f"{folder}: cannot be used ({error.strerror}); the owner's key is kept there; fix this"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    except OSError as error:
        raise Conflict(f"{folder}: a key cannot be written ({error.strerror}); fix this, then try again") from error
    finally:
        os.close(descriptor)


def _read(path: Path) -> tuple[bytes, os.stat_result]:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(_MOST_FILE_BYTES), os.fstat(descriptor)


def _wrapped(raw: bytes, label: str, der: bytes) -> bytes:
    body = base64.b64encode(der + raw).decode("ascii")
    return f"-----BEGIN {label}-----\n{body}\n-----END {label}-----\n".encode("ascii")


def _unwrapped(content: bytes, label: str, der: bytes) -> bytes | None:
    text = content.decode("ascii", "replace").strip()
    begin, end = f"-----BEGIN {label}-----", f"-----END {label}-----"
    if not (text.startswith(begin) and text.endswith(end)):
        return None
    try:
        found = base64.b64decode("".join(text[len(begin) : -len(end)].split()), validate=True)
    except (binascii.Error, ValueError):
        return None
    return found[len(der) :] if found.startswith(der) and len(found) == len(der) + KEY_BYTES else None


FOLDER = "identity"
TEXT_NAME = "identity.toml"
SIGNATURES_NAME = "identity.sig"
_KEPT_SIGNATURES = 2
_MOST_IDENTITY_BYTES = 65_536
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
        return _read_identity(self.text)

    def read_signatures(self) -> tuple[Signature, ...]:
        """The newest first; none where there is no such file or it cannot be understood. Raises Conflict."""
        content = _read_identity(self.signatures)
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


def _read_identity(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_IDENTITY_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Conflict(f"{path}: cannot be read ({error.strerror}); fix this") from error
    if len(content) > _MOST_IDENTITY_BYTES:
        raise Conflict(f"{path}: is larger than {_MOST_IDENTITY_BYTES} bytes, so it is not an identity; move it away")
    return content
