"""Settings and homes of daemons under test whose roles say what a script tells them."""

from collections.abc import Sequence
from pathlib import Path

COUNCIL = ("prime", "lite", "codemind")
WITHOUT_EMBEDDER = '[embedder]\nkind = "none"\n'


def scripted_settings(script: Path, roles: Sequence[str] = COUNCIL) -> str:
    """These roles share one model, which speaks by the script."""
    owned = "".join(f'{role} = "script"\n' for role in roles)
    return f'[models.known.script]\nkind = "scripted"\npath = "{script}"\n[roles]\n{owned}'


def scripted_home(folder: Path, script: str, more: str = WITHOUT_EMBEDDER, roles: Sequence[str] = COUNCIL) -> Path:
    """A home in the folder, the script beside it; `more` are further settings."""
    (folder / "script.toml").write_text(script)
    home = folder / "h"
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text(scripted_settings(folder / "script.toml", roles) + more)
    return home
