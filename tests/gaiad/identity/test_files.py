"""An identity and its signatures on disk: they fit each other at every moment, and nothing replaced is lost."""

import stat
from pathlib import Path

import pytest

from gaiad.base.errors import Conflict
from gaiad.identity import keys as identity_files
from gaiad.identity.keys import IdentityFiles, PrivateKey, Signature, is_signed, sign_identity

KEY, OTHER = PrivateKey(b"a" * 32), PrivateKey(b"b" * 32)


def fits(files: IdentityFiles) -> bool:
    content = files.read_text()
    return content is not None and is_signed(content, files.read_signatures(), KEY.public()) is not None


def test_what_was_put_is_read_with_its_signature(tmp_path: Path) -> None:
    files = IdentityFiles(tmp_path)
    assert (files.read_text(), files.read_signatures()) == (None, ())
    files.put(b"one", sign_identity(KEY, b"one"))
    assert fits(files)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (files.folder, files.text, files.signatures)]
    assert modes == [0o700, 0o600, 0o600]


def test_a_signature_of_another_key_or_text_is_none() -> None:
    signed = sign_identity(KEY, b"one")
    assert is_signed(b"one", (signed,), KEY.public()) == signed
    assert is_signed(b"two", (signed,), KEY.public()) is None
    assert is_signed(b"one", (signed,), OTHER.public()) is None
    assert is_signed(b"one", (Signature("x", "?"), Signature("x", ""), signed), KEY.public()) == signed


def test_a_signature_for_other_purposes_does_not_fit() -> None:
    import base64

    bare = Signature(KEY.public().key_id, base64.b64encode(KEY.sign(b"one")).decode())
    assert is_signed(b"one", (bare,), KEY.public()) is None


@pytest.mark.parametrize("writes", [0, 1, 2])
def test_a_kill_between_any_two_writes_leaves_a_signed_identity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    files = IdentityFiles(tmp_path)
    files.put(b"one", sign_identity(KEY, b"one"))
    real, done = identity_files.replace_file, []

    def killed(path: Path, content: bytes, mode: int = 0o644) -> None:
        if len(done) == writes:
            raise KeyboardInterrupt
        done.append(path)
        real(path, content, mode)

    monkeypatch.setattr(identity_files, "replace_file", killed)
    with pytest.raises(KeyboardInterrupt):
        files.put(b"two", sign_identity(KEY, b"two"))
    assert files.read_text() == b"one"
    assert fits(files)


def test_what_was_replaced_is_kept(tmp_path: Path) -> None:
    files = IdentityFiles(tmp_path)
    files.put(b"one", sign_identity(KEY, b"one"))
    files.text.write_bytes(b"edited")
    files.put(b"two", sign_identity(KEY, b"two"))
    assert (files.folder / "identity.toml.replaced").read_bytes() == b"edited"
    assert fits(files)


def test_signatures_that_cannot_be_understood_are_none(tmp_path: Path) -> None:
    files = IdentityFiles(tmp_path)
    files.put(b"one", sign_identity(KEY, b"one"))
    for content in (b"", b"{}", b"\xff", b'[{"key_id":1,"signature":2}]'):
        files.signatures.write_bytes(content)
        assert files.read_signatures() == ()


def test_a_file_that_is_no_file_says_so(tmp_path: Path) -> None:
    files = IdentityFiles(tmp_path)
    files.text.mkdir(parents=True)
    with pytest.raises(Conflict, match="cannot be read"):
        files.read_text()
    files.text.rmdir()
    files.text.write_bytes(b"x" * 70_000)
    with pytest.raises(Conflict, match="larger than"):
        files.read_text()
