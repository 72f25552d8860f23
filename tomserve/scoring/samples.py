"""Combine the samples of a question, that is the replies to the same prompt under several seeds, into one scored row.

The answer of the row is the one that most samples give (self-consistency: Wang et al., ICLR 2023, section 2, without
weights). Of answers that equally many samples give, the one that came with the lowest sample number counts. A sample
without a readable answer does not vote. Every other column, such as those of the chain, is that of the first sample
that gave this answer; where no sample gave any, it is that of the first sample.

Where another tool graded the samples (see tomserve.scoring.graded), it need not say what it read. If it counts one as
right without saying its answer, or says none of a question, the marks vote instead: right or wrong, and of as many of
each the one that came with the lowest sample number.

>>> salt, nothing = {"answer": "salt", "correct": False}, {"answer": None, "correct": False}
>>> rows = [{"answer": "tea", "correct": True}, nothing, salt, salt]
>>> majority(rows)
2
>>> found = sample_fields(rows, [0, 1, 2, 3], 2)
>>> found["samples_right"], found["samples_read"], found["correct_any"], found["correct_all"], found["correct_mean"]
(1, 3, True, False, 0.25)
>>> marks = [{"answer": None, "correct": right, "parse": "graded"} for right in (False, True, True)]
>>> majority(marks), sample_fields(marks, [0, 1, 2], 1)["samples_read"]
(1, 3)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from tomserve.scoring import graded
from tomserve.scoring.metric import Kind
from tomserve.status import UNANSWERED

SAMPLED: dict[str, Kind] = {
    "sample": pl.Int64,
    "samples": pl.Int64,
    "samples_right": pl.Int64,
    "samples_read": pl.Int64,
    "correct_any": pl.Boolean,
    "correct_all": pl.Boolean,
    "correct_mean": pl.Float64,
}
"""Columns that a score table has only where a question was asked several times.

sample: the sample whose reply the row describes, from 0. samples: how many samples there are. samples_right: how many
of them are right. samples_read: how many hold an answer that could be read, or were graded by the tool that asked,
where its grade counts. correct_any, correct_all: whether any
sample, or every one, is right. correct_mean: the share of samples that are right; one without an answer is wrong."""

PEOPLE: dict[str, Kind] = {
    "people": pl.List(pl.String),
    "people_right": pl.List(pl.Int64),
}
"""Columns that a score table has only where people answered, each of whom is one sample (see tomserve.humans).

people: the codes of those who answered the question. people_right: for each of them 1 where the answer is right, else
0. Both are null where nobody did."""

Row = Mapping[str, Any]


def sample_of(row: Row) -> int:
    """The number of the sample that a response is, from 0; 0 where it names none."""
    sample = row.get("sample")
    return sample if type(sample) is int else 0


def people_fields(records: Sequence[Row], rows: Sequence[Row]) -> dict[str, Any]:
    """The columns of PEOPLE for one question.

    records: its scored samples, each with `status` and `correct`. rows: the responses that they were made from, each
    with the `person` who gave it.
    """
    there = [
        (str(row["person"]), int(bool(record["correct"])))
        for record, row in zip(records, rows, strict=True)
        if row.get("person") is not None and record["status"] != UNANSWERED
    ]
    return {"people": [code for code, _ in there] or None, "people_right": [right for _, right in there] or None}


def majority(records: Sequence[Row]) -> int:
    """The place of the record that stands for all of them: the first that gave the answer that most of them give.

    records: the scored samples of one question in their order, each with its `answer`, None where none was read. Where
    these do not say what another tool graded, the first with the mark that most of them have.
    """
    given = [record["answer"] for record in records]
    marks = [bool(record["correct"]) if _graded(record) else None for record in records]
    silent = any(mark and answer is None for mark, answer in zip(marks, given, strict=True))
    voting: list[Any] = marks if silent or all(answer is None for answer in given) else given
    votes = Counter(vote for vote in voting if vote is not None)
    most = max(votes.values(), default=0)
    return next((place for place, vote in enumerate(voting) if votes[vote] == most), 0)


def _graded(record: Row) -> bool:
    """Whether the grade of the tool that asked is the score of a sample."""
    return record.get("parse") == graded.PARSE


def sample_fields(records: Sequence[Row], samples: Sequence[int], chosen: int) -> dict[str, Any]:
    """The columns of SAMPLED for one question.

    records: its scored samples, each with `answer`, `correct` and `parse`. samples: the number of each. chosen: the
    place of the record that stands for all (see `majority`).
    """
    right = sum(bool(record["correct"]) for record in records)
    asked = sum(record.get("status") != UNANSWERED for record in records)  # what somebody left open counts nowhere
    return {
        "sample": samples[chosen],
        "samples": asked,
        "samples_right": right,
        "samples_read": sum(record["answer"] is not None or _graded(record) for record in records),
        "correct_any": right > 0,
        "correct_all": 0 < right == asked,
        "correct_mean": right / asked if asked else None,
    }
