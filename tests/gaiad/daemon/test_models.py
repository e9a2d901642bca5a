"""A missing embedder is no reason not to start; it says what to do about the file that was meant."""

from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest

from gaiad.base.clock import SystemClock
from gaiad.base.config import load_config
from gaiad.daemon.assemble import open_embedder


@pytest.mark.parametrize(
    ("kind", "remedy", "other"),
    [("gguf", "correct embedder.path", "`make`"), ("minilm", "`make` provisions the default model", "embedder.path")],
)
async def test_a_missing_embedder_names_its_own_remedy(tmp_path: Path, kind: str, remedy: str, other: str) -> None:
    settings = msgspec.structs.replace(
        load_config(environment={}).embedder, kind=kind, path=str(tmp_path / "none.gguf") if kind == "gguf" else ""
    )
    environment = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), "GAIAD_MODELS": str(tmp_path)}
    async with AsyncExitStack() as stack:
        embedder, why = await open_embedder(stack, settings, SystemClock("UTC"), environment)
    assert embedder is None
    assert remedy in why
    assert other not in why
    assert "Search is lexical" in why
