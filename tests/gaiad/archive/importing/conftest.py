"""Exports made up for the tests, and an import of them into an archive."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gaiad.archive.archive import LocalArchive
from gaiad.archive.importing.importer import ImportOptions
from gaiad.base.ports import RequestContext
from gaiad.wire.ingest import ImportOutcome

Import = Callable[..., Awaitable[list[ImportOutcome]]]


@pytest.fixture
def run_import(archive: LocalArchive) -> Import:
    """Imports paths and gives the outcomes: (*paths, import_id="imp_1", **options)."""

    async def run(*paths: Path, import_id: str = "imp_1", **options: Any) -> list[ImportOutcome]:
        steps = archive.import_paths(list(paths), ImportOptions(import_id, **options), RequestContext(), {})
        return [outcome async for step in steps for outcome in step.outcomes]

    return run


@pytest.fixture
def put(tmp_path: Path) -> Callable[[str, Any], Path]:
    """Writes a file below tmp_path: JSON, or lines of it when the name says so, text and bytes as they are."""

    def write(name: str, content: Any) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif isinstance(content, str):
            path.write_text(content)
        elif name.endswith(".jsonl"):
            path.write_text("".join(f"{json.dumps(line)}\n" for line in content))
        else:
            path.write_text(json.dumps(content))
        return path

    return write
