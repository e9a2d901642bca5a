"""Real vocabularies for the tests: taken where the sources lie, only with the bytes known, and never in the way."""

import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from tests.makers import provided_vocabularies as vocabularies
from tests.makers.provided_vocabularies import INSIDE, missing, provide_vocabularies, take_packed, take_unpacked

ENTRY = "llama-cpp-python==9.9.9 \\\n    --hash=sha256:00\n"
KNOWN = {"small": b"a small vocabulary", "other": b"another one"}


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        vocabularies, "VOCABULARIES", {name: hashlib.sha256(data).hexdigest() for name, data in KNOWN.items()}
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "vocabularies"
    folder.mkdir()
    return folder


def fake(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def pack(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, data in members.items():
            about = tarfile.TarInfo(f"llama_cpp_python-9.9.9/{INSIDE}/ggml-vocab-{name}.gguf")
            about.size = len(data)
            archive.addfile(about, io.BytesIO(data))
    return path


def test_they_are_taken_from_uvs_cache_where_one_copy_has_the_right_bytes(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for build, data in (("aaa", b"cut off"), ("bbb", KNOWN["small"])):
        place = tmp_path / "cache" / "sdists-v11" / "pypi" / "llama-cpp-python" / "9.9.9" / build / "src" / INSIDE
        place.mkdir(parents=True)
        (place / "ggml-vocab-small.gguf").write_bytes(data)
    monkeypatch.setattr(vocabularies, "UV", fake(tmp_path / "uv", f'echo "{tmp_path / "cache"}"'))
    take_unpacked(folder, ENTRY)
    assert (folder / "small.gguf").read_bytes() == KNOWN["small"]
    assert missing(folder) == ["other"]


def test_from_the_archive_other_bytes_than_the_known_are_left(tmp_path: Path, folder: Path) -> None:
    take_packed(folder, pack(tmp_path / "a.tar.gz", {"small": KNOWN["small"], "other": b"changed", "third": b"x"}))
    assert [path.name for path in folder.iterdir()] == ["small.gguf"]


def test_what_cannot_be_had_is_said_and_stops_nothing(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("gaiad.bootstrap.children.WORK", tmp_path)
    monkeypatch.setattr(vocabularies, "WORK", tmp_path)
    monkeypatch.setattr(vocabularies, "UV", fake(tmp_path / "uv", "exit 2"))
    monkeypatch.setattr(vocabularies, "PYTHON", fake(tmp_path / "python", "echo Connection refused; exit 1"))
    provide_vocabularies()
    assert "tests of real vocabularies will be skipped: fetching sources failed" in capsys.readouterr().out
    monkeypatch.setattr(vocabularies, "PYTHON", fake(tmp_path / "python", "exit 0"))
    provide_vocabularies()
    assert "llama-cpp-python has no small, other as known here" in capsys.readouterr().out
    for name, data in KNOWN.items():
        (folder / f"{name}.gguf").write_bytes(data)
    provide_vocabularies()
    assert capsys.readouterr().out == ""
