"""The owner's keys on disk: made once whoever asks, closed to others, refused when others could write them."""

import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaiad.base.errors import BadInput, Conflict, NotFound
from gaiad.identity.keys import (
    KeyFolder,
    PrivateKey,
    ensure_keys,
    owner_folder,
    read_private,
    read_public,
    trust,
)


@pytest.fixture
def folder(tmp_path: Path) -> KeyFolder:
    return KeyFolder(tmp_path / "config" / "gaiad")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_folder_is_that_of_the_users_settings() -> None:
    assert owner_folder({"XDG_CONFIG_HOME": "/x", "HOME": "/h"}).public == Path("/x/gaiad/identity.pub")
    assert owner_folder({"HOME": "/h"}).private == Path("/h/.config/gaiad/identity.key")


def test_a_pair_is_made_once_with_its_private_half_closed_to_others(folder: KeyFolder) -> None:
    public, made = ensure_keys(folder)
    assert made
    assert [mode(folder.path), mode(folder.private), mode(folder.public)] == [0o700, 0o600, 0o644]
    assert ensure_keys(folder) == (public, False)
    assert read_public(folder.public) == public == read_private(folder.private).public()
    assert sorted(path.name for path in folder.path.iterdir()) == ["identity.key", "identity.pub"]


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=200))
def test_a_signature_is_of_one_key_and_one_message(secret: bytes, message: bytes) -> None:
    key, other = PrivateKey(secret), PrivateKey(bytes(byte ^ 1 for byte in secret))
    signature = key.sign(message)
    assert key.public().verifies(signature, message)
    assert not key.public().verifies(signature, message + b"\0")
    assert not other.public().verifies(signature, message)
    assert not key.public().verifies(signature[:-1], message)


def test_a_known_answer_of_rfc_8032() -> None:
    key = PrivateKey(bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"))
    assert key.public().raw.hex() == "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
    assert key.sign(b"\x72").hex() == (
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    )


def test_both_halves_are_pem_as_the_library_reads_and_writes_it(folder: KeyFolder) -> None:
    from cryptography.hazmat.primitives import serialization as forms

    public, _ = ensure_keys(folder)
    loaded = forms.load_pem_private_key(folder.private.read_bytes(), None)
    plain = loaded.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption())
    assert plain == folder.private.read_bytes()
    spki = loaded.public_key().public_bytes(forms.Encoding.PEM, forms.PublicFormat.SubjectPublicKeyInfo)
    assert spki == folder.public.read_bytes()
    locked = loaded.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.BestAvailableEncryption(b"pw"))
    folder.private.write_bytes(locked)
    with pytest.raises(BadInput, match="without a passphrase"):
        read_private(folder.private)
    assert read_public(folder.public) == public


def test_a_secret_does_not_show_in_words() -> None:
    assert "abab" not in repr(PrivateKey(b"\xab" * 32)) + str(PrivateKey(b"\xab" * 32))
    assert repr(b"\xab" * 32) not in repr(PrivateKey(b"\xab" * 32))


def test_many_first_starts_at_once_make_one_key(folder: KeyFolder) -> None:
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: ensure_keys(folder), range(8)))
    assert len({public for public, _ in found}) == 1
    assert sum(made for _, made in found) == 1


def test_processes_at_once_make_one_key(folder: KeyFolder) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from gaiad.identity.keys import KeyFolder, ensure_keys\n"
        "print(ensure_keys(KeyFolder(Path(sys.argv[1])))[0].key_id)\n"
    )
    command = [sys.executable, "-c", program, str(folder.path)]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert len({child.communicate(timeout=60)[0] for child in children}) == 1


def test_a_kill_between_the_halves_is_mended(folder: KeyFolder) -> None:
    public, _ = ensure_keys(folder)
    folder.public.unlink()
    (folder.path / ".identity.pub.new").write_text("half")
    assert ensure_keys(folder) == (public, False)


@pytest.mark.parametrize("wrong", [0o640, 0o604, 0o622])
def test_a_private_key_that_others_may_use_is_refused(folder: KeyFolder, wrong: int) -> None:
    ensure_keys(folder)
    folder.private.chmod(wrong)
    with pytest.raises(BadInput, match="chmod 600"):
        read_private(folder.private)


@pytest.mark.parametrize("wrong", [0o664, 0o646])
def test_a_trust_root_that_others_may_write_is_refused(folder: KeyFolder, wrong: int) -> None:
    ensure_keys(folder)
    folder.public.chmod(wrong)
    with pytest.raises(Conflict, match="chmod 644"):
        read_public(folder.public)


@pytest.mark.parametrize("content", [b"", b"hello", b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"])
def test_what_is_no_key_is_refused(folder: KeyFolder, content: bytes) -> None:
    ensure_keys(folder)
    folder.public.write_bytes(content)
    folder.private.write_bytes(content)
    with pytest.raises(Conflict, match="is not an Ed25519 public key"):
        read_public(folder.public)
    with pytest.raises(BadInput, match="is not an Ed25519 private key"):
        read_private(folder.private)


def test_a_missing_private_key_says_what_to_give(folder: KeyFolder) -> None:
    with pytest.raises(NotFound, match="--key"):
        read_private(folder.private)
    assert read_public(folder.public) is None


def test_a_given_key_is_trusted_only_where_no_other_is(folder: KeyFolder) -> None:
    mine, other = PrivateKey(bytes(32)).public(), PrivateKey(b"1" * 32).public()
    trust(folder, mine)
    trust(folder, mine)
    assert read_public(folder.public) == mine
    with pytest.raises(Conflict, match=f"is the key {mine.key_id}, and you gave {other.key_id}"):
        trust(folder, other)


def test_a_folder_that_is_a_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Conflict, match="the owner's key is kept there"):
        ensure_keys(KeyFolder(tmp_path / "file"))
