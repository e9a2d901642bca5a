"""The skills that gaiad ships hold what GAM asks for, and speak of nothing that gaiad does not offer."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gaiad.bench.daemon_process import BenchDaemon, running_daemon
from gaiad.intake.mcp_tools import MEMORY_TOOLS

DOCS = Path(__file__).resolve().parents[2] / "docs"
SKILLS = json.loads((DOCS / "skills_manifest.json").read_text())["skills"]
(GAM,) = [skill for skill in SKILLS if skill["name"] == "gam-researcher-agent"]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BenchDaemon]:
    import gaiad

    with running_daemon("embedder.kind=none", home=tmp_path_factory.mktemp("skills") / "h") as running:
        running.client.post("/ingest", {"paths": [str(Path(gaiad.__file__).parent / "samples")], "wait": True})
        yield running


def test_every_skill_has_its_file_with_front_matter_that_agents_accept() -> None:
    for skill in SKILLS:
        text = (DOCS / skill["path"]).read_text(encoding="utf-8")
        _, front, body = text.split("---\n", 2)
        told = yaml.safe_load(front)
        assert set(told) == {"name", "description"}
        assert told["name"] == skill["name"] == (DOCS / skill["path"]).parent.name
        assert re.fullmatch("[a-z0-9-]{1,64}", told["name"])
        assert 0 < len(told["description"]) <= 1024
        assert all(trigger in told["description"] for trigger in skill["invocation_triggers"])
        assert body.strip()


def test_every_tool_that_is_named_is_offered() -> None:
    text = (DOCS / GAM["path"]).read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_]+)`", text)) - {"gaiad"}
    assert named == set(MEMORY_TOOLS)


@pytest.mark.parametrize("trigger", GAM["invocation_triggers"])
def test_what_invokes_the_skill_is_answered_from_the_packets(daemon: BenchDaemon, trigger: str) -> None:
    found = daemon.client.post("/research", {"query": f"{trigger} noun bias"})
    assert found["status"] in ("SUCCESS", "PARTIAL"), found
    assert "tp-20251127-033715" in {citation["packet_id"] for citation in found["citations"]}
