"""Which identities a start takes: first, signed or newer ones, and none that was changed, lost or put back."""

import json
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.errors import BadInput, ConfigError, Conflict, NotFound
from gaiad.identity.keys import IdentityFiles, KeyFolder, PrivateKey, read_private, read_public, sign_identity
from gaiad.identity.signing import begin_identity, sign_file
from gaiad.identity.trust import open_identity
from gaiad.ledger.audit import AuditLog, export_lines, verify_home
from prompts.identity import Identity, identity_bytes, parse_identity, shipped_identity
from tests.makers.audits import open_audit

CLOCK = FrozenClock(datetime(2025, 12, 1, tzinfo=UTC))


@dataclass
class Place:
    """A home, the owner's keys, and the home's audit."""

    home: Path
    folder: KeyFolder
    audit: AuditLog

    @property
    def files(self) -> IdentityFiles:
        return IdentityFiles(self.home)

    def start(self) -> Identity:
        return open_identity(self.home, self.folder, self.audit)

    def kinds(self) -> list[str]:
        return [json.loads(line)["kind"] for line in export_lines(self.home)]

    def key(self) -> PrivateKey:
        return read_private(self.folder.private)

    def write(self, version: str, word: str = "patience") -> Path:
        """An identity of another version with another trait."""
        text = shipped_identity_text().replace("1.0.0", version).replace("curiosity", word)
        path = self.home / f"{version}.toml"
        path.write_text(text)
        return path


def shipped_identity_text() -> str:
    return identity_bytes(shipped_identity()).decode()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    home = tmp_path / "home"
    audit = open_audit(home, CLOCK)
    yield Place(home, KeyFolder(tmp_path / "config"), audit)
    audit.close()
    assert verify_home(home).ok


def test_a_first_start_makes_the_key_and_signs_the_shipped_identity(place: Place) -> None:
    assert place.start() == shipped_identity()
    assert place.folder.private.is_file()
    assert place.kinds() == ["identity.key_made", "identity.signed"]
    assert place.start() == shipped_identity()
    assert place.kinds() == ["identity.key_made", "identity.signed"]


def test_no_private_key_lies_in_the_home(place: Place) -> None:
    place.start()
    assert not [path for path in place.home.rglob("*") if path.is_file() and b"PRIVATE" in path.read_bytes()]
    assert place.key().secret not in (place.home / "state.db").read_bytes()


def test_a_start_needs_no_private_key(place: Place, tmp_path: Path) -> None:
    place.start()
    shutil.move(place.folder.private, tmp_path / "stick")
    assert place.start() == shipped_identity()


def test_another_layout_of_the_same_identity_is_the_same(place: Place) -> None:
    place.start()
    place.files.text.write_text("# mine\n\n" + shipped_identity_text().replace('", "', '",   "'))
    assert place.start() == shipped_identity()


def tamper_text(place: Place) -> None:
    place.files.text.write_text(shipped_identity_text().replace("Never execute", "Always execute"))


def tamper_signature(place: Place) -> None:
    content = place.files.signatures.read_text()
    first = place.files.read_signatures()[0].signature
    place.files.signatures.write_text(content.replace(first, ("B" if first[0] == "A" else "A") + first[1:]))


def sign_with_another_key(place: Place) -> None:
    content = shipped_identity_text().replace("Never", "Always").encode()
    place.files.put(content, sign_identity(PrivateKey(b"k" * 32), content))


def break_text(place: Place) -> None:
    place.files.text.write_text("version = [")


@pytest.mark.parametrize(
    ("harm", "word"),
    [
        (tamper_text, "was changed since it was signed"),
        (tamper_signature, "was changed since it was signed"),
        (sign_with_another_key, "not signed by the owner's key"),
        (lambda place: place.files.signatures.unlink(), "has no signature"),
        (lambda place: place.files.signatures.write_text("{}"), "has no signature"),
        (lambda place: place.files.text.unlink(), "is missing"),
        (lambda place: shutil.rmtree(place.files.folder), "is missing"),
        (break_text, "is not TOML"),
    ],
)
def test_what_was_changed_stops_the_start_and_init_puts_it_back(place: Place, harm, word: str, tmp_path: Path) -> None:
    place.start()
    shutil.move(place.folder.private, tmp_path / "stick")
    harm(place)
    for _ in range(3):
        with pytest.raises(ConfigError, match=rf"identity not trusted: .*{word}.*`gaiad identity init` puts back"):
            place.start()
    assert place.kinds().count("identity.refused") == 1
    assert begin_identity(place.home, place.folder, place.audit).problem == ""
    assert place.start() == shipped_identity()
    assert place.kinds()[-1] == "identity.restored"


