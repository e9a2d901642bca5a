"""Vocabularies of real models for the tests: they lie in llama.cpp's sources, which the set-up compiles anyway.

Taken from what uv has unpacked, else from the source archive, fetched again as the lock names it. Only `make test`
wants them; without them the tests that need them are skipped, and say so.
"""

import hashlib
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

from gaiad.bootstrap.children import SetupFailed, alone, run, say
from gaiad.bootstrap.registry import lock_entries
from gaiad.bootstrap.state import LOCK_FILE, PYTHON, UV, WORK

PACKAGE = "llama-cpp-python"
INSIDE = "vendor/llama.cpp/models"
VOCABULARIES = {
    "qwen2": "44c2f46b715f585c6ab513970e8a006bfa5badd6108560054921cf598d154d8c",
    "llama-bpe": "97272e430d53bc7688f52d5e0ad8ea8f163ede9f1bbd1694feaa504797d5d96e",
    "phi-3": "967d7190d11c4842eab697079d98d56c2116e10eb617be355a2733bfc132e326",
    "gemma-4": "58b1ba0b57f3b4d7c468ba4ffd91ad85190346a3d7ad7e71d1cabaae8a14bb65",
    "deepseek-llm": "867f77537b54565f0d81d508c04edc41aa1d4ffc1a92745f225b4c1b02755f76",
}


def provide_vocabularies() -> None:
    """Put the missing ones into .setup/vocabularies. What cannot be had is said and does not stop anything."""
    with alone():
        folder = WORK / "vocabularies"
        folder.mkdir(exist_ok=True)
        if not missing(folder):
            return
        entry = lock_entries(LOCK_FILE.read_text(encoding="utf-8"))[PACKAGE]
        take_unpacked(folder, entry)
        try:
            if missing(folder):
                fetch(folder, entry)
        except SetupFailed as error:
            say(f"tests of real vocabularies will be skipped: {error}")
            return
        if absent := missing(folder):
            say(f"tests of real vocabularies will be skipped: {PACKAGE} has no {', '.join(absent)} as known here")


def missing(folder: Path) -> list[str]:
    """The names without a file; one with a file had the right bytes when it came there."""
    return [name for name in VOCABULARIES if not (folder / f"{name}.gguf").is_file()]


def take_unpacked(folder: Path, entry: str) -> None:
    """From uv's cache, where the archive that was compiled lies unpacked."""
    version = _version(entry)
    told = subprocess.run([str(UV), "cache", "dir"], capture_output=True, text=True, check=False)
    if told.returncode or not told.stdout.strip():
        return
    cache = Path(told.stdout.strip())
    for name in missing(folder):
        place = f"sdists-v*/**/{PACKAGE}/{version}/*/src/{INSIDE}/ggml-vocab-{name}.gguf"
        for source in sorted(cache.glob(place)):
            if put(folder, name, source.read_bytes()):
                break


def fetch(folder: Path, entry: str) -> None:
    """From the source archive. Raises SetupFailed when the registry does not give it."""
    wanted, place = WORK / "sources.txt", WORK / "sources"
    wanted.write_text(entry, encoding="utf-8")
    say(f"fetching {PACKAGE}'s source archive for vocabularies that tests need (about 80 MB, once)")
    pip = [str(PYTHON), "-m", "pip", "download", "--disable-pip-version-check", "--no-input", "--retries", "1"]
    only = ["--no-deps", "--no-binary", PACKAGE, "--require-hashes", "-r", str(wanted), "-d", str(place)]
    try:
        run("fetching sources", [*pip, *only], "sources.log")
        for archive in place.glob("*.tar.gz"):
            take_packed(folder, archive)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def take_packed(folder: Path, archive: Path) -> None:
    """From the archive as it was published; only the members wanted are read, nothing is unpacked."""
    names = {f"{INSIDE}/ggml-vocab-{name}.gguf": name for name in missing(folder)}
    with tarfile.open(archive) as packed:
        for member in packed:
            name = names.get(member.name.partition("/")[2])
            content = packed.extractfile(member) if name else None
            if name and content:
                put(folder, name, content.read())


def put(folder: Path, name: str, data: bytes) -> bool:
    """Write it, in one move, when it has the bytes known here."""
    if hashlib.sha256(data).hexdigest() != VOCABULARIES[name]:
        return False
    fresh = folder / f"{name}.new"
    fresh.write_bytes(data)
    fresh.replace(folder / f"{name}.gguf")
    return True


def _version(entry: str) -> str:
    found = re.match(r"\S+==(\S+)", entry)
    if found is None:
        raise SetupFailed(f"{LOCK_FILE.name} names no version of {PACKAGE}; run make lock")
    return found[1]


if __name__ == "__main__":
    provide_vocabularies()
