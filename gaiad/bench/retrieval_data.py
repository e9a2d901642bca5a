"""Labelled data sets as the archive gets them: Transmission Packets, and questions with their evidence.

Two formats: conversations as LoCoMo has them, a packet a session and one archive a conversation; and BEIR, a packet a
document and one archive for all.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import msgspec

from gaiad.base.clock import to_iso
from gaiad.base.errors import BadInput

_NAMESPACE = "http://ai-collaboration.org/transmission-packet"
_SESSION = re.compile(r"session_(\d+)")
_WHEN = "%I:%M %p ON %d %B, %Y"
_UNDATED = "2024-01-01T00:00:00Z"
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class RetrievalQuestion(msgspec.Struct, frozen=True):
    """`evidence`: what should be found, with its grade. `category` is the data set's own, "" when it has none."""

    text: str
    category: str
    evidence: dict[str, int]


class EvidenceSpan(msgspec.Struct, frozen=True):
    """Bytes `start` to `end` of a packet's document are one thing that can be evidence, such as a turn."""

    start: int
    end: int
    unit: str


class Skipped(msgspec.Struct, frozen=True):
    """What is not measured: `evidence` that names nothing of the collection, `questions` that have no other."""

    questions: int = 0
    evidence: int = 0


class Collection(msgspec.Struct, frozen=True):
    """What goes into one archive, and what it is asked. A packet without spans is evidence whole, under its unit."""

    name: str
    documents: list[tuple[str, bytes]]
    questions: list[RetrievalQuestion]
    spans: dict[str, list[EvidenceSpan]] = {}
    units: dict[str, str] = {}
    skipped: Skipped = Skipped()

    def group_of(self) -> dict[str, str]:
        """The packet that holds each unit with a span."""
        return {span.unit: packet for packet, spans in self.spans.items() for span in spans}


def read_conversations(file: Path) -> list[Collection]:
    """LoCoMo's JSON, a collection per conversation. Only ids of turns are evidence; questions without any are left out.

    Of a folder its *.json files, by name. Raises BadInput for a file that is not this and a folder without one.
    """
    if file.is_dir():
        return [collection for one in conversation_files(file) for collection in read_conversations(one)]
    found = []
    for number, sample in enumerate(samples_of(file), start=1):
        try:
            found.append(_conversation(sample))
        except KeyError as error:
            raise BadInput(f"{file}, conversation {number}: has no {error}; give LoCoMo's JSON file") from error
        except (ValueError, TypeError, AttributeError) as error:
            raise BadInput(f"{file}, conversation {number}: not as LoCoMo has them ({error}); give its file") from error
    return found


def samples_of(file: Path) -> list[Any]:
    """The conversations in a LoCoMo file, unread. Raises BadInput for one that is missing, no JSON, or no list."""
    try:
        samples = json.loads(file.read_bytes())
    except OSError as error:
        raise BadInput(f"{file}: cannot be read ({error.strerror}); give LoCoMo's JSON file") from error
    except ValueError as error:
        raise BadInput(f"{file}: not JSON ({error}); give LoCoMo's JSON file") from error
    if not isinstance(samples, list):
        raise BadInput(f"{file}: not a list of conversations; write one conversation as [{{...}}], as LoCoMo's file is")
    return samples


def conversation_files(source: Path) -> list[Path]:
    """The file itself, or a folder's *.json by name. Raises BadInput for a folder without one."""
    files = sorted(source.glob("*.json")) if source.is_dir() else [source]
    if not files:
        raise BadInput(f"{source}: no *.json file in this folder; give LoCoMo's JSON file or the folder it is in")
    return files


def fingerprint(files: Iterable[Path]) -> str:
    """SHA-256 of the files one after the other, in hex."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def sessions(sample: Mapping[str, Any]) -> Iterator[tuple[str, datetime, list[dict[str, Any]]]]:
    """The name, time and turns of each session of a LoCoMo conversation, the earliest first."""
    talk = sample["conversation"]
    for key in sorted(filter(_SESSION.fullmatch, talk), key=lambda name: int(name.removeprefix("session_"))):
        yield key, datetime.strptime(talk[f"{key}_date_time"].upper(), _WHEN).replace(tzinfo=UTC), talk[key]


def _conversation(sample: Mapping[str, Any]) -> Collection:
    talk = sample["conversation"]
    speakers = [str(talk["speaker_a"]), str(talk["speaker_b"])]
    documents, spans = [], {}
    known: set[str] = set()
    for key, moment, said in sessions(sample):
        packet_id = moment.strftime("tp-%Y%m%d-%H%M%S")
        if packet_id in spans:  # two sessions of one minute
            packet_id += f"-{key}"
        turns = [(str(turn["dia_id"]), _spoken(turn)) for turn in said]
        document, spans[packet_id] = _session_packet(packet_id, to_iso(moment), speakers, turns)
        documents.append((f"{packet_id}.xml", document))
        known.update(turn for turn, _ in turns)
    questions, unknown = [], 0
    for asked in sample["qa"]:
        evidence = {turn: 1 for turn in asked.get("evidence", []) if turn in known}
        unknown += sum(turn not in known for turn in asked.get("evidence", []))
        if evidence:
            questions.append(RetrievalQuestion(str(asked["question"]), str(asked["category"]), evidence))
    skipped = Skipped(len(sample["qa"]) - len(questions), unknown)
    return Collection(str(sample["sample_id"]), documents, questions, spans, skipped=skipped)


def _spoken(turn: Mapping[str, Any]) -> str:
    shared = f" [shares a picture: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
    return f"{turn['speaker']}: {turn['text']}{shared}"


def _session_packet(
    packet_id: str, time: str, speakers: Sequence[str], turns: Sequence[tuple[str, str]]
) -> tuple[bytes, list[EvidenceSpan]]:
    pair = f"{speakers[0]} and {speakers[1]}"
    transcript = "\n".join(said for _, said in turns)
    begin = _opening(
        packet_id,
        time,
        f"Conversation of {pair}",
        f"""<tp:last_interaction>{time}</tp:last_interaction>
    <tp:session_span>one sitting</tp:session_span>
    <tp:session_count>1</tp:session_count>
    <tp:context_depth>{len(turns)} turns</tp:context_depth>
    <tp:model>{_text(speakers[1])}</tp:model>
    <tp:researcher>{_text(speakers[0])}</tp:researcher>""",
        f"""<tp:summary>A conversation of {len(turns)} turns.</tp:summary>
    <tp:content>A conversation between {_text(pair)}.</tp:content>
    <tp:transcript>""",
    )
    digest = hashlib.sha256(transcript.encode()).hexdigest()
    end = f"""</tp:transcript>
  </tp:body>
  <tp:integrityChain>
    <tp:algorithm>SHA-256</tp:algorithm>
    <tp:entries><tp:entry><tp:index>0</tp:index><tp:timestamp>{time}</tp:timestamp><tp:hashValue>{digest}</tp:hashValue>\
