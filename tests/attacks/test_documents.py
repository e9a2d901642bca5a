"""Documents made to cost far more than their size: a page each few bytes, one emoji in megabytes, nests and floods."""

from pathlib import Path

from tests.makers.attacked import Attacked, Row, tries

_SENTENCE = "word and some more text that goes on. "


def _xml(content: str) -> str:
    head = "<transmission_packet><header><id>TP-LONG</id></header><body><content>"
    return f"{head}{content}</content></body></transmission_packet>"


def test_documents_that_cost_more_than_their_size(attacked: Attacked, row: Row) -> None:
    """Twice the text may take about twice as long; four times as long shows a square."""
    size = tries(250_000, 1_500_000)
    kinds = {
        "a question in six bytes": lambda many: "Q:\nA:\n" * (many // 6),
        "one emoji": lambda many: "😀" + _SENTENCE * (many // len(_SENTENCE)),
        "one emoji at the end": lambda many: _SENTENCE * (many // len(_SENTENCE)) + "😀",
        "one word": lambda many: "😀" + "x" * many,
        "short lines": lambda many: "ä\n" * (many // 2),
        "escapes": lambda many: "&amp;" * (many // 5),
    }
    for name, made in kinds.items():
        took = []
        for many in (size, 4 * size):
            begun = _processor_s(attacked)
            attacked.ingest(f"{name}-{many}.xml", _xml(made(many)))
            took.append(_processor_s(attacked) - begun)
        row.check(took[1] < 0.5 + 12 * took[0], f"{name}: {took[0]:.1f} s, and {took[1]:.1f} s for four times as much")


def test_a_document_of_more_pages_than_allowed(attacked: Attacked, row: Row) -> None:
    outcome = attacked.ingest("many.xml", _xml("Q: x\nA: y\n" * 60_000))
    row.check(outcome["outcome"] == "quarantined" and "packets.max_pages = 50000" in outcome["reason"], outcome)


def test_duplicate_keys_in_json(attacked: Attacked, row: Row) -> None:
    for body in (
        '{"packet_id": "TP-D", "content": "one", "packet_id": "TP-E"}',
        '{"packet_id": "TP-D", "content": "one", "content": "two"}',
        '{"packet_id": "TP-D", "header": {"topic": "a", "topic": "b"}, "content": "one"}',
        '{"packet_id": "TP-D", "content": "one", "c\\u006fntent": "two"}',
    ):
        outcome = attacked.ingest("double.json", body)
        row.check(outcome["outcome"] == "quarantined" and "twice" in outcome["reason"], outcome)


def _processor_s(attacked: Attacked) -> float:
    fields = Path(f"/proc/{attacked.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100
