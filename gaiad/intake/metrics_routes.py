"""The routes of the daemon's numbers: `GET /status` in JSON, and `GET /metrics` as Prometheus reads them (JIT).

Both say the same of the same `Metrics`; nothing is counted a second time. `/metrics` names no tenant: what it says of
packets and pages is the sum over those tenants that the caller may use.
"""

import re
from collections.abc import Iterable, Iterator

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, UnknownMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gaiad.base.metrics import BOUNDS_MS, Histogram, Metrics
from gaiad.intake.exchange import Exchange, Reply, Route
from gaiad.wire.schemas import DEFAULT_TENANT
from gaiad.wire.status import Status

_TEXT_FORMAT = "text/plain; version=0.0.4; charset=utf-8"
_NOTHING = Histogram(counts=[0] * (len(BOUNDS_MS) + 1), sum_ms=0.0)
_LABELLED = re.compile(r'(?P<name>\w+)\{tool="(?P<tool>\w+)"\}')
_JIT_HITS = "gam_retrieval_hits_total"
_JIT_TOOLS = ("bm25", "dense", "page_id", "metadata")
_JIT_LATENCIES = {
    "gam_ingest_latency_ms": "Milliseconds of one POST /memory/ingest_session.",
    "gam_build_context_latency_ms": "Milliseconds of one POST /memory/build_context.",
}
_JIT_SUMS = {
    "gam_pages_used": "Pages used by all briefings together; only grows.",
    "gam_reflection_steps": "Rounds of search and reflection of all briefings together; only grows.",
    "gam_context_tokens_out": "Tokens of all briefings together; only grows.",
}
_GAUGES = {
    "packets": "Packets of the tenants that the caller may use.",
    "pages": "Pages of these tenants that are searched.",
    "vectors": "Pages of these tenants that have a vector.",
    "queue": "Pages of these tenants that wait for a vector.",
    "quarantined": "Files of these tenants that could not be read.",
    "memory_bytes": "Memory that the daemon's own process holds.",
    "uptime_s": "Seconds since the daemon started.",
}


class _MetricsCollector(Collector):
    """The numbers as they are, each time they are collected."""

    def __init__(self, metrics: Metrics, status: Status) -> None:
        self._metrics = metrics
        self._status = status

    def collect(self) -> Iterator[Metric]:
        counters, histograms = self._metrics.counters(), self._metrics.histograms()
        yield from _jit(counters, histograms)
        for name in sorted(counters.keys() - _JIT_SUMS.keys()):
            if not _LABELLED.fullmatch(name):
                yield CounterMetricFamily(f"gaiad_{name}", f"Counted as {name} in gaiad status.", value=counters[name])
        own = sorted(histograms.keys() - _JIT_LATENCIES.keys())
        yield _histogram(
            "gaiad_latency_ms", "Milliseconds of each operation.", {each: histograms[each] for each in own}
        )
        for name, meaning in _GAUGES.items():
            yield GaugeMetricFamily(f"gaiad_{name}", meaning, value=getattr(self._status, name))


def _jit(counters: dict[str, int], histograms: dict[str, Histogram]) -> Iterator[Metric]:
    """Under JIT's own names, 0 where nothing was counted yet. Its sums are untyped: counters get another name."""
    for name, meaning in _JIT_LATENCIES.items():
        yield _histogram(name, meaning, {"": histograms.get(name, _NOTHING)})
    hits = CounterMetricFamily(_JIT_HITS, "Pages found for briefings, by the retriever.", labels=["tool"])
    found = {match["tool"]: count for name, count in counters.items() if (match := _LABELLED.fullmatch(name))}
    for tool in dict.fromkeys((*_JIT_TOOLS, *sorted(found))):
        hits.add_metric([tool], found.get(tool, 0))
    yield hits
    for name, meaning in _JIT_SUMS.items():
        yield UnknownMetricFamily(name, meaning, value=counters.get(name, 0))


def _histogram(name: str, meaning: str, found: dict[str, Histogram]) -> Metric:
    """One series for each operation; without a label where its name is ""."""
    family = HistogramMetricFamily(name, meaning, labels=["operation"] if "" not in found else [])
    for operation, histogram in found.items():
        labels = [operation] if operation else []
        family.add_metric(labels, list(_cumulated(histogram.counts)), histogram.sum_ms)
    return family


def _cumulated(counts: Iterable[int]) -> Iterator[tuple[str, float]]:
    """Prometheus' buckets: each holds what the smaller ones hold too."""
    total = 0
    for bound, count in zip((*(str(float(bound)) for bound in BOUNDS_MS), "+Inf"), counts, strict=True):
        total += count
        yield bound, total


async def _status(exchange: Exchange) -> Status:
    """Of one tenant (`?tenant=`), or of all the caller may use. Raises Forbidden."""
    asked = exchange.request.query.get("tenant", "")
    tenants = [asked] if asked else None if exchange.caller.owner else sorted(exchange.caller.tenants)
    for tenant in tenants or ():
        exchange.caller.require_tenant(tenant)
    call = exchange.call(tenants[0] if tenants else DEFAULT_TENANT)
    return await exchange.service.status(call, tenants)


async def status(exchange: Exchange) -> Reply:
    return await _status(exchange)


async def metrics(exchange: Exchange) -> Reply:
    """Prometheus' text format 0.0.4, which every reader of it knows."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_MetricsCollector(exchange.service.metrics, await _status(exchange)))
    return web.Response(body=generate_latest(registry), headers={"Content-Type": _TEXT_FORMAT})


def table() -> list[Route]:
    return [Route("GET", "/status", status, plain=True), Route("GET", "/metrics", metrics, plain=True)]