def test_a_lost_trust_root_comes_back_from_the_private_key_and_not_from_nothing(place: Place, tmp_path: Path) -> None:
    place.start()
    place.folder.public.unlink()
    assert place.start() == shipped_identity()
    shutil.rmtree(place.folder.path)
    with pytest.raises(ConfigError, match="put it back from a backup"):
        place.start()
    assert not place.folder.private.exists()


@pytest.mark.parametrize("harm", [lambda file: file.chmod(0o666), lambda file: file.write_text("no key")])
def test_a_trust_root_that_is_none_or_that_others_may_write_stops_the_start(place: Place, harm) -> None:
    place.start()
    harm(place.folder.public)
    with pytest.raises(ConfigError, match=r"identity not trusted: .*identity\.pub"):
        place.start()
    assert place.kinds()[-1] == "identity.refused"


def test_a_private_key_that_others_may_read_stops_only_what_needs_it(place: Place, tmp_path: Path) -> None:
    place.start()
    place.folder.private.chmod(0o644)
    assert place.start() == shipped_identity()
    second = Place(tmp_path / "second", place.folder, open_audit(tmp_path / "second", CLOCK))
    with pytest.raises(ConfigError, match="chmod 600"):
        second.start()
    second.audit.close()


def test_a_kill_after_the_key_or_after_the_files_is_mended(place: Place, tmp_path: Path) -> None:
    place.start()
    place.audit.close()
    shutil.rmtree(place.home)
    place.audit = open_audit(place.home, CLOCK)  # the key is there and nothing in the home
    place.folder.public.unlink()
    assert place.start() == shipped_identity()
    assert place.kinds() == ["identity.signed"]
    (place.home / "identity").rename(tmp_path / "identity")
    place.audit.close()
    shutil.rmtree(place.home)
    place.audit = open_audit(place.home, CLOCK)
    (tmp_path / "identity").rename(place.home / "identity")  # signed, and the audit does not know it yet
    assert place.start() == shipped_identity()
    assert place.kinds() == ["identity.accepted"]
    place.files.text.unlink()
    with pytest.raises(ConfigError, match="is missing"):
        place.start()


def test_a_second_home_is_signed_by_the_same_key_and_without_it_says_what_to_do(place: Place, tmp_path: Path) -> None:
    place.start()
    second = Place(tmp_path / "second", place.folder, open_audit(tmp_path / "second", CLOCK))
    shutil.move(place.folder.private, tmp_path / "stick")
    with pytest.raises(ConfigError, match="gaiad identity init --key FILE"):
        second.start()
    assert begin_identity(second.home, second.folder, second.audit, tmp_path / "stick").problem == ""
    assert second.start() == shipped_identity()
    second.audit.close()


def test_a_trust_root_put_in_its_place_stops_the_start(place: Place) -> None:
    place.start()
    shutil.rmtree(place.folder.path)
    stranger = Place(place.home / "x", place.folder, open_audit(place.home / "x", CLOCK))
    stranger.start()
    stranger.audit.close()
    content = shipped_identity_text().encode()
    place.files.put(content, sign_identity(stranger.key(), content))
    with pytest.raises(ConfigError, match="signed this home's identity before"):
        place.start()
    assert begin_identity(place.home, place.folder, place.audit).problem == ""
    assert place.kinds()[-2:] == ["identity.key_replaced", "identity.signed"]
    assert place.start() == shipped_identity()


def test_a_newer_identity_is_signed_and_in_force_at_the_next_start(place: Place) -> None:
    place.start()
    standing = sign_file(place.home, place.folder, place.audit, place.write("1.1.0"))
    assert standing.problem == ""
    assert place.start().traits == (*shipped_identity().traits[:3], "patience", *shipped_identity().traits[4:])
    assert place.kinds()[-1] == "identity.signed"


