"""How sure an answer is, by a formula a reader can redo, and the band GAM shows beside it.

    criteria   = 0.45 coverage + 0.20 specificity + 0.15 temporality + 0.20 completeness
    confidence = likelihood * (0.5 + 0.5 criteria)

the criteria each 0 to 1 as `reflect` measures them; `likelihood` is how likely the packets cited for a fact are those
that hold it (`selection.likelihoods`), 1 where several packets answer together. At most 0.95, for quoting the right
words is not yet understanding the question;
at most 0.74 for a PARTIAL answer, for one that stands on a model's own earlier words alone, and for one whose packets
contradict each other: none of these is ever HIGH;
less by the share of citations that did not verify. NOT_FOUND and CLARIFY have no answer to be sure of: 0.
`gaiad bench answers` holds confidence against what came true.
"""

from typing import Literal

from gaiad.schemas import ResearchStatus

Band = Literal["LOW", "MEDIUM", "HIGH"]

COVERAGE, SPECIFICITY, TEMPORALITY, COMPLETENESS = 0.45, 0.20, 0.15, 0.20
CRITERIA_FLOOR = 0.5
MEDIUM_FROM, HIGH_FROM = 0.5, 0.75
PARTIAL_CAP, CAP = 0.74, 0.95
DOUBTFUL_CAP = PARTIAL_CAP


def combine(
    coverage: float, specificity: float, temporality: float, completeness: float, likelihood: float = 1.0
) -> float:
    """GAM 4's four criteria in one, and how likely the right packets were chosen; each 0 to 1, and so is the result."""
    criteria = COVERAGE * coverage + SPECIFICITY * specificity + TEMPORALITY * temporality + COMPLETENESS * completeness
    return min(CAP, max(0.0, likelihood * (CRITERIA_FLOOR + (1 - CRITERIA_FLOOR) * criteria)))


def main_reason(
    confidence: float,
    coverage: float,
    specificity: float,
    temporality: float,
    completeness: float,
    likelihood: float,
    capped: str,
) -> str:
    """What takes most from an answer's `confidence`, in words, with its value where it is one of `combine`'s.

    `capped` are the words for what `final` took beside them.
    """
    criteria = {
        f"it leaves out words of the question (coverage {coverage:.2f})": COVERAGE * (1 - coverage),
        f"other pages say nearly as much (specificity {specificity:.2f})": SPECIFICITY * (1 - specificity),
        f"not all of it is of the time asked about (temporality {temporality:.2f})": TEMPORALITY * (1 - temporality),
        f"a part of what was asked is missing (completeness {completeness:.2f})": COMPLETENESS * (1 - completeness),
    }
    surest = 1 - (1 - CRITERIA_FLOOR) * sum(criteria.values())
    lost = {why: likelihood * (1 - CRITERIA_FLOOR) * share for why, share in criteria.items()}
    lost[f"another packet may as well hold the answer (likelihood {likelihood:.2f})"] = (1 - likelihood) * surest
    lost[capped] = min(CAP, likelihood * surest) - confidence
    return max(lost, key=lambda why: lost[why])


def final(confidence: float, status: ResearchStatus, verified: int, removed: int, *, doubtful: bool = False) -> float:
    """The confidence of an answer with `verified` citations left after `removed` ones failed; two decimals.

    `doubtful` says that all of them are of what a model of ours said before, which proves nothing, or that some
    contradict each other.
    """
    if status in ("NOT_FOUND", "CLARIFY") or verified == 0:
        return 0.0
    kept = confidence * verified / (verified + removed)
    cap = min(PARTIAL_CAP if status == "PARTIAL" else CAP, DOUBTFUL_CAP if doubtful else CAP)
    return round(min(kept, cap), 2)


def band(confidence: float) -> Band:
    """LOW below 0.5, MEDIUM from there, HIGH from 0.75 (GAM shows 0.65 as MEDIUM)."""
    if confidence < MEDIUM_FROM:
        return "LOW"
    return "MEDIUM" if confidence < HIGH_FROM else "HIGH"
