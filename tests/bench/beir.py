"""A data set in BEIR's format as the archive gets it: a packet a document, one archive for all."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from gaiad.base.errors import BadInput
from gaiad.bench.retrieval_data import Collection, RetrievalQuestion, Skipped, packet_opening, xml_text

_UNDATED = "2024-01-01T00:00:00Z"


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
        begin = packet_opening(packet_id, _UNDATED, row.get("title", ""), "", "<tp:content>")
        end = b"</tp:content></tp:body></tp:transmissionPacket>\n"
        documents.append((f"{packet_id}.xml", begin + xml_text(row["text"]).encode() + end))
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
