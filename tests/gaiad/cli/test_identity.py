"""`gaiad identity` on real files: what it shows, when it exits 1, and the way from a change back to a good home."""

import fcntl
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from gaiad.cli.main import program, run
from gaiad.identity.keys import KeyFolder, ensure_keys
from gaiad.ledger.audit import export_lines, verify_home
from prompts.identity import identity_bytes, identity_digest, shipped_identity


@dataclass
class Owner:
    """A home and the folder of its owner's keys."""

    home: Path
    folder: KeyFolder

    def __call__(self, *arguments: str) -> int:
        return run(program, "gaiad", ["identity", *arguments, "--home", str(self.home)])

    @property
    def file(self) -> Path:
        return self.home / "identity" / "identity.toml"


@pytest.fixture
def owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Owner:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return Owner(tmp_path / "home", KeyFolder(tmp_path / "config" / "gaiad"))


def newer(tmp_path: Path, version: str = "1.1.0") -> str:
    file = tmp_path / f"{version}.toml"
    content = identity_bytes(shipped_identity()).replace(b"1.0.0", version.encode()).replace(b"curiosity", b"patience")
    file.write_bytes(content)
    return str(file)


def test_init_makes_the_key_says_where_and_verify_exits_0(owner: Owner, capsys: pytest.CaptureFixture[str]) -> None:
    assert owner("verify") == 1
    assert capsys.readouterr().out == "problem: no identity is signed in this home yet\n"
    assert owner("init") == 0
    said = capsys.readouterr().out
    assert "GAIA 1.0.0 is in force, signed by the owner's key " in said
    assert f"private key: {owner.folder.private} (keep a copy; you can move it offline)" in said
    assert owner("verify", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], found["version"], found["digest"]) == (True, "1.0.0", identity_digest(shipped_identity()))
    assert owner("init") == 0
    assert verify_home(owner.home).rows == 2


def test_show_tells_the_stability_score_and_which_criteria_are_not_met(
    owner: Owner, capsys: pytest.CaptureFixture[str]
) -> None:
    owner("init")
    capsys.readouterr()
    assert owner("show") == 0
    said = capsys.readouterr().out
    assert "self-reflection stability 0.000 over 24 h, from 0 results" in said
    assert "not met  prime       no sign of it is recorded" in said
    assert "not self-aware (GCP 3.3): the owner alone decides on a change of identity" in said
    assert owner("show", "--json") == 0
    found = json.loads(capsys.readouterr().out)["stability"]
    assert (found["score"], found["sample"], found["self_aware"]) == (0.0, 0, False)
    assert [each["name"] for each in found["criteria"]] == ["score", "sample", "prime", "lite", "initiative"]


def test_show_says_when_the_record_of_the_score_cannot_be_read(
    owner: Owner, capsys: pytest.CaptureFixture[str]
) -> None:
    owner("init")
    (owner.home / "state.db").write_bytes(b"words" * 100)
    capsys.readouterr()
    assert owner("show") == 0
    assert "state.db: file is not a database" in capsys.readouterr().out


def test_show_tells_who_gaia_is_who_signed_and_what_a_signature_is(
    owner: Owner, capsys: pytest.CaptureFixture[str]
) -> None:
    owner("init")
    capsys.readouterr()
    assert owner("show") == 0
    said = capsys.readouterr().out
    for words in ("GAIA 1.0.0", "- Protect private data at all costs", "tamper evidence", str(owner.folder.private)):
        assert words in said
    shutil.rmtree(owner.folder.path)
    assert owner("show") == 0
    said = capsys.readouterr().out
    assert "not trusted: " in said
    assert "without the owner's public key" in said
    assert owner("show", "--json") == 0
    assert json.loads(capsys.readouterr().out)["ok"] is False


def test_a_changed_identity_exits_1_and_init_restores_it_without_the_private_key(
    owner: Owner, capsys: pytest.CaptureFixture[str]
) -> None:
    owner("init")
    owner.folder.private.unlink()
    owner.file.write_text(owner.file.read_text().replace("Never", "Always"))
    capsys.readouterr()
    assert owner("verify") == 1
    assert "was changed since it was signed" in capsys.readouterr().out
    assert owner("verify", "--json") == 1
    assert json.loads(capsys.readouterr().out)["ok"] is False
    assert owner("init") == 0
    assert owner("verify") == 0
    assert "Always" in owner.file.with_name("identity.toml.replaced").read_text()


def test_a_new_identity_is_signed_with_a_key_from_elsewhere(
    owner: Owner, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    owner("init")
    stick = tmp_path / "stick.key"
    shutil.move(owner.folder.private, stick)
    assert owner("sign", newer(tmp_path)) == 3
    assert "--key" in capsys.readouterr().err
    assert owner("sign", newer(tmp_path), "--key", str(stick), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], found["identity"]["version"], found["shipped_version"]) == (True, "1.1.0", "1.0.0")
    assert owner("sign", "--shipped", "--key", str(stick)) == 2
    assert "version 1.0.0 is not above 1.1.0" in capsys.readouterr().err
    kinds = [json.loads(line)["kind"] for line in export_lines(owner.home)]
    assert kinds == ["identity.key_made", "identity.signed", "identity.signed"]
    assert owner("show") == 0
    assert "another one comes with this gaiad (1.0.0)" in capsys.readouterr().out


def test_another_key_or_one_that_others_can_read_does_not_sign(
    owner: Owner, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    owner("init")
    stranger = KeyFolder(tmp_path / "stranger")
    ensure_keys(stranger)
    assert owner("sign", newer(tmp_path), "--key", str(stranger.private)) == 2
    assert "give the right one with --key" in capsys.readouterr().err
    owner.folder.private.chmod(0o644)
    assert owner("sign", newer(tmp_path)) == 2
    assert "chmod 600" in capsys.readouterr().err
    assert owner("init", "--key", str(stranger.private)) == 1
    assert "move the file away to trust the other" in capsys.readouterr().err
    assert owner("sign", "x.toml", "--shipped") == 2
    assert owner("verify") == 0


def test_changes_wait_for_the_daemon_to_stop_and_looking_does_not(
    owner: Owner, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    owner("init")
    with (owner.home / "daemon.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for verb in (["init"], ["sign", newer(tmp_path)]):
            assert owner(*verb) == 1
            assert "`gaiad stop` stops it" in capsys.readouterr().err
        assert owner("verify") == 0
        assert owner("show") == 0
