"""GAIA's own thoughtstreams (`<session>_<day>.jsonl`, records with `ts_utc`) and thought seeds (seed_*.json)."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from gaiad.archive.importing.kind import Item, Kind, as_dict, as_text, of_records
from gaiad.archive.importing.sample import ExportRecord, Problem, Sample
from gaiad.archive.reading.conversation import Conversation, Message, iso_time

_SEEDS = {"thought_seed": "value", "thought_seed_saved": "seed"}


def _recognises(sample: Sample) -> bool:
    values = [as_dict(record.value) for record in sample.first]
    return sample.form == "lines" and bool(values) and all("ts_utc" in value and "type" in value for value in values)


def _read(sample: Sample) -> Iterator[Item]:
    raw = bytearray()
    messages: list[Message] = []
    packets: list[Message] = []
    left_out: Counter[str] = Counter()
    model = ""
    for number, record in enumerate(sample.records()):
        if isinstance(record, Problem):
            yield record
            continue
        raw += record.raw + b"\n"
        value = as_dict(record.value)
        kind, time = as_text(value.get("type")), iso_time(value.get("ts_utc"))
        model = as_text(value.get("model")) or model
        if kind == "turn_end":
            messages += _turn(number, as_text(value.get("user")), as_text(value.get("assistant")), time)
        elif kind == "cognition_packet":
            packets += _packet(number, as_dict(value.get("packet")), time)
        elif kind in _SEEDS and as_text(value.get(_SEEDS[kind])).strip():
            seed = as_text(value[_SEEDS[kind]])
            messages.append(Message(id=f"seed-{number}", speaker="assistant", text=seed, time=time, part="content"))
        else:
            left_out["events of the program"] += 1
    name = sample.source.name.rpartition("/")[2].removesuffix(".jsonl")
    turns = any(each.part == "transcript" for each in messages)
    yield Conversation(
        kind="thoughtstream",
        id=name,
        title=name.rpartition("_")[0] or name,
        messages=messages if turns else sorted((*messages, *packets), key=lambda each: each.time.rstrip("Z")),
        raw=bytes(raw),
        model=model,
        left_out=dict(left_out),
    )


def _turn(number: int, user: str, assistant: str, time: str) -> list[Message]:
    sides = (("user", user), ("assistant", assistant))
    return [
        Message(id=f"turn-{number}-{who}", speaker=who, text=text, time=time) for who, text in sides if text.strip()
    ]


def _packet(number: int, packet: dict[str, Any], time: str) -> list[Message]:
    """Question and answer of a whole Cognition Packet: for streams that have no other record of the turn."""
    prompt = as_text(as_dict(packet.get("content")).get("original_prompt"))
    return _turn(number, prompt, as_text(as_dict(packet.get("response")).get("candidate")), time)


def _is_seed(record: ExportRecord) -> bool:
    value = as_dict(record.value)
    return isinstance(value.get("seed"), str) and "created" in value and ("seed_type" in value or "reviewed" in value)


def _seed(record: ExportRecord, sample: Sample) -> Iterator[Conversation]:
    value = record.value
    created = iso_time(value.get("created"))
    prompt = as_text(as_dict(value.get("context")).get("prompt"))
    texts = [("prompt", prompt), ("seed", value["seed"]), ("result", as_text(value.get("result")))]
    kind = as_text(value.get("seed_type"))
    yield Conversation(
        kind="thought_seed",
        id=sample.source.name.rpartition("/")[2].removesuffix(".json"),
        title="",
        messages=[
            Message(id=name, speaker="", text=text, time=created, part="content")
            for name, text in texts
            if text.strip()
        ],
        raw=record.raw,
        created=created,
        tags=(kind,) if kind else (),
    )


THOUGHTSTREAM = Kind("thoughtstream", "GAIA thoughtstream", _recognises, _read)
THOUGHT_SEED = of_records("thought_seed", "GAIA thought seed", _is_seed, _seed)
