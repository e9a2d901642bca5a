"""Where the set-up finds and puts things, from the root of the checkout down."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
UV = VENV / "bin" / "uv"
WORK = ROOT / ".setup"
STATE = WORK / "state.json"
LOCK_FILE = ROOT / "requirements.lock"