<tp:signerId>recorder</tp:signerId><tp:note>SHA-256 of body/transcript</tp:note></tp:entry></tp:entries>
  </tp:integrityChain>
</tp:transmissionPacket>
""".encode()
    spans, lines, at = [], [], len(begin)
    for unit, said in turns:
        line = _text(said).encode()
        spans.append(EvidenceSpan(at, at + len(line), unit))
        lines.append(line)
        at += len(line) + 1
    return begin + b"\n".join(lines) + end, spans


def read_beir(folder: Path) -> list[Collection]:
    """corpus.jsonl, queries.jsonl and qrels/test.tsv of `folder` as one collection; queries without judgement left out.

    A judgement of a document that is not in the corpus is left out too: nothing could find it.
    Raises BadInput naming the file that is missing or reads otherwise.
    """
    judged = _judgements(folder / "qrels" / "test.tsv")
    documents: list[tuple[str, bytes]] = []
    units: dict[str, str] = {}
    for row in _rows(folder / "corpus.jsonl"):
        packet_id = f"document-{len(units):07d}"
        units[packet_id] = row["_id"]
        begin = _opening(packet_id, _UNDATED, row.get("title", ""), "", "<tp:content>")
        end = b"</tp:content></tp:body></tp:transmissionPacket>\n"
        documents.append((f"{packet_id}.xml", begin + _text(row["text"]).encode() + end))
    known = frozenset(units.values())
    relevant = {query for query, grades in judged.items() if any(grade > 0 for grade in grades.values())}
    grades = {query: {unit: grade for unit, grade in of.items() if unit in known} for query, of in judged.items()}
    questions = [
        RetrievalQuestion(row["text"], "", grades[row["_id"]])
        for row in _rows(folder / "queries.jsonl")
        if any(grade > 0 for grade in grades.get(row["_id"], {}).values())
    ]
    unknown = sum(unit not in known for of in judged.values() for unit, grade in of.items() if grade > 0)
    skipped = Skipped(len(relevant) - len(questions), unknown)
    return [Collection(folder.name, documents, questions, units=units, skipped=skipped)]


def _judgements(file: Path) -> dict[str, dict[str, int]]:
    """The grade of every judged document, by query. Raises BadInput naming the line that is none."""
    grades: dict[str, dict[str, int]] = {}
    for number, line in enumerate(_lines(file)):
        parts = line.split("\t")
        if number == 0 and not parts[-1].strip().lstrip("-").isdigit():
            continue
        if len(parts) != 3 or not parts[2].strip().lstrip("-").isdigit():
            raise BadInput(f"{file}, line {number + 1}: give query, document and grade")
        grades.setdefault(parts[0], {})[parts[1]] = int(parts[2])
    return grades


def _rows(file: Path) -> Iterator[dict[str, str]]:
    for number, line in enumerate(_lines(file)):
        try:
            row = msgspec.json.decode(line, type=dict[str, Any])
            yield {key: str(row[key]) for key in ("_id", "title", "text") if key in row or key != "title"}
        except KeyError as error:
            raise BadInput(f"{file}, line {number + 1}: has no {error}; give an object with _id and text") from error
        except msgspec.DecodeError as error:
            raise BadInput(f"{file}, line {number + 1}: not an object with _id and text ({error})") from error


def _lines(file: Path) -> list[str]:
    try:
        return [line for line in file.read_text(encoding="utf-8").split("\n") if line.strip()]
    except OSError as error:
        raise BadInput(f"{file}: cannot be read ({error.strerror}); give a folder in BEIR's format") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{file}: not UTF-8 ({error}); give a folder in BEIR's format") from error


def _opening(packet_id: str, time: str, topic: str, header: str, body: str) -> bytes:
    """A packet of the reference dialect up to the beginning of its text."""
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<tp:transmissionPacket xmlns:tp="{_NAMESPACE}" version="2.0" id="{packet_id}">
  <tp:header>
    <tp:id>{packet_id}</tp:id>
    <tp:packet_created>{time}</tp:packet_created>
    {header}
    <tp:topic>{_text(topic)}</tp:topic>
    <tp:challenge_phrases/>
  </tp:header>
  <tp:body>
    {body}""".encode()


def _text(text: str) -> str:
    return escape(_NO_XML.sub(" ", text))