def test_the_homes_own_file_is_what_is_signed_by_default(place: Place) -> None:
    place.start()
    place.files.text.write_bytes(place.write("1.1.0").read_bytes())
    with pytest.raises(ConfigError):
        place.start()
    sign_file(place.home, place.folder, place.audit)
    assert place.start().version == "1.1.0"


def test_an_older_identity_put_back_with_its_signature_stops_the_start(place: Place) -> None:
    place.start()
    old = (place.files.text.read_bytes(), place.files.signatures.read_bytes())
    sign_file(place.home, place.folder, place.audit, place.write("1.1.0"))
    place.files.text.write_bytes(old[0])
    place.files.signatures.write_bytes(old[1])
    with pytest.raises(ConfigError, match=r"is version 1\.0\.0, and 1\.1\.0 .* an older identity was put back"):
        place.start()
    begin_identity(place.home, place.folder, place.audit)
    assert place.start().version == "1.1.0"


def test_a_newer_signed_identity_from_elsewhere_is_accepted_and_noted(place: Place) -> None:
    place.start()
    content = identity_bytes(parse_identity("x", place.write("2.0.0").read_bytes()))
    place.files.put(content, sign_identity(place.key(), content))
    assert place.start().version == "2.0.0"
    assert place.kinds()[-1] == "identity.accepted"


@pytest.mark.parametrize("version", ["1.0.0", "0.9.9"])
def test_other_words_need_a_higher_version(place: Place, version: str) -> None:
    place.start()
    with pytest.raises(BadInput, match=r"is not above 1\.0\.0.*raise it"):
        sign_file(place.home, place.folder, place.audit, place.write(version))
    assert place.start() == shipped_identity()


def test_only_the_owners_key_signs(place: Place, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="create one with `gaiad identity init`"):
        sign_file(place.home, place.folder, place.audit, place.write("1.1.0"))
    place.start()
    stranger = Place(tmp_path / "s", KeyFolder(tmp_path / "stranger"), open_audit(tmp_path / "s", CLOCK))
    stranger.start()
    stranger.audit.close()
    with pytest.raises(BadInput, match="give the right one with --key"):
        sign_file(place.home, place.folder, place.audit, place.write("1.1.0"), stranger.folder.private)
    shutil.move(place.folder.private, tmp_path / "stick")
    with pytest.raises(NotFound, match="--key"):
        sign_file(place.home, place.folder, place.audit, place.write("1.1.0"))
    sign_file(place.home, place.folder, place.audit, place.write("1.1.0"), tmp_path / "stick")
    assert place.start().version == "1.1.0"


def test_a_faulty_or_missing_file_is_not_signed(place: Place) -> None:
    place.start()
    place.write("1.1.0").write_text('version = "1.1.0"\n')
    with pytest.raises(BadInput, match=r"1\.1\.0\.toml"):
        sign_file(place.home, place.folder, place.audit, place.home / "1.1.0.toml")
    with pytest.raises(NotFound, match="give the identity's file"):
        sign_file(place.home, place.folder, place.audit, place.home / "none.toml")


def test_init_is_the_same_twice_and_takes_a_key_that_exists(place: Place, tmp_path: Path) -> None:
    offline = Place(tmp_path / "o", KeyFolder(tmp_path / "offline"), open_audit(tmp_path / "o", CLOCK))
    offline.start()
    offline.audit.close()
    first = begin_identity(place.home, place.folder, place.audit, offline.folder.private)
    assert first.problem == ""
    assert read_public(place.folder.public) == offline.key().public()
    assert not place.folder.private.exists()
    rows = place.kinds()
    assert begin_identity(place.home, place.folder, place.audit) == first
    assert place.kinds() == rows == ["identity.signed"]


def test_an_altered_audit_does_not_give_its_identity_back(place: Place) -> None:
    place.start()
    with sqlite3.connect(place.home / "state.db") as connection:
        connection.execute("DROP TRIGGER audit_rows_do_not_change")
        connection.execute("UPDATE audit SET body = replace(body, 'Never execute', 'Always execute')")
    connection.close()
    tamper_text(place)
    with pytest.raises(Conflict, match="the identity in the audit was altered"):
        begin_identity(place.home, place.folder, place.audit)
    with sqlite3.connect(place.home / "state.db") as connection:
        connection.execute("UPDATE audit SET body = replace(body, 'Always execute', 'Never execute')")
    connection.close()
