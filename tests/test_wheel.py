"""The built wheel: everything a user needs is inside, nothing else, and the installed package finds its own files."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import gaiad.base.config

ROOT = Path(__file__).parent.parent
PACKAGES = ("gaiad", "council", "router", "prompts", "constants")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(target), str(ROOT)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    (path,) = target.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("installed")
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    installer = [uv, "pip", "install"] if uv else [sys.executable, "-m", "pip", "install"]
    subprocess.run(
        [*installer, "--no-deps", "--quiet", "--no-index", "--target", str(target), str(wheel)], check=True, cwd=target
    )
    return target


def shipped(folder: str, pattern: str) -> set[str]:
    return {str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob(pattern) if path.is_file()}


def test_the_five_packages_with_their_data_are_inside(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"{package}/__init__.py" for package in PACKAGES} <= names
    assert {"gaiad/config.toml", "gaiad/py.typed", "gaiad/systemd/gaiad.service", "gaiad/systemd/gaiad.socket"} <= names
    for folder, pattern in (
        ("prompts/text", "*.md"),
        ("constants", "*.toml"),
        ("gaiad/samples", "*.*"),
        ("gaiad", "*.sql"),
        ("gaiad", "*.py"),
    ):
        expected = shipped(folder, pattern)
        assert expected, folder
        assert expected <= names, expected - names


def test_nothing_else_is_inside(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(PACKAGES)
    assert not [name for name in names if "test" in Path(name).name or name.endswith((".pyc", ".lock", ".gguf"))]


def test_both_programs_are_installed(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (entry_points,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
    text = archive.read(entry_points).decode()
    assert "gaiad = gaiad.cli.main:main" in text
    assert "gam-research = gaiad.cli.main:gam_research" in text


def test_an_installed_gaiad_reads_its_packaged_files(installed: Path) -> None:
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from gaiad.base.config import default_file, load_config\n"
        "from prompts.load import check_all\n"
        "from router.routing import routing_table\n"
        "load_config([], {}); routing_table()\n"
        "print(default_file(), len(check_all()))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, str(installed)], capture_output=True, text=True, cwd=installed, check=False
    )
    assert ran.stdout.split() == [
        str(installed / "gaiad" / "config.toml"),
        str(len(shipped("prompts/text", "*.md"))),
    ], ran.stderr


def test_an_editable_gaiad_reads_the_root_of_the_checkout() -> None:
    assert gaiad.base.config.default_file() == ROOT / "config.toml"
