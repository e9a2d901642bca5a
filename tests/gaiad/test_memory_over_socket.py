"""JIT's memory API of a real daemon: off as shipped, on by a setting that a reload applies, counted in its status."""

from pathlib import Path

import pytest

from gaiad.base.errors import Unavailable
from gaiad.bench.daemon_process import running_daemon
from gaiad.wire.status import ReloadReport

SESSION = {"tenantId": "work", "sessionId": "s", "turns": [{"role": "user", "content": "The gate code is 4711."}]}
REQUEST = {"tenantId": "work", "request": "What is the gate code?"}


def test_the_memory_api_of_a_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEMORY_GAM_ENABLED", raising=False)
    home = tmp_path / "h"
    home.mkdir(mode=0o700)
    with running_daemon("embedder.kind=none", home=home) as daemon:
        with pytest.raises(Unavailable, match="MEMORY_GAM_ENABLED"):
            daemon.client.post("/memory/build_context", REQUEST)
        (home / "config.toml").write_text("[memory]\ngam_enabled = true\n")
        assert daemon.client.reload_config() == ReloadReport(changed=["memory.gam_enabled"], restart_needed=[])
        made = daemon.client.post("/memory/ingest_session", SESSION)
        assert daemon.client.post("/memory/ingest_session", SESSION) == made
        built = daemon.client.post("/memory/build_context", REQUEST)
        assert built["evidence"][0]["pageId"] == made["pages"][0]["id"]
        assert "4711" in built["executiveSummary"]
        status = daemon.status()
        assert status["counters"]["gam_context_tokens_out"] == built["tokensUsed"] > 0
        assert status["latencies"]["gam_build_context_latency_ms"]["count"] == 1
